//! Changes of single lines: every other byte stays as it is.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::domain::haproxy::reading::{File, Line, Reading};
use crate::domain::haproxy::server::{Named, named};
use crate::domain::haproxy::words::Word;

/// The words of an agent check.
const AGENT: [&str; 6] = [
    "agent-check",
    "no-agent-check",
    "agent-addr",
    "agent-port",
    "agent-inter",
    "agent-send",
];
/// Those that are always written, in this order.
const WRITTEN: [&str; 5] = [
    "agent-check",
    "agent-addr",
    "agent-port",
    "agent-inter",
    "agent-send",
];

/// What of the words behind those of an agent check can have been rendered with them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tail {
    pub(super) weight: bool,
    pub(super) disabled: bool,
}

/// What becomes of one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Edit {
    /// Bytes of its file that are taken out, in their order.
    pub(super) cuts: Vec<Range<usize>>,
    /// What is put in, and before which byte of its file.
    pub(super) insert: Option<(usize, String)>,
    /// Whether the whole line is taken out.
    pub(super) is_removed: bool,
    /// Lines that are put in before it.
    pub(super) before: String,
    /// Lines that are put in behind it.
    pub(super) behind: String,
}

/// The changes of all files, by the index of their line.
#[derive(Debug, Default)]
pub(super) struct Edits(pub(super) BTreeMap<usize, Edit>);

impl Edits {
    /// The files with the changes.
    pub(super) fn apply(&self, reading: &Reading<'_>) -> Vec<File> {
        let mut files: Vec<_> = reading
            .files
            .iter()
            .map(|file| File {
                name: file.name.clone(),
                bytes: Vec::with_capacity(file.bytes.len()),
            })
            .collect();
        for (at, line) in reading.lines.iter().enumerate() {
            let bytes = &reading.files[line.file].bytes;
            let to = &mut files[line.file].bytes;
            // A line without a line end is a fault, and faulty files are not changed.
            let whole = line.span.start..(line.span.end + 1).min(bytes.len());
            match self.0.get(&at) {
                Some(edit) => edit.apply(bytes, whole, to),
                None => to.extend_from_slice(&bytes[whole]),
            }
        }
        files
    }
}

impl Edit {
    fn apply(&self, bytes: &[u8], whole: Range<usize>, to: &mut Vec<u8>) {
        to.extend_from_slice(self.before.as_bytes());
        let mut at = whole.start;
        for cut in &self.cuts {
            to.extend_from_slice(&bytes[at..cut.start]);
            at = cut.end;
        }
        if let Some((before, text)) = &self.insert {
            to.extend_from_slice(&bytes[at..*before]);
            to.extend_from_slice(text.as_bytes());
            at = *before;
        }
        if !self.is_removed {
            to.extend_from_slice(&bytes[at..whole.end]);
        }
        to.extend_from_slice(self.behind.as_bytes());
    }
}

/// Where words can be put in behind those of a line, in bytes of its file.
pub(super) fn words_end(reading: &Reading<'_>, line: &Line) -> usize {
    let limit = line
        .comment
        .as_ref()
        .map_or(line.span.end, |comment| comment.start);
    let bytes = &reading.files[line.file].bytes[line.span.start..limit];
    // A carriage return ends the words, also where more stands behind it.
    let bytes = bytes.split(|&byte| byte == b'\r').next().unwrap_or(bytes);
    let end = bytes.iter().rposition(|byte| !byte.is_ascii_whitespace());
    let last = line.words.last().map_or(0, |word| word.span.end);
    // A blank behind a backslash is of the word.
    line.span.start + end.map_or(0, |end| end + 1).max(last)
}

/// Whether each word of a line stands at a place of its own: `[*]` makes several of one.
pub(super) fn is_plain(line: &Line) -> bool {
    let pairs = line.words.windows(2);
    let is_apart = |pair: &[Word]| pair[0].span.end < pair[1].span.start;
    line.words.len() == line.arguments().len() && pairs.into_iter().all(is_apart)
}

/// The words of an agent check on a line, to be taken out. Those that were rendered go as they
/// came, with the weight and `disabled` behind them; of others `disabled` goes where it shall.
pub(super) fn cuts(
    line: &Line,
    first: usize,
    tail: Tail,
    with_disabled: bool,
) -> Vec<Range<usize>> {
    let all: Vec<_> = named(line, first).collect();
    let name = |named: &Named| line.words[named.word].text.as_str();
    let fits = |named: &Named| match name(named) {
        "weight" => tail.weight,
        _ => tail.disabled,
    };
    if let Some((begin, behind)) = rendered(line, &all)
        && behind.iter().all(fits)
    {
        return vec![cut(line, all[begin].word, line.words.len() - 1)];
    }
    let goes = |named: &&Named| {
        AGENT.contains(&name(named)) || (with_disabled && name(named) == "disabled")
    };
    let gone = all.iter().filter(goes);
    gone.map(|named| cut(line, named.word, named.last()))
        .collect()
}

/// The weight that a line itself gives before the words of an agent check, and the one behind them,
/// where that stands as a rendered one would.
pub(super) fn weights(line: &Line, first: usize) -> Option<(Option<u16>, u16)> {
    let all: Vec<_> = named(line, first).collect();
    let (begin, behind) = rendered(line, &all)?;
    let weight = |named: &Named| {
        let is_weight = line.words[named.word].text == "weight";
        let value = named.value.filter(|_| is_weight)?;
        line.words[value].text.parse().ok()
    };
    let before = all[..begin].iter().rev().find_map(weight);
    Some((before, behind.first().and_then(weight)?))
}

/// Where words in the order of rendered ones begin, and what stands behind them.
fn rendered<'a>(line: &Line, all: &'a [Named]) -> Option<(usize, &'a [Named])> {
    let names: Vec<_> = all
        .iter()
        .map(|named| line.words[named.word].text.as_str())
        .collect();
    let begin = names.iter().rposition(|name| *name == WRITTEN[0])?;
    let behind = names[begin..].strip_prefix(&WRITTEN[..])?;
    let behind = behind.strip_prefix(&["weight"][..]).unwrap_or(behind);
    let behind = behind.strip_prefix(&["disabled"][..]).unwrap_or(behind);
    behind
        .is_empty()
        .then(|| (begin, &all[begin + WRITTEN.len()..]))
}

/// From the end of the word before, so that no blank is left over.
fn cut(line: &Line, first: usize, last: usize) -> Range<usize> {
    let begin = line.span.start;
    begin + line.words[first - 1].span.end..begin + line.words[last].span.end
}
