//! The names that people call the two environments by, as flags: `--production` is short for
//! `--env production`.

use clap::{Arg, ArgAction, ArgMatches};

use crate::config::Flags;

/// The setting that they give.
pub(super) const ENVIRONMENT: &str = "environment";

/// The words of the commands of old. What they mean says the setting `environments`.
const WORDS: [&str; 4] = ["gprd", "production", "gstg", "staging"];

/// The flags, for every command that takes `--env`. At most one of all of them.
pub(super) fn args() -> impl Iterator<Item = Arg> {
    WORDS.into_iter().map(|word| {
        let others = WORDS.into_iter().filter(move |other| *other != word);
        Arg::new(word)
            .long(word)
            .action(ArgAction::SetTrue)
            .conflicts_with(ENVIRONMENT)
            .conflicts_with_all(others)
            .help(format!("Short for --env {word}"))
    })
}

/// The flags of the settings, with the environment that one of these names.
pub(super) fn named_in(matches: &ArgMatches, flags: Flags) -> Flags {
    let given = |word: &&str| matches!(matches.try_get_one::<bool>(word), Ok(Some(true)));
    match WORDS.into_iter().find(given) {
        Some(word) => flags.with(ENVIRONMENT, word),
        None => flags,
    }
}
