//! The one integration binary: Tidegate against real HAProxy and real Consul.

mod consul_store;
mod contract;
mod folder;
mod harness;
mod harness_holds;
mod kv_cases;
mod slow;
