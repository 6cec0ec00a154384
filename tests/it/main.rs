//! The one integration binary: Tidegate against real HAProxy and real Consul.

mod accept;
mod alerts;
mod architecture;
mod command_line;
mod consul_store;
mod contract;
mod examples;
mod fleet_view;
mod folder;
mod follows;
mod golden;
mod harness;
mod harness_holds;
mod http_api;
mod kv_cases;
mod life_cycle;
mod limits;
mod login;
mod memory;
mod operators;
mod page;
mod peers_http;
mod read_paths;
mod requests;
mod sim;
mod slow;
