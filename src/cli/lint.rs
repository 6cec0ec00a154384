//! `tidegate lint`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::context::{ConfigArgs, runtime};
use super::output::{Output, json};
use super::replica::named;
use super::{Exit, Failure, print};
use crate::config::Flags;
use crate::domain::columns::aligned;
use crate::domain::haproxy::lint::{ALL, Evidence, Readings, Report, Rule, Running, Severity};
use crate::domain::haproxy::reading::Setting;
use crate::domain::haproxy::version::Version;
use crate::domain::name::Name;
use crate::haproxy::files;
use crate::haproxy::socket::StatsAddress;

/// What HAProxy calls the variable that holds its node's name.
pub(super) const LOCAL_PEER: &str = "HAPROXY_LOCALPEER";

/// What the node is called where nobody says it.
pub(super) const NODE_DEFAULT: &str = "this-node";

/// Judge HAProxy's files for agent checks.
#[derive(Debug, Args)]
pub(super) struct Lint {
    /// The files and folders of one node, in the order of its `-f`.
    #[arg(value_name = "FILE", required_unless_present_any = ["rules", "explain"])]
    files: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// The node's name, which is also the variable `HAPROXY_LOCALPEER` (haproxy -L).
    #[arg(long, value_name = "NAME", default_value = NODE_DEFAULT)]
    node: String,
    /// Compare with what a running HAProxy has: its stats socket, `unix:/PATH` or
    /// `HOST:PORT`.
    #[arg(long, value_name = "ADDRESS", value_parser = StatsAddress::parse)]
    running: Option<StatsAddress>,
    /// Ask a replica which servers of --node poll: its HTTP listener, http://HOST:PORT or
    /// https://HOST:PORT. It is shown what `TIDEGATE_HTTP_TOKEN_FILE` holds, and known by
    /// `TIDEGATE_HTTP_CA_FILE`.
    #[arg(long, value_name = "URL", requires = "node")]
    replica: Option<String>,
    /// Show notes too.
    #[arg(long)]
    notes: bool,
    /// Warnings end with 10 as errors do.
    #[arg(long)]
    strict: bool,
    /// How to print it.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,
    /// Print all rules.
    #[arg(long, conflicts_with = "files")]
    rules: bool,
    /// Say why a rule is one, and how to mend what it finds.
    #[arg(long, value_name = "RULE", conflicts_with_all = ["files", "rules"])]
    explain: Option<String>,
}

/// What files are read with.
#[derive(Debug, Args)]
pub(super) struct ReadingArgs {
    /// HAProxy's version: conditions that ask for it are judged, and what it lacks is found.
    #[arg(long, value_name = "VERSION")]
    haproxy_version: Option<Version>,
    /// A variable that HAProxy is started with; more than once for more than one. Those of this
    /// process do not count.
    #[arg(long = "variable", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
}

/// As much of the fleet view as is read.
#[derive(Deserialize)]
struct Fleet {
    nodes: Vec<FleetNode>,
}

#[derive(Deserialize)]
struct FleetNode {
    node: String,
    rows: Vec<FleetRow>,
}

#[derive(Deserialize)]
struct FleetRow {
    server: String,
    silent: bool,
}

impl Lint {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if self.rules {
            return print(&rules());
        }
        if let Some(id) = &self.explain {
            return print(&explained(id)?);
        }
        let failed = |text: String| Failure::new(Exit::Failed, text);
        let files = files::read(&self.files).map_err(|error| failed(error.to_string()))?;
        let evidence = self.evidence()?;
        let readings = Readings::of(&files, &self.reading.setting(&self.node));
        let readings = readings.map_err(|error| failed(error.to_string()))?;
        let mut report = readings.judge(&evidence);
        if !self.notes {
            report
                .findings
                .retain(|finding| finding.rule.severity != Severity::Note);
        }
        print(&match self.output {
            Output::Table => report.to_string(),
            Output::Json => json(&report),
        })?;
        self.verdict(&report)
    }

    fn evidence(&self) -> Result<Evidence, Failure> {
        Ok(Evidence {
            version: self.reading.haproxy_version,
            running: self.running.as_ref().map(servers_of).transpose()?,
            polling: self
                .replica
                .as_deref()
                .map(|url| self.polling(url))
                .transpose()?,
        })
    }

    /// The servers that poll for this node, by the word of a replica, which asks the others.
    fn polling(&self, url: &str) -> Result<BTreeSet<String>, Failure> {
        let node = Name::parse(&self.node)
            .map_err(|error| Failure::new(Exit::Usage, format!("--node: {error}")))?;
        let failed = |why: String| Failure::new(Exit::Failed, format!("{url}: {why}"));
        // It takes no file of settings: variables are enough for one question.
        let access = ConfigArgs { config: None }.replica_access(&Flags::default())?;
        let replicas = named(&[url.to_owned()], &access)?;
        let mut polling = BTreeSet::new();
        let runtime = runtime()?;
        for replica in &replicas {
            let path = format!("/api/v1/fleet?node={node}");
            let body = runtime.block_on(replica.get(&path)).map_err(failed)?;
            let fleet: Fleet = serde_json::from_slice(&body)
                .map_err(|error| failed(format!("its answer cannot be read: {error}")))?;
            // The question is for a part of a name.
            let own = fleet
                .nodes
                .into_iter()
                .filter(|seen| seen.node == node.as_str());
            let rows = own.flat_map(|seen| seen.rows).filter(|row| !row.silent);
            polling.extend(rows.map(|row| row.server));
        }
        Ok(polling)
    }

    fn verdict(&self, report: &Report) -> Result<(), Failure> {
        let (errors, warnings) = (
            report.count(Severity::Error),
            report.count(Severity::Warning),
        );
        if errors == 0 && (warnings == 0 || !self.strict) {
            return Ok(());
        }
        let text = format!("{errors} errors, {warnings} warnings");
        Err(Failure::new(Exit::Differs, text))
    }
}

impl ReadingArgs {
    /// With the name of the node whose files these are.
    pub(super) fn setting(&self, node: &str) -> Setting {
        let own = (LOCAL_PEER.to_owned(), node.to_owned());
        Setting {
            environment: std::iter::once(own)
                .chain(self.variables.iter().cloned())
                .collect(),
            version: self.haproxy_version,
            ..Setting::default()
        }
    }
}

fn servers_of(address: &StatsAddress) -> Result<Running, Failure> {
    let running = runtime()?.block_on(address.running());
    running.map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write NAME=VALUE".to_owned()),
    }
}

fn rules() -> String {
    let line = |rule: &&Rule| {
        let Rule {
            id, severity, why, ..
        } = rule;
        [
            (*id).to_owned(),
            severity.as_str().to_owned(),
            (*why).to_owned(),
        ]
    };
    let lines: Vec<_> = ALL.iter().map(line).collect();
    aligned(["RULE", "SEVERITY", "WHY"], &lines)
}

fn explained(id: &str) -> Result<String, Failure> {
    let Some(Rule {
        id,
        severity,
        why,
        mend,
    }) = Rule::named(id)
    else {
        let text = format!("no rule is called {id:?}; `tidegate lint --rules` lists them");
        return Err(Failure::new(Exit::Usage, text));
    };
    Ok(format!(
        "{id} ({severity})\nwhy:   {why}\nmend:  {mend}\nallow: # tidegate: allow {id} REASON\n",
        severity = severity.as_str()
    ))
}
