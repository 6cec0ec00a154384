//! What `HAProxy` itself says: over a stats socket, or through Prometheus. And the two commands
//! that change a server which asks no agent yet.

pub mod prometheus;
pub mod servers;
pub mod socket;
pub mod stats;
