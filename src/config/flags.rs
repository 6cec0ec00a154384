//! The settings as flags of the command line.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use super::settings::{Default, Kind, SETTINGS, Setting};

/// The heading of the settings in the help of a command.
const HEADING: &str = "Settings, also keys of the configuration file";

/// The flags that were given.
#[derive(Debug, Clone, PartialEq, Eq, std::default::Default)]
pub struct Flags(BTreeMap<&'static str, String>);

impl Flags {
    /// The flags of all settings, for `clap::Command::args`. Each has its key as id. They carry no
    /// default and no variable: which layer counts is decided in one place.
    pub fn args() -> impl Iterator<Item = Arg> {
        SETTINGS.iter().map(arg)
    }

    /// Takes what was given out of a command that has [`Flags::args`], or some of them.
    #[must_use]
    pub fn from_matches(matches: &ArgMatches) -> Self {
        let given = SETTINGS.iter().filter_map(|setting| {
            let told = matches.try_contains_id(setting.key).is_ok()
                && matches.value_source(setting.key) == Some(ValueSource::CommandLine);
            let text = match setting.kind {
                Kind::List | Kind::Pairs => matches
                    .try_get_many::<String>(setting.key)
                    .ok()
                    .flatten()
                    .filter(|_| told)
                    .map(|texts| texts.cloned().collect::<Vec<_>>().join(",")),
                Kind::Switch => told.then(|| matches.get_flag(setting.key).to_string()),
                Kind::Text | Kind::OneOf(_) | Kind::Count { .. } | Kind::Span { .. } => matches
                    .try_get_one::<String>(setting.key)
                    .ok()
                    .flatten()
                    .filter(|_| told)
                    .cloned(),
            };
            text.map(|text| (setting.key, text))
        });
        Self(given.collect())
    }

    /// Sets a flag, as a test or an alias such as `--gprd` does. A key that is no setting's has no
    /// effect.
    #[must_use]
    pub fn with(mut self, key: &'static str, text: impl Into<String>) -> Self {
        self.0.insert(key, text.into());
        self
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static Setting, &str)> {
        SETTINGS
            .iter()
            .filter_map(|setting| Some((setting, self.0.get(setting.key)?.as_str())))
    }
}

fn arg(setting: &Setting) -> Arg {
    let arg = Arg::new(setting.key).long(setting.flag).help(help(setting));
    // The environment is said to every command, the others stand in a file as a rule.
    let arg = if setting.default == Default::Required {
        arg
    } else {
        arg.help_heading(HEADING)
    };
    match setting.kind {
        Kind::Switch => arg.action(ArgAction::SetTrue),
        Kind::List | Kind::Pairs => arg.value_name(setting.value_name).action(ArgAction::Append),
        Kind::Text | Kind::OneOf(_) | Kind::Count { .. } | Kind::Span { .. } => {
            arg.value_name(setting.value_name)
        }
    }
}

/// The text of `--help`: what it does, its values, its default and its variable.
fn help(setting: &Setting) -> String {
    let values = match setting.kind {
        Kind::Text | Kind::Switch => String::new(),
        Kind::List | Kind::Pairs => " [repeatable]".to_owned(),
        Kind::OneOf(words) => format!(" [{}]", words.join("|")),
        Kind::Count { min, max } => format!(" [{min}..={max}]"),
        Kind::Span { min, max } => format!(
            " [{}..={}]",
            humantime::format_duration(min),
            humantime::format_duration(max)
        ),
    };
    let default = match setting.default {
        Default::Required => "required".to_owned(),
        Default::Text(text) | Default::Implied(text) => format!("default: {text}"),
        Default::Cores => "default: number of cores".to_owned(),
    };
    let Setting { doc, variable, .. } = setting;
    format!("{doc}{values} [{default}] [variable: {variable}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    #[test]
    fn every_setting_can_be_given_as_a_flag() {
        let command = Command::new("serve").args(Flags::args());
        command.clone().debug_assert();
        for setting in SETTINGS {
            let flag = format!("--{}", setting.flag);
            let (arguments, expected) = if setting.kind == Kind::Switch {
                (vec!["serve".to_owned(), flag], "true")
            } else {
                (vec!["serve".to_owned(), flag, "x".to_owned()], "x")
            };
            let matches = command.clone().try_get_matches_from(arguments).unwrap();
            let flags = Flags::from_matches(&matches);
            assert_eq!(flags, Flags::default().with(setting.key, expected));
        }
        let none = command.try_get_matches_from(["serve"]).unwrap();
        assert_eq!(Flags::from_matches(&none), Flags::default());
    }

    #[test]
    fn a_command_without_the_flags_gives_none() {
        let matches = Command::new("x").try_get_matches_from(["x"]).unwrap();
        assert_eq!(Flags::from_matches(&matches), Flags::default());
    }

    #[test]
    fn the_help_names_default_range_and_variable() {
        let help = Command::new("serve")
            .args(Flags::args())
            .term_width(0)
            .render_long_help()
            .to_string();
        for part in [
            "--poll-interval <TIME>",
            "[200ms..=1m]",
            "[default: 2s]",
            "[variable: TIDEGATE_POLL_INTERVAL]",
            "[text|json]",
            "[default: number of cores]",
        ] {
            assert!(help.contains(part), "{part} is missing in:\n{help}");
        }
    }
}
