//! Scenarios that take long or load the machine: `scripts/test` runs them, the everyday loop does
//! not.

#![allow(
    clippy::print_stdout,
    reason = "the figures are for who reads the output"
)]

mod balancer;
mod consul_faults;
mod crowd;
mod folder_contract;
mod full_disk;
mod gone_node;
mod herd;
mod http_drip;
mod kv_faults;
mod kv_sizes;
mod login_expiry;
mod nodes_ramp;
mod outage;
mod restarts;
mod scene;
mod segments;
