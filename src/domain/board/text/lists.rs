//! What needs attention, the replicas, and what was written last.

use super::line::{Line, Span, Tone, copied, flow, indented};
use super::{Frame, INDENT, Replica, heading, said};
use crate::domain::board::{Finding, Standing, Weight};
use crate::domain::visible::visible;

/// The longest text that this program makes, in characters: several peers, each with the cause of
/// its error.
const TOLD_CHARS_MAX: usize = 2_000;

/// What needs somebody, with what to do.
pub(super) fn findings(frame: &Frame<'_>, columns: usize) -> Vec<Line> {
    let findings = &frame.board.findings;
    if findings.listed.is_empty() {
        let nothing = Span::new(Tone::Good, "nothing");
        return heading("What needs attention", Some(nothing), columns);
    }
    let mut lines = heading("What needs attention", None, columns);
    let all = findings.listed.iter();
    lines.extend(all.flat_map(|finding| finding_lines(finding, columns)));
    if findings.more > 0 {
        let text = format!("and {} more", findings.more);
        lines.extend(indented(&[Span::new(Tone::Quiet, text)], columns, INDENT));
    }
    lines
}

fn finding_lines(finding: &Finding, columns: usize) -> Vec<Line> {
    let (tone, word) = match finding.weight {
        Weight::Severe => (Tone::Bad, "severe"),
        Weight::Warning => (Tone::Held, "warning"),
        Weight::Note => (Tone::Quiet, "note"),
    };
    let spans = [
        Span::plain(" ".repeat(INDENT)),
        Span::new(tone, format!("{word}: {}. ", finding.what)),
        Span::plain(visible(&finding.text, TOLD_CHARS_MAX)),
    ];
    let mut lines = flow(&spans, columns, INDENT * 2);
    let advice = Span::new(Tone::Quiet, &*finding.advice);
    lines.extend(indented(&[advice], columns, INDENT * 2));
    if let Some(command) = &finding.command {
        lines.extend(copied(command, columns));
    }
    lines
}

/// The replicas.
pub(super) fn replicas(frame: &Frame<'_>, columns: usize) -> Vec<Line> {
    let listing = match frame.listing {
        Some((index, generation)) => format!("index {index}, generation {generation}"),
        None => "no listing".to_owned(),
    };
    let mut lines = heading("Replicas", Some(Span::new(Tone::Quiet, listing)), columns);
    if frame.replicas.is_empty() {
        let none = Span::new(Tone::Bad, "none is known");
        lines.extend(indented(&[none], columns, INDENT));
    }
    let all = frame.replicas.iter();
    lines.extend(all.flat_map(|replica| replica_lines(replica, columns)));
    lines
}

fn replica_lines(replica: &Replica, columns: usize) -> Vec<Line> {
    let tone = match (replica.authority.as_str(), replica.answers) {
        ("current", true) => Tone::Good,
        (_, true) => Tone::Held,
        (_, false) => Tone::Bad,
    };
    let mut about = String::new();
    if let Some(index) = replica.index {
        about += &format!(", index {index}");
    }
    if !replica.about.is_empty() {
        about += &format!(", {}", visible(&replica.about, TOLD_CHARS_MAX));
    }
    let spans = [
        Span::plain(format!("{}{} ", " ".repeat(INDENT), said(&replica.name))),
        Span::new(tone, said(&replica.authority)),
        Span::plain(about),
    ];
    flow(&spans, columns, INDENT * 2)
}

/// What was written last.
pub(super) fn stands(frame: &Frame<'_>, columns: usize) -> Vec<Line> {
    let stands = &frame.board.stands;
    if stands.listed.is_empty() {
        return Vec::new();
    }
    let mut lines = heading("Latest changes that stand", None, columns);
    let all = stands.listed.iter();
    lines.extend(all.flat_map(|standing| standing_lines(frame, standing, columns)));
    if stands.more > 0 {
        let text = format!("and {} more, changed earlier", stands.more);
        lines.extend(indented(&[Span::new(Tone::Quiet, text)], columns, INDENT));
    }
    lines
}

fn standing_lines(frame: &Frame<'_>, standing: &Standing, columns: usize) -> Vec<Line> {
    let says = match &standing.says {
        Ok(words) => Span::new(Tone::Strong, words),
        Err(error) => Span::new(Tone::Bad, format!("frozen: {}", said(error))),
    };
    let author = &standing.author;
    let parts = [
        author.reason.as_deref().map(said),
        author.by.as_ref().map(|by| format!("by {}", said(by))),
        frame.when("written", standing.since),
        frame.ends(standing.until),
        Some(format!("index {}", standing.index)),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let path = format!("{}{} ", " ".repeat(INDENT), said(&standing.path));
    let spans = [
        Span::plain(path),
        says,
        Span::new(Tone::Quiet, format!(" ({})", parts.join(", "))),
    ];
    flow(&spans, columns, INDENT * 2)
}
