//! `tidegate completions`.

use clap::Args;
use clap_complete::Shell;

use super::{Failure, print};

/// Print a completion script.
#[derive(Debug, Args)]
#[command(after_help = "In bash, for this session: source <(tidegate completions bash)")]
pub(super) struct Completions {
    /// Which shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, mut command: clap::Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "tidegate", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}
