//! Scenarios that take long or load the machine: `scripts/test` runs them, the everyday loop does
//! not.

#![allow(
    clippy::print_stdout,
    reason = "the figures are for who reads the output"
)]

mod alerts;
mod balancer;
mod both_sources;
mod cluster;
mod consul_faults;
mod crowd;
mod dead_parts;
mod demo;
mod disable;
mod disk;
mod documents;
mod enrolment;
mod faulty_files;
mod folder_contract;
mod followed;
mod full_disk;
mod gone_node;
mod handover;
mod health_checks;
mod herd;
mod http_drip;
mod killed;
mod kubernetes;
mod kv_faults;
mod kv_sizes;
mod login_expiry;
mod mute;
mod nodes_ramp;
mod onprem;
mod outage;
mod package;
mod page;
mod restarts;
mod routing_table;
mod scene;
mod segments;
mod slow_source;
mod terraform;
mod traces;
mod views;
mod watched;
