//! `deploy/onprem`: HAProxy as the balancer, and an address that keepalived moves.

mod address;
mod balancer;
mod files;
