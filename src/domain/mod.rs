//! Pure rules: bytes, time and configuration go in as arguments, answers come out.
//!
//! Nothing here knows a socket, a file, a clock or a log line, so that two replicas with the same
//! listing, asked the same question at the same moment, give the same answer.

pub mod acceptance;
pub mod announcement;
pub mod answer;
pub mod authority;
pub mod board;
pub mod certificate;
pub mod change;
pub mod columns;
pub mod deploy;
pub mod directive;
pub mod evidence;
pub mod explain;
pub mod fleet;
pub mod group;
pub mod haproxy;
pub mod hash;
pub mod history;
pub mod key;
pub mod listing;
pub mod memory;
pub mod migration;
pub mod name;
pub mod network;
pub mod observed;
pub mod plain;
pub mod rails;
pub mod ramp;
pub mod request;
pub mod sealed;
pub mod selector;
pub mod sentinel;
pub mod settings;
pub mod snapshot;
pub mod statement;
pub mod token;
pub mod topology;
pub mod trace_parent;
pub mod view;
pub mod visible;
pub mod word;
