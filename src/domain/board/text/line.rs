//! Lines of text that fit.

use crate::domain::visible::visible;

/// The longest text that is shown whole, in characters: a reason is a sentence or two.
const TEXT_CHARS_MAX: usize = 240;
/// The least room that a text is broken into, however narrow the terminal is.
const COLUMNS_MIN: usize = 8;
/// From here on characters may take two columns. One that does not leaves a column empty.
const WIDE: char = '\u{1100}';

/// How a part of a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// As usual.
    #[default]
    Plain,
    /// It stands out.
    Strong,
    /// It steps back.
    Quiet,
    /// As it should be.
    Good,
    /// Not in full service.
    Held,
    /// Somebody should look.
    Bad,
}

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span {
    /// How it looks.
    pub tone: Tone,
    /// What it says.
    pub text: String,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line(Vec<Span>);

impl Span {
    pub(super) fn new(tone: Tone, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { tone, text }
    }

    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::new(Tone::Plain, text)
    }
}

impl From<Vec<Span>> for Line {
    fn from(spans: Vec<Span>) -> Self {
        Self(spans)
    }
}

impl Line {
    /// A line without tones, of what comes from elsewhere.
    #[must_use]
    pub fn said(text: &str) -> Self {
        Self(vec![Span::plain(said(text))])
    }

    /// Its parts from left to right.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// It without its tones.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().map(|span| span.text.as_str()).collect()
    }

    pub(super) fn with(mut self, span: Span) -> Self {
        self.0.push(span);
        self
    }

    /// How many columns it takes at most.
    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|span| width(&span.text)).sum()
    }

    fn add(&mut self, tone: Tone, text: &str) {
        match self.0.last_mut() {
            Some(last) if last.tone == tone => last.text.push_str(text),
            Some(_) | None => self.0.push(Span::new(tone, text)),
        }
    }
}

/// What somebody wrote, in one line that moves no cursor.
pub(super) fn said(text: &str) -> String {
    visible(text, TEXT_CHARS_MAX)
}

fn width(text: &str) -> usize {
    let columns = |character| if character < WIDE { 1 } else { 2 };
    text.chars().map(columns).sum()
}

/// The spans as one paragraph, broken between words; its further lines stand in so far.
pub(super) fn flow(spans: &[Span], columns: usize, hang: usize) -> Vec<Line> {
    let mut flow = Flow::new(columns, hang, "");
    for span in spans {
        flow.add(span);
    }
    flow.lines
}

/// A paragraph all of which stands in so far.
pub(super) fn indented(spans: &[Span], columns: usize, indent: usize) -> Vec<Line> {
    let mut all = vec![Span::plain(" ".repeat(indent))];
    all.extend_from_slice(spans);
    flow(&all, columns, indent)
}

/// A command that can be copied as it stands, what it is for behind it or above it.
pub(super) fn command(command: &str, what: &str, columns: usize) -> Vec<Line> {
    let about = format!("# {what}");
    let one = [
        Span::plain(format!("{}{command}  ", " ".repeat(super::INDENT))),
        Span::new(Tone::Quiet, about.clone()),
    ];
    let line = Line::from(one.to_vec());
    if line.width() <= columns {
        return vec![line];
    }
    let mut lines = indented(&[Span::new(Tone::Quiet, about)], columns, super::INDENT);
    lines.extend(copied(command, columns));
    lines
}

/// A command; where it is broken a shell goes on.
pub(super) fn copied(command: &str, columns: usize) -> Vec<Line> {
    let mut flow = Flow::new(columns, super::INDENT * 2, " \\");
    flow.add(&Span::plain(format!(
        "{}{command}",
        " ".repeat(super::INDENT)
    )));
    flow.lines
}

/// Lines in the making.
struct Flow {
    columns: usize,
    hang: usize,
    /// What stands at the end of a line that goes on.
    mark: &'static str,
    lines: Vec<Line>,
    /// Whether the last line has a word yet.
    begun: bool,
}

