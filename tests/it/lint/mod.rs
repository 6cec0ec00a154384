//! `tidegate lint`: what it finds, and that it reads files as real HAProxy does.

mod agrees;
mod beside;
mod command;
pub(crate) mod corpus;
mod topology;

use tidegate::domain::haproxy::lint::{Evidence, Readings, Report};
use tidegate::domain::haproxy::reading::{File, Setting};

/// The node's name in all files here.
const NODE: &str = "lb-01";

/// Judges one file.
pub(crate) fn judge(name: &str, text: &str, evidence: &Evidence) -> Report {
    judge_with(&[], name, text, evidence)
}

/// The same where HAProxy's environment has these variables besides.
pub(crate) fn judge_with(
    variables: &[(&str, &str)],
    name: &str,
    text: &str,
    evidence: &Evidence,
) -> Report {
    let files = [File {
        name: name.to_owned(),
        bytes: text.as_bytes().to_vec(),
    }];
    let setting = Setting {
        version: evidence.version,
        ..setting(variables)
    };
    let readings = Readings::of(&files, &setting).unwrap_or_else(|error| panic!("{name}: {error}"));
    readings.judge(evidence)
}

/// The node's name, and more variables.
pub(crate) fn setting(variables: &[(&str, &str)]) -> Setting {
    let own = [("HAPROXY_LOCALPEER", NODE)];
    let all = own.iter().chain(variables);
    let environment = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Setting {
        environment: environment.collect(),
        ..Setting::default()
    }
}
