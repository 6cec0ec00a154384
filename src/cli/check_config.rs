//! `tidegate check-config`.

use std::path::PathBuf;

use clap::Args;

use super::context::{ConfigArgs, open};
use super::{Failure, print};
use crate::config::Flags;

/// Check a configuration.
#[derive(Debug, Args)]
pub(super) struct CheckConfig {
    /// Configuration file (TOML).
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl CheckConfig {
    /// Prints each setting that counts, with where it came from, when all is well.
    pub(super) fn run(self, flags: &Flags) -> Result<(), Failure> {
        let config = ConfigArgs { config: self.file }.load(flags)?;
        // The store's own settings are part of what can be wrong; nothing is asked of it.
        open(&config)?;
        let mut text = String::new();
        for given in &config.given {
            text += &format!(
                "{} = {} ({})\n",
                given.setting.key, given.text, given.origin
            );
        }
        text += &format!(
            "settings digest: {:016x}, the same in all replicas\n",
            config.digest()
        );
        print(&text)
    }
}
