//! `tidegate man`.

use clap::Args;

use super::{Exit, Failure, print};

/// Print the manual page.
#[derive(Debug, Args)]
pub(super) struct Man {
    /// The page of one command.
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl Man {
    pub(super) fn run(&self, whole: &clap::Command) -> Result<(), Failure> {
        let command = match &self.command {
            None => whole.clone(),
            Some(name) => whole
                .find_subcommand(name)
                .cloned()
                .ok_or_else(|| Failure::new(Exit::Usage, format!("no command is called {name:?}")))?
                .display_name(format!("tidegate-{name}")),
        };
        let mut page = Vec::new();
        clap_mangen::Man::new(command)
            .render(&mut page)
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        print(&String::from_utf8_lossy(&page))
    }
}
