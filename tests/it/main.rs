//! The one integration binary: Tidegate against real HAProxy and real Consul.

mod consul_store;
mod contract;
mod harness;
mod harness_holds;
