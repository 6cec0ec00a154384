//! Scenarios that take half a minute and more: `scripts/test` runs them, the everyday loop does not.

mod nodes_ramp;
mod restarts;
