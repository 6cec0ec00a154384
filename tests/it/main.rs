//! The one integration binary: Tidegate against real HAProxy and real Consul.

mod harness;
mod harness_holds;
