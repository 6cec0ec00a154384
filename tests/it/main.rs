//! The one integration binary: Tidegate against real HAProxy and real Consul.

mod consul_store;
mod contract;
mod examples;
mod folder;
mod follows;
mod harness;
mod harness_holds;
mod slow;
