//! HAProxy's configuration language, read as HAProxy 2.6 and later read it, and what is wrong with
//! it for agent checks. It judges agent checks; whether HAProxy accepts a file, `haproxy -c` says.

pub mod condition;
pub mod configuration;
pub mod lint;
pub mod reading;
pub mod render;
pub mod server;
pub mod shape;
pub mod version;
pub mod words;
