//! Comments that allow a finding: `# tidegate: allow RULE because of this`.
//!
//! At the end of a line, or on lines of their own above it, they count for that line; at the head
//! of a section for all of it.

use super::rules::{self, Rule};
use crate::domain::haproxy::reading::{Line, Reading, is_section};

/// How such a comment begins, behind its `#`.
const MARK: &str = "tidegate:";

/// One comment that allows something.
pub(super) struct Allowance {
    pub(super) rule: &'static Rule,
    pub(super) reason: String,
    /// Where the comment stands.
    pub(super) line: usize,
    /// The lines that it counts for.
    of: std::ops::Range<usize>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Allowances {
    pub(super) all: Vec<Allowance>,
    /// Comments that allow nothing, and why.
    pub(super) wrong: Vec<(usize, String)>,
}

impl Allowances {
    pub(super) fn of(reading: &Reading<'_>) -> Self {
        let mut allowances = Self::default();
        let heads: Vec<_> = (0..reading.lines.len())
            .filter(|&at| is_section(reading.lines[at].word(0)))
            .collect();
        for (at, line) in reading.lines.iter().enumerate() {
            match read(reading, line) {
                None => {}
                Some(Err(why)) => allowances.wrong.push((at, why)),
                Some(Ok((rule, reason))) => {
                    let of = covered(reading, at, &heads);
                    allowances.all.push(Allowance {
                        rule,
                        reason,
                        line: at,
                        of,
                    });
                }
            }
        }
        allowances
    }

    /// Which of them allows a finding.
    pub(super) fn find(&self, rule: &Rule, line: usize) -> Option<usize> {
        self.all
            .iter()
            .position(|allowance| allowance.rule == rule && allowance.of.contains(&line))
    }
}

fn read(reading: &Reading<'_>, line: &Line) -> Option<Result<(&'static Rule, String), String>> {
    let comment = &reading.files[line.file].bytes[line.comment.clone()?];
    let comment = String::from_utf8_lossy(comment);
    let rest = comment.trim_start_matches('#').trim().strip_prefix(MARK)?;
    let mut words = rest.split_whitespace();
    if words.next() != Some("allow") {
        return Some(Err("the one word behind `tidegate:` is allow".to_owned()));
    }
    let id = words.next().unwrap_or_default();
    let Some(rule) = Rule::named(id) else {
        return Some(Err(format!("no rule is called {id:?}")));
    };
    if [&rules::SYNTAX, &rules::ALLOW_REASON, &rules::ALLOW_UNUSED].contains(&rule) {
        return Some(Err(format!("{id} cannot be allowed")));
    }
    let reason: Vec<_> = words.collect();
    if reason.is_empty() {
        return Some(Err(format!("no reason is given for allowing {id}")));
    }
    Some(Ok((rule, reason.join(" "))))
}

fn covered(reading: &Reading<'_>, comment: usize, heads: &[usize]) -> std::ops::Range<usize> {
    let file = reading.lines[comment].file;
    let of_file = |line: &&Line| line.file == file;
    let rest = reading.lines[comment..].iter().take_while(of_file);
    let Some(ahead) = rest.clone().position(|line| !line.words.is_empty()) else {
        return comment..comment;
    };
    let line = comment + ahead;
    let Ok(at) = heads.binary_search(&line) else {
        return line..line + 1;
    };
    let end_of_file = comment + rest.count();
    let next = heads.get(at + 1).copied().unwrap_or(end_of_file);
    line..next.min(end_of_file)
}
