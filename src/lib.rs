//! Tidegate: desired state of an HAProxy fleet, held in a KV store and delivered through
//! HAProxy's own `agent-check`.

pub mod agent;
pub mod cli;
pub mod clock;
pub mod config;
pub mod disk;
pub mod domain;
pub mod http;
pub mod kv;
pub mod metrics;
pub mod progress;
pub mod serve;
pub mod store;
pub mod telemetry;
pub mod watch;
