//! Starts the real programs, awaits that they are ready, and ends them with the test.
//!
//! Everything here is blocking: a test is a story with one thread. Each started thing owns its
//! folder and its ports, and gives both back in `Drop`; when the test panics, the folder stays and
//! the ends of the logs are printed.

#![allow(
    dead_code,
    reason = "a tool box: it holds a verb for each thing a program can do, used or not yet"
)]

pub(crate) mod backend;
pub(crate) mod balancer;
pub(crate) mod between;
pub(crate) mod certificates;
pub(crate) mod collector;
pub(crate) mod consul;
mod consul_calls;
pub(crate) mod consul_cluster;
pub(crate) mod copied;
pub(crate) mod delay;
pub(crate) mod dial;
pub(crate) mod events;
pub(crate) mod fleet;
pub(crate) mod folder;
pub(crate) mod haproxy;
pub(crate) mod history;
pub(crate) mod http;
pub(crate) mod issuer;
pub(crate) mod judge;
pub(crate) mod keepalived;
pub(crate) mod kept;
pub(crate) mod kubernetes;
pub(crate) mod load;
pub(crate) mod manager;
pub(crate) mod mute;
pub(crate) mod netns;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod receiver;
pub(crate) mod recorder;
pub(crate) mod replicas;
pub(crate) mod responder;
pub(crate) mod small_disk;
pub(crate) mod state_folder;
pub(crate) mod stats;
pub(crate) mod terminal;
pub(crate) mod terraform;
pub(crate) mod tidegate;
pub(crate) mod tls;
pub(crate) mod tools;
pub(crate) mod trio;
pub(crate) mod wait;
pub(crate) mod witness;
pub(crate) mod writer;
