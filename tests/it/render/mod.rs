//! `tidegate render`: real HAProxy accepts what it makes, and lint finds nothing in it.

mod command;
mod files;
