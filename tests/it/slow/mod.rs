//! What takes long: run by the profile `all` alone.

mod kv_faults;
mod kv_sizes;
