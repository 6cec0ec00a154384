//! Tidegate: desired state of an HAProxy fleet, held in a KV store and delivered through
//! HAProxy's own `agent-check`.

pub mod clock;
pub mod config;
pub mod domain;
pub mod kv;
