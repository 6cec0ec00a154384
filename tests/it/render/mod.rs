//! `tidegate render`: real HAProxy accepts what it makes, and lint finds nothing in it.

mod command;
pub(crate) mod files;
