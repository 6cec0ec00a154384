//! Servers by zone, and nodes.

use super::line::{Line, Span, Tone, indented, table};
use super::{Frame, INDENT, counted, heading};
use crate::domain::board::{Cell, Kind, NodeLine, Server};
use crate::domain::name::Name;
use crate::domain::view::ago;

/// Up to so many lines of what is as it should be are shown.
const PLAIN_MAX: usize = 24;

/// The servers.
pub(super) fn servers(frame: &Frame<'_>, columns: usize) -> Vec<Line> {
    let matrix = &frame.board.matrix;
    let mut lines = heading("Servers by zone", None, columns);
    if matrix.servers.is_empty() {
        let text = "nobody is known to poll";
        lines.extend(indented(&[Span::plain(text)], columns, INDENT));
        return lines;
    }
    let shown = shown(&matrix.servers, Server::stands_out);
    let zones = matrix
        .zones
        .iter()
        .map(|zone| zone.as_ref().map_or("other", Name::as_str));
    let head: Vec<_> = ["server", "asked for"].into_iter().chain(zones).collect();
    let rows: Vec<_> = shown.iter().map(server_row).collect();
    lines.extend(table(&head, &rows, columns));
    let (more, plain) = matrix.more;
    let folded = matrix.servers.len() - shown.len();
    let (more, plain) = (more + folded, plain + folded);
    if more > 0 {
        let text = format!(
            "and {} more, {plain} of them ready on every node",
            counted(more, "server", "servers")
        );
        lines.extend(indented(&[Span::new(Tone::Quiet, text)], columns, INDENT));
    }
    lines
}

/// Those that stand out come first; the others are shown when they are few.
fn shown<T>(all: &[T], stands_out: impl Fn(&T) -> bool) -> &[T] {
    let first = all.iter().take_while(|one| stands_out(one)).count();
    if all.len() - first <= PLAIN_MAX {
        all
    } else {
        &all[..first]
    }
}

fn server_row(server: &Server) -> Vec<Line> {
    let id = if server.canary {
        format!("{} (canary)", server.id)
    } else {
        server.id.to_string()
    };
    let asked = match &server.desired {
        Some(words) => answer(Kind::of_words(words), words),
        None => Span::new(Tone::Quiet, "by node"),
    };
    let first = [Span::plain(id), asked];
    let first = first.into_iter().map(|span| Line::from(vec![span]));
    first.chain(server.cells.iter().map(cell)).collect()
}

fn cell(cell: &Cell) -> Line {
    let mut spans = Vec::new();
    for (kind, words, count) in &cell.answers {
        let answer = answer(*kind, words);
        let text = format!("{} x{count}", answer.text);
        spans.push(Span::new(answer.tone, text));
    }
    let waiting = (Tone::Held, cell.waiting, "waiting");
    for (tone, count, word) in [waiting, (Tone::Bad, cell.silent, "silent")] {
        if count > 0 {
            spans.push(Span::new(tone, format!("{count} {word}")));
        }
    }
    if spans.is_empty() {
        return Line::from(vec![Span::new(Tone::Quiet, "-")]);
    }
    let mut line = Line::default();
    for (at, span) in spans.into_iter().enumerate() {
        if at > 0 {
            line = line.with(Span::plain(" "));
        }
        line = line.with(span);
    }
    line
}

fn answer(kind: Kind, words: &str) -> Span {
    let tone = match kind {
        Kind::Ready => Tone::Good,
        Kind::Drain | Kind::Maint => Tone::Held,
        Kind::Shadow => Tone::Quiet,
        Kind::Frozen | Kind::Nothing => Tone::Bad,
    };
    Span::new(tone, words.strip_suffix(" 100%").unwrap_or(words))
}

/// The nodes.
pub(super) fn nodes(frame: &Frame<'_>, columns: usize) -> Vec<Line> {
    let nodes = &frame.board.nodes;
    if nodes.listed.is_empty() {
        return Vec::new();
    }
    let silent = match nodes.silent {
        0 => "none silent".to_owned(),
        some => format!("{some} silent"),
    };
    let waiting = match nodes.waiting {
        0 => "all told what stands".to_owned(),
        some => format!("{some} waiting to be told"),
    };
    let total = counted(nodes.total, "node", "nodes");
    let sum = format!("{total}, {silent}, {waiting}");
    let tone = match (nodes.silent, nodes.waiting) {
        (0, 0) => Tone::Good,
        (0, _) => Tone::Held,
        (_, _) => Tone::Bad,
    };
    let mut lines = heading("Nodes", Some(Span::new(tone, sum)), columns);
    let shown = shown(&nodes.listed, NodeLine::stands_out);
    let head = ["node", "zone", "last poll", "applied", "rows", "how it is"];
    let rows: Vec<_> = shown.iter().map(|node| node_row(frame, node)).collect();
    if !rows.is_empty() {
        lines.extend(table(&head, &rows, columns));
    }
    let more = nodes.more + nodes.listed.len() - shown.len();
    if more > 0 {
        let text = format!("and {} more", counted(more, "node", "nodes"));
        lines.extend(indented(&[Span::new(Tone::Quiet, text)], columns, INDENT));
    }
    lines
}

fn node_row(frame: &Frame<'_>, node: &NodeLine) -> Vec<Line> {
    let name = match &node.role {
        Some(role) => format!("{} ({role})", node.name),
        None => node.name.to_string(),
    };
    let newest = frame.listing.map(|(index, _)| index);
    let applied = match (node.applied, newest) {
        (None, _) => Span::new(Tone::Bad, "never"),
        (Some(index), Some(newest)) if index < newest => {
            Span::plain(format!("{index} of {newest}"))
        }
        (Some(index), _) => Span::plain(index.to_string()),
    };
    let zone = node.zone.as_ref().map_or("-", Name::as_str);
    let cells = [
        Span::plain(name),
        Span::plain(zone),
        Span::plain(ago(node.last_poll, frame.board.at)),
        applied,
        Span::plain(node.rows.to_string()),
        how(node),
    ];
    cells.map(|span| Line::from(vec![span])).into()
}

fn how(node: &NodeLine) -> Span {
    let mut words = Vec::new();
    if node.is_silent() {
        words.push("silent".to_owned());
    } else if node.silent > 0 {
        words.push(format!("{} silent", node.silent));
    }
    if node.waiting > 0 {
        words.push(format!("{} waiting", node.waiting));
    }
    match (words.is_empty(), node.silent) {
        (true, _) => Span::new(Tone::Good, "told"),
        (false, 0) => Span::new(Tone::Held, words.join(", ")),
        (false, _) => Span::new(Tone::Bad, words.join(", ")),
    }
}
