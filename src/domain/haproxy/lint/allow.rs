//! Comments that allow a finding: `# tidegate: allow RULE because of this`.
//!
//! At the end of a line, or on lines of their own above it, they count for that line; at the head
//! of a section for all of it.

use std::collections::BTreeMap;

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
}

/// All of them.
#[derive(Default)]
pub(super) struct Allowances {
    pub(super) all: Vec<Allowance>,
    /// Comments that allow nothing, and why.
    pub(super) wrong: Vec<(usize, String)>,
    /// Which of them counts for a line.
    of_lines: BTreeMap<(&'static str, usize), usize>,
    /// Which of them counts from the head of a section on, and where that ends.
    of_sections: BTreeMap<(&'static str, usize), (usize, usize)>,
}

impl Allowances {
    pub(super) fn of(reading: &Reading<'_>) -> Self {
        let mut allowances = Self::default();
        // From the end on: a comment counts for what comes next.
        let (mut next, mut section_end) = (None, reading.lines.len());
        for (at, line) in reading.lines.iter().enumerate().rev() {
            if reading
                .lines
                .get(at + 1)
                .is_some_and(|after| after.file != line.file)
            {
                (next, section_end) = (None, at + 1);
            }
            if is_section(line.word(0)) {
                next = Some((at, Some(section_end)));
                section_end = at;
            } else if !line.words.is_empty() {
                next = Some((at, None));
            }
            match read(reading, line) {
                None => {}
                Some(Err(why)) => allowances.wrong.push((at, why)),
                Some(Ok((rule, reason))) => allowances.add(rule, reason, at, next),
            }
        }
        allowances
    }

    fn add(
        &mut self,
        rule: &'static Rule,
        reason: String,
        line: usize,
        next: Option<(usize, Option<usize>)>,
    ) {
        let at = self.all.len();
        self.all.push(Allowance { rule, reason, line });
        match next {
            None => {}
            Some((line, None)) => drop(self.of_lines.insert((rule.id, line), at)),
            Some((head, Some(end))) => drop(self.of_sections.insert((rule.id, head), (at, end))),
        }
    }

    /// Which of them allows a finding.
    pub(super) fn find(&self, rule: &Rule, line: usize) -> Option<usize> {
        let of_line = self.of_lines.get(&(rule.id, line)).copied();
        let sections = || self.of_sections.range((rule.id, 0)..=(rule.id, line));
        of_line.or_else(|| {
            let (_, (at, end)) = sections().next_back()?;
            (line < *end).then_some(*at)
        })
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
