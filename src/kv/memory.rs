//! A store in the process, for tests.
