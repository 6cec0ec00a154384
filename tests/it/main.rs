//! The one integration binary: Tidegate against real HAProxy and real Consul.

mod command_line;
mod consul_store;
mod contract;
mod examples;
mod folder;
mod follows;
mod harness;
mod harness_holds;
mod http_api;
mod life_cycle;
mod limits;
mod requests;
mod slow;
