//! What was found, for a person and for a program.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Raised;
use super::allow::Allowances;
use super::rules::{self, Rule, Severity};
use crate::domain::haproxy::reading::Reading;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many servers there are.
    pub servers: Counts,
    /// What stands against the files, in the order of their lines.
    pub findings: Vec<Finding>,
    /// What a comment allows.
    pub allowed: Vec<Allowed>,
}

/// How many servers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// All; a template counts as one.
    pub servers: usize,
    /// Those with an agent check.
    pub enrolled: usize,
    /// Of these, those that ask with `mode=shadow`.
    pub shadow: usize,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule.
    #[serde(flatten, serialize_with = "rule")]
    pub rule: &'static Rule,
    /// `file:line`.
    pub place: String,
    /// What is wrong here.
    pub message: String,
    /// The line.
    pub text: String,
    /// The conditions under which it is so; empty: always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only_if: Vec<String>,
}

/// A finding that a comment allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Allowed {
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// The comment's reason.
    pub reason: String,
}

impl Counts {
    pub(super) fn most(self, other: Self) -> Self {
        Self {
            servers: self.servers.max(other.servers),
            enrolled: self.enrolled.max(other.enrolled),
            shadow: self.shadow.max(other.shadow),
        }
    }
}

impl Report {
    pub(super) fn new(
        reading: &Reading<'_>,
        allowances: &Allowances,
        mut raised: Vec<Raised>,
        servers: Counts,
    ) -> Self {
        let mut is_used = vec![false; allowances.all.len()];
        for found in &raised {
            if let Some(at) = allowances.find(found.rule, found.line) {
                is_used[at] = true;
            }
        }
        let is_read = raised.iter().all(|found| found.rule != &rules::SYNTAX);
        let always = |rule, line, message| Raised {
            rule,
            line,
            message,
            only_if: Vec::new(),
        };
        let wrong = allowances.wrong.iter();
        raised.extend(wrong.map(|(line, why)| always(&rules::ALLOW_REASON, *line, why.clone())));
        for (allowance, is_used) in allowances.all.iter().zip(is_used) {
            // Some rules look only at a version that is given, or at a running HAProxy.
            if is_read && !is_used && !WITH_MORE.contains(&allowance.rule) {
                let message = format!("nothing here breaks {}", allowance.rule.id);
                raised.push(always(&rules::ALLOW_UNUSED, allowance.line, message));
            }
        }
        raised.sort_by(|one, other| (one.line, one.rule.id).cmp(&(other.line, other.rule.id)));
        let mut report = Self {
            servers,
            findings: Vec::new(),
            allowed: Vec::new(),
        };
        for found in raised {
            report.place(reading, allowances, found);
        }
        report
    }

    fn place(&mut self, reading: &Reading<'_>, allowances: &Allowances, raised: Raised) {
        let finding = Finding {
            rule: raised.rule,
            place: reading.place(raised.line),
            message: raised.message,
            text: reading
                .lines
                .get(raised.line)
                .map_or_else(String::new, |line| reading.shown(line)),
            only_if: raised.only_if,
        };
        match allowances.find(raised.rule, raised.line) {
            Some(at) => {
                let reason = allowances.all[at].reason.clone();
                self.allowed.push(Allowed { finding, reason });
            }
            None => self.findings.push(finding),
        }
    }

    /// How many findings of a severity stand against the files.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        let of = |finding: &&Finding| finding.rule.severity == severity;
        self.findings.iter().filter(of).count()
    }
}

/// Rules that need more than the files.
const WITH_MORE: [&Rule; 9] = [
    &rules::VERSION_OLD,
    &rules::VERSION_FIXES,
    &rules::TIMEOUT_IGNORED,
    &rules::DEFAULT_SERVER,
    &rules::RUNNING_MISSING,
    &rules::RUNNING_AGENT,
    &rules::RUNNING_DISABLED,
    &rules::RUNNING_WEIGHT,
    &rules::NOT_POLLING,
];

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde gives a field by reference"
)]
/// A finding tells its rule whole: a program that reads it needs no second table.
fn rule<S: Serializer>(rule: &&'static Rule, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Told {
        rule: &'static str,
        severity: &'static str,
        why: &'static str,
        mend: &'static str,
    }
    let told = Told {
        rule: rule.id,
        severity: rule.severity.as_str(),
        why: rule.why,
        mend: rule.mend,
    };
    told.serialize(serializer)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        let Counts {
            servers,
            enrolled,
            shadow,
        } = self.servers;
        writeln!(
            f,
            "{} errors, {} warnings, {} notes, {} allowed; {enrolled} of {servers} servers ask an agent, \
             {shadow} of them in shadow",
            self.count(Severity::Error),
            self.count(Severity::Warning),
            self.count(Severity::Note),
            self.allowed.len()
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule {
            id,
            severity,
            why,
            mend,
        } = self.rule;
        writeln!(
            f,
            "{}: {}: {} [{id}]",
            self.place,
            severity.as_str(),
            self.message
        )?;
        if !self.text.is_empty() {
            writeln!(f, "    {}", self.text)?;
        }
        if !self.only_if.is_empty() {
            writeln!(f, "  only if {}", self.only_if.join(" and "))?;
        }
        writeln!(f, "  why:  {why}\n  mend: {mend}")
    }
}
