//! What the service does at its limits: connections, descriptors, time, and its own end.

#![allow(
    clippy::print_stdout,
    reason = "the figures are for who reads the output"
)]

mod connections;
mod descriptors;
mod http;
mod signals;
