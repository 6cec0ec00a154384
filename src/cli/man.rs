//! `tidegate man`.

use clap::Args;

use super::{Exit, Failure, print};

/// Print the manual page.
#[derive(Debug, Args)]
#[command(after_help = "To read it: tidegate man canary | man -l -")]
pub(super) struct Man {
    /// The page of one command; without it, the page of the whole program.
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl Man {
    pub(super) fn run(&self, mut whole: clap::Command) -> Result<(), Failure> {
        // Built, each command knows its whole name, which the synopsis shows.
        whole.build();
        let command = match &self.command {
            None => whole,
            Some(name) => whole.find_subcommand(name).cloned().ok_or_else(|| {
                Failure::new(Exit::Usage, format!("no command is called {name:?}"))
            })?,
        };
        let mut page = Vec::new();
        clap_mangen::Man::new(command)
            .render(&mut page)
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        print(&String::from_utf8_lossy(&page))
    }
}
