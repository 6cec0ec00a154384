//! What needs attention, the replicas, and what was written last.

use maud::{Markup, html};

use super::{authority, badge, command, ends, when};
use crate::domain::board::{Finding, Standing, Weight, environment_flags};
use crate::http::page::look::Look;
use crate::http::page::text::{counted, said, told};
use crate::http::replicas::PeerJson;

/// The problems, with what to do.
pub(in crate::http::page) fn problems(look: &Look) -> Markup {
    let findings = &look.board.findings;
    if findings.listed.is_empty() {
        let text = if look.board.nodes.total == 0 {
            "No node polls yet."
        } else {
            "Every node polls, and was told what stands."
        };
        return html! { p .fine { (badge("ready", "Nothing")) (text) } };
    }
    html! {
        ul .findings {
            @for finding in &findings.listed { (finding_of(finding)) }
        }
        @if findings.more > 0 {
            p .more {
                "And " (counted(findings.more, "more", "more")) ": "
                a href="/api/v1/snapshot" { "all problems of keys" } "."
            }
        }
    }
}

fn finding_of(finding: &Finding) -> Markup {
    let (class, word) = match finding.weight {
        Weight::Severe => ("severe", "severe"),
        Weight::Warning => ("warning", "warning"),
        Weight::Note => ("note", "note"),
    };
    html! {
        li .(class) {
            p .what { span .mark aria-hidden="true" {} span .unseen { (word) ": " } b { (finding.what) } }
            p .exactly { (told(&finding.text)) }
            p .advice { (finding.advice) }
            @if let Some(text) = &finding.command { (command(text)) }
        }
    }
}

/// This replica and the others.
pub(in crate::http::page) fn replicas(look: &Look) -> Markup {
    let own = &look.replicas;
    html! {
        ul .replicas {
            li {
                p .what { b { (own.replica) } " " span .tag { "this one" } " " (authority(own.authority, look.answers)) }
                p { (told(&own.reason)) "." }
                p .quiet { "index " (index(own.index)) ", version " (own.version) }
            }
            @for peer in &own.peers { (peer_of(peer, look)) }
        }
        @if own.peers.is_empty() { p .quiet { "It is the only one that it knows of." } }
    }
}

fn peer_of(peer: &PeerJson, look: &Look) -> Markup {
    let answers = ["current", "relayed", "agreed"].contains(&peer.counted_as);
    let missing = look.unreported.iter();
    let missing = missing.filter(|name| name.as_str() == peer.slot).count() > 0;
    html! {
        li {
            p .what {
                b { (peer.slot) } " " (authority(peer.counted_as, answers))
                @if peer.said.as_ref().is_some_and(|said| said.draining) { " " (badge("drain", "stopping")) }
            }
            @if let Some(trouble) = &peer.trouble { p { (said(trouble)) } }
            p .quiet {
                @match &peer.said {
                    Some(words) => { "index " (index(words.index)) ", version " (said(&words.version)) },
                    None => "it has said nothing",
                }
                @if missing { ", no report of its nodes" }
            }
        }
    }
}

fn index(index: Option<u64>) -> String {
    index.map_or_else(|| "none".to_owned(), |index| index.to_string())
}

/// What was written last.
pub(in crate::http::page) fn stands(look: &Look) -> Markup {
    let stands = &look.board.stands;
    let flags = environment_flags(&look.prefix);
    html! {
        @if stands.listed.is_empty() {
            p .quiet { "No directive stands: every server is ready." }
        } @else {
            ol .stands {
                @for standing in &stands.listed { (standing_of(standing, look)) }
            }
        }
        @if stands.more > 0 {
            p .more {
                "And " (counted(stands.more, "key", "keys")) " more, changed earlier: "
                a href="/api/v1/snapshot" { "all of them" } "."
            }
        }
        p .quiet { "What was taken away since, and what stood before:" }
        (command(&format!("tidegate history {flags}")))
    }
}

fn standing_of(standing: &Standing, look: &Look) -> Markup {
    let author = &standing.author;
    html! {
        li {
            p .what {
                code .path { (said(&standing.path)) } " "
                @match &standing.says {
                    Ok(words) => b { (words) },
                    Err(error) => { (badge("frozen", "frozen")) " " (said(error)) },
                }
            }
            @if let Some(reason) = &author.reason { p .reason { (said(reason)) } }
            p .who {
                @if let Some(by) = &author.by { span { "by " (said(by)) } }
                (when("written", standing.since, look))
                (ends(standing.until, look))
                span .quiet { "index " (standing.index) }
            }
        }
    }
}
