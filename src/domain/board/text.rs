//! The board as lines of text: what the status page shows, for a terminal of any size.
//!
//! What matters most comes first. Of a terminal that is too short for all of it up to a half is the
//! canary's; then the sections follow as far as there is room, and of the others the headings, with
//! how many lines there are more. Nothing is said by a tone alone.

pub use self::line::{Line, Span, Tone};

use jiff::Timestamp;

use self::line::{flow, said};
use super::{Board, environment_flags};
use crate::domain::key::Prefix;
use crate::domain::sentinel::Generation;
use crate::domain::view::{ago, span, time_of_day};

/// How many lines of the canary are shown at least: whose it is, its state and the bar of its ramp.
const FIRST_MIN: usize = 4;
/// How old a picture is that not everybody has answered for.
const LATE_SECONDS: i64 = 5;
/// How far lines below a heading stand in.
const INDENT: usize = 2;

/// A board at a moment, and who it is of.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Whose board it is.
    pub prefix: &'a Prefix,
    /// The listing that it is of, and its index; `None` while none could be read.
    pub listing: Option<(u64, Generation)>,
    /// The replicas.
    pub replicas: &'a [Replica],
    /// The board.
    pub board: &'a Board,
    /// The moment: what lies ahead is counted from it.
    pub now: Timestamp,
}

/// A replica, as it says itself or as another one counts it. The texts come from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Its slot, or where it was asked.
    pub name: String,
    /// Its authority, or what it is counted as.
    pub authority: String,
    /// Whether it answers polls.
    pub answers: bool,
    /// The index of the listing that it believes.
    pub index: Option<u64>,
    /// What else there is to say.
    pub about: String,
}

/// A terminal's size, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// How many fit beside each other.
    pub columns: usize,
    /// How many lines.
    pub rows: usize,
}

impl Frame<'_> {
    /// The lines, no more and no longer than fit.
    #[must_use]
    pub fn lines(&self, size: Size) -> Vec<Line> {
        let columns = size.columns;
        let mut first = self.top(columns);
        first.extend(canary::lines(self, columns));
        let sections = vec![
            first,
            lists::findings(self, columns),
            lists::replicas(self, columns),
            fleet::servers(self, columns),
            fleet::nodes(self, columns),
            lists::stands(self, columns),
            self.commands(columns),
        ];
        fitted(sections, size)
    }

    /// Whose picture it is, and as of when.
    fn top(&self, columns: usize) -> Vec<Line> {
        let (root, environment) = self.prefix.parts();
        let mut name = format!("Tidegate {environment}");
        if root != super::USUAL_ROOT {
            name += &format!(" in {root}");
        }
        let mut spans = vec![Span::new(Tone::Strong, name)];
        let at = self.board.at;
        let as_of = format!("  as of {}", time_of_day(at, self.now));
        spans.push(Span::plain(as_of));
        if self.now.duration_since(at).as_secs() >= LATE_SECONDS {
            let late = format!(", {}: somebody has not answered yet", ago(at, self.now));
            spans.push(Span::new(Tone::Bad, late));
        }
        let (nodes, rows) = (self.board.nodes.total, self.board.rows);
        let (nodes, rows) = (
            counted(nodes, "node", "nodes"),
            counted(rows, "row", "rows"),
        );
        spans.push(Span::new(Tone::Quiet, format!(", {nodes}, {rows}")));
        flow(&spans, columns, INDENT)
    }

    /// What can be done now.
    fn commands(&self, columns: usize) -> Vec<Line> {
        let flags = environment_flags(self.prefix);
        let mut lines = heading("Commands", None, columns);
        for (what, words) in self.board.canary.actions() {
            let command = format!("tidegate canary {flags} {words}");
            lines.extend(line::command(&command, what, columns));
        }
        let history = format!("tidegate history {flags}");
        lines.extend(line::command(&history, "What was before", columns));
        lines
    }

    /// When something is, and how far away that is.
    fn when(&self, word: &str, at: Option<Timestamp>) -> Option<String> {
        let at = at?;
        let clock = time_of_day(at, self.now);
        let away = if at <= self.now {
            ago(at, self.now)
        } else {
            self.ahead(at)
        };
        Some(format!("{word} {clock} ({away})"))
    }

    /// When something ends, or was to end.
    fn ends(&self, until: Option<Timestamp>) -> Option<String> {
        let over = until.is_some_and(|until| until <= self.now);
        self.when(if over { "was to end" } else { "ends" }, until)
    }

    fn ahead(&self, at: Timestamp) -> String {
        format!("in {}", span(self.now, at))
    }
}

/// The heading of a section, and what is said of all of it.
fn heading(text: &str, sum: Option<Span>, columns: usize) -> Vec<Line> {
    let mut spans = vec![Span::new(Tone::Strong, text)];
    if let Some(sum) = sum {
        spans.extend([Span::plain("  "), sum]);
    }
    flow(&spans, columns, INDENT)
}

/// A number with the word for one or several.
fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// The sections as far as they fit, with a line between them where there is room for that too. Each
/// leaves the later ones their headings, if it has half of what is left.
fn fitted(sections: Vec<Vec<Line>>, size: Size) -> Vec<Line> {
    let sections: Vec<_> = sections.into_iter().filter(|s| !s.is_empty()).collect();
    let all: usize = sections.iter().map(Vec::len).sum();
    let count = sections.len();
    let apart = all + count.saturating_sub(1) <= size.rows;
    let mut left = if apart { usize::MAX } else { size.rows };
    let mut lines = Vec::new();
    for (at, section) in sections.into_iter().enumerate() {
        if apart && at > 0 {
            lines.push(Line::default());
        }
        if at == 0 {
            // What the canary is says more than how much there is of it.
            let own = if apart {
                left
            } else {
                size.rows.div_ceil(2).max(FIRST_MIN)
            };
            lines.extend(section.into_iter().take(own.min(left)));
            left -= lines.len();
        } else {
            let headings = count - at - 1;
            let own = left.saturating_sub(headings).max(left.div_ceil(2));
            let cut = cut(section, own, size.columns);
            left -= cut.len();
            lines.extend(cut);
        }
    }
    lines
}

/// The first lines of a section, and how many more there are.
fn cut(mut section: Vec<Line>, count: usize, columns: usize) -> Vec<Line> {
    if section.len() <= count || count == 0 {
        section.truncate(count);
        return section;
    }
    // The heading shares its line, if that has room; any other makes room.
    let kept = (count - 1).max(1);
    let more = counted(section.len() - kept, "line", "lines");
    let more = Span::new(Tone::Quiet, format!("  ({more} more)"));
    section.truncate(kept);
    if count > 1 {
        section.push(Line::from(vec![more]));
    } else if let Some(heading) = section.pop() {
        let shared = heading.clone().with(more);
        let fits = shared.width() <= columns;
        section.push(if fits { shared } else { heading });
    }
    section
}

mod canary;
mod fleet;
mod line;
mod lists;
