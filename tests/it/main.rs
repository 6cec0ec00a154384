//! The one integration binary: Tidegate against real HAProxy and real Consul.
mod folder;
