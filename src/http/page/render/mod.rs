//! The page as HTML.

use maud::{DOCTYPE, Markup, html};

pub(super) use self::canary::canary;
pub(super) use self::fleet::{nodes, servers};
pub(super) use self::lists::{problems, replicas, stands};
use super::assets::{ICON, SCRIPT, STYLE};
use super::edition::Edition;
use super::look::Look;
use super::text::{counted, moment};
use crate::domain::answer::State;
use crate::domain::board::Kind;

mod canary;
mod fleet;
mod lists;
mod ramp;

/// The sections with the headings that name them.
const HEADINGS: [(&str, &str); 6] = [
    ("canary", "Canary"),
    ("problems", "What needs attention"),
    ("replicas", "Replicas"),
    ("servers", "Servers by zone"),
    ("nodes", "Nodes"),
    ("stands", "Latest changes that stand"),
];

/// The whole page.
pub(super) fn page(edition: &Edition) -> Markup {
    let section = |id: &str| edition.sections.iter().find(|section| section.id == id);
    let inside = |id: &str| maud::PreEscaped(section(id).map_or("", |s| s.html.as_str()));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (edition.title) }
                link rel="icon" type="image/svg+xml" href=(ICON.path);
                link rel="stylesheet" href=(STYLE.path);
                script src=(SCRIPT.path) defer {}
            }
            body {
                a .skip href="#main" { "Skip to the state" }
                header {
                    div #top { (inside("top")) }
                    p #live .live hidden {}
                    p #said .unseen role="status" {}
                }
                main #main tabindex="-1" {
                    @for (id, heading) in HEADINGS {
                        section .card .(id) aria-labelledby=(format!("{id}-heading")) {
                            h2 id=(format!("{id}-heading")) { (heading) }
                            div id=(id) { (inside(id)) }
                        }
                    }
                }
                (footer())
            }
        }
    }
}

fn footer() -> Markup {
    html! {
        footer {
            p {
                "This page shows, and changes nothing: what is to be changed is written with the "
                "commands that it names. "
                noscript { "Without script it stands still: load it again for what is new." }
            }
            nav aria-label="The same for programs" {
                @for path in ["/api/v1/snapshot", "/api/v1/fleet", "/api/v1/replicas", "/metrics"] {
                    a href=(path) { (path) }
                }
            }
        }
    }
}

/// The page's title: what is asked of the canary stands first, for who has many tabs.
pub(super) fn title(look: &Look) -> String {
    let (_, environment) = look.prefix.parts();
    let state = look.board.canary.word();
    format!("{state} · {environment} · Tidegate")
}

/// Whose page it is, and how it stands.
pub(super) fn top(look: &Look) -> Markup {
    let (root, environment) = look.prefix.parts();
    let (board, replica) = (&look.board, &look.replicas);
    html! {
        div .name {
            p .brand { "Tidegate" }
            h1 {
                (environment)
                @if root != "frontend" { span .root { " in " (root) } }
            }
        }
        dl .facts {
            div {
                dt { "This replica" }
                dd { (replica.replica) " " (authority(replica.authority, look.answers)) }
            }
            div {
                dt { "Listing" }
                dd {
                    @match replica.index {
                        Some(index) => { span .number { (index) } },
                        None => { "none" },
                    }
                    @if let Some(generation) = look.generation {
                        span .quiet { " epoch " (generation.epoch) ", generation " (generation.r#gen) }
                    }
                }
            }
            div {
                dt { "Fleet" }
                dd {
                    (counted(board.nodes.total, "node", "nodes"))
                    span .quiet { " " (counted(board.rows, "row", "rows")) }
                }
            }
            div {
                dt { "As of" }
                dd { time #now datetime=(board.at) { (board.at.strftime("%F %H:%M:%S UTC")) } }
            }
        }
        @if replica.draining {
            p .banner .warning { "This replica is stopping: it answers until balancers have noticed." }
        }
        @if !look.answers {
            p .banner .severe {
                "This replica answers nothing now. HAProxy keeps its state. What stands below is what it "
                "would go on with."
            }
        }
    }
}

/// An authority as a badge: whether it answers is in its form too.
fn authority(name: &str, answers: bool) -> Markup {
    let kind = match (name, answers) {
        ("current", _) => "ready",
        (_, true) => "drain",
        (_, false) => "frozen",
    };
    badge(kind, name)
}

/// A word with a mark: neither needs the colour.
fn badge(kind: &str, text: &str) -> Markup {
    html! { span .badge .(kind) { span .mark aria-hidden="true" {} (text) } }
}

/// An answer as a badge.
fn answer(kind: Kind, words: &str) -> Markup {
    badge(kind.as_str(), words.strip_suffix(" 100%").unwrap_or(words))
}

/// A command to be copied.
fn command(text: &str) -> Markup {
    html! { code .command { (text) } }
}

const fn kind_of(state: State) -> Kind {
    match state {
        State::Ready(_) => Kind::Ready,
        State::Drain => Kind::Drain,
        State::Maint => Kind::Maint,
    }
}

/// When something ends, or was to end.
fn ends(until: Option<jiff::Timestamp>, look: &Look) -> Markup {
    let over = until.is_some_and(|until| until <= look.board.at);
    when(if over { "was to end" } else { "ends" }, until, look)
}

/// A moment with the word before it.
fn when(word: &str, at: Option<jiff::Timestamp>, look: &Look) -> Markup {
    html! { @if let Some(at) = at { span .when { (word) " " (moment(at, look.board.at)) } } }
}