impl Flow {
    fn new(columns: usize, hang: usize, mark: &'static str) -> Self {
        Self {
            columns: columns.max(hang + COLUMNS_MIN),
            hang,
            mark,
            lines: vec![Line::default()],
            begun: false,
        }
    }

    /// Words, with the spaces that stand between them where no line ends.
    fn add(&mut self, span: &Span) {
        for word in span.text.split_inclusive(' ') {
            let bare = word.trim_end_matches(' ');
            let room = self.columns - width(self.mark);
            let last = self.last().width();
            if self.begun && last + width(bare) > room && last > self.hang {
                self.go_on();
            }
            let mut rest = word;
            while self.last().width() + width(rest.trim_end_matches(' ')) > room {
                let (fits, more) = parted(rest, room.saturating_sub(self.last().width()));
                self.push(span.tone, fits);
                self.go_on();
                rest = more;
            }
            self.push(span.tone, rest);
        }
    }

    fn push(&mut self, tone: Tone, text: &str) {
        self.begun |= !text.trim().is_empty();
        self.last().add(tone, text);
    }

    fn go_on(&mut self) {
        let (mark, hang) = (self.mark, " ".repeat(self.hang));
        let last = self.last();
        if let Some(span) = last.0.last_mut() {
            span.text.truncate(span.text.trim_end_matches(' ').len());
        }
        last.add(Tone::Plain, mark);
        let mut next = Line::default();
        next.add(Tone::Plain, &hang);
        self.lines.push(next);
    }

    fn last(&mut self) -> &mut Line {
        self.lines
            .last_mut()
            .expect("there is a line from the start")
    }
}

/// As much of a text as fits, at least one character, and the rest.
fn parted(text: &str, columns: usize) -> (&str, &str) {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += if character < WIDE { 1 } else { 2 };
        if used > columns && at > 0 {
            return text.split_at(at);
        }
    }
    (text, "")
}

/// A table below a head, each row in one line; where that does not fit each row is a paragraph, in
/// which each cell follows its heading.
pub(super) fn table(head: &[&str], rows: &[Vec<Line>], columns: usize) -> Vec<Line> {
    let widths: Vec<_> = head
        .iter()
        .enumerate()
        .map(|(at, title)| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(Line::width);
            cells.max().unwrap_or(0).max(width(title))
        })
        .collect();
    let all: usize = widths.iter().map(|width| width + 2).sum();
    if super::INDENT + all.saturating_sub(2) > columns {
        return rows
            .iter()
            .flat_map(|row| folded(head, row, columns))
            .collect();
    }
    let titles = head
        .iter()
        .map(|title| Line::from(vec![Span::new(Tone::Quiet, *title)]));
    let titles: Vec<_> = titles.collect();
    let lines = std::iter::once(&titles).chain(rows);
    lines.map(|row| aligned(row, &widths)).collect()
}

fn aligned(row: &[Line], widths: &[usize]) -> Line {
    let mut line = Line::default();
    let mut gap = super::INDENT;
    for (cell, full) in row.iter().zip(widths) {
        line.add(Tone::Plain, &" ".repeat(gap));
        for span in cell.spans() {
            line.add(span.tone, &span.text);
        }
        gap = full.saturating_sub(cell.width()) + 2;
    }
    line
}

fn folded(head: &[&str], row: &[Line], columns: usize) -> Vec<Line> {
    let mut spans = vec![Span::plain(" ".repeat(super::INDENT))];
    let last = row.len().saturating_sub(1);
    for (at, (title, cell)) in head.iter().zip(row).enumerate() {
        if at > 0 {
            spans.push(Span::new(Tone::Quiet, format!(" {title} ")));
        }
        spans.extend(cell.spans().iter().cloned());
        // Part of the word before it: no line begins with it.
        let end = if at == 0 { ":" } else { "," };
        if at < last
            && let Some(span) = spans.last_mut()
        {
            span.text += end;
        }
    }
    flow(&spans, columns, super::INDENT * 2)
}
