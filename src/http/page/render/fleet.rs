//! Servers by zone, and nodes.

use maud::{Markup, html};

use super::{answer, badge};
use crate::domain::board::{Cell, Kind, NodeLine, Server};
use crate::domain::name::Name;
use crate::http::page::look::Look;
use crate::http::page::text::{counted, moment};

/// Up to so many lines of what is as it should be are unfolded.
const OPEN_MAX: usize = 24;

/// The servers.
pub(in crate::http::page) fn servers(look: &Look) -> Markup {
    let matrix = &look.board.matrix;
    if matrix.servers.is_empty() {
        return html! {
            p .quiet { "Nobody polls yet. A node that asks appears here with its servers." }
        };
    }
    let stands_out = |server: &&Server| server.stands_out();
    let (first, rest) = parted(&matrix.servers, stands_out);
    html! {
        p .lead {
            "What the nodes of each zone were told last, and on how many of them. What is out of the "
            "ordinary comes first."
        }
        (find("server", "Find a server", "cny"))
        @if !first.is_empty() { (matrix_of(first, &matrix.zones)) }
        @if !rest.is_empty() {
            details .rest open[rest.len() <= OPEN_MAX] {
                summary { (counted(rest.len(), "server is", "servers are")) " ready on every node" }
                (matrix_of(rest, &matrix.zones))
            }
        }
        @if matrix.more.0 > 0 {
            p .more {
                "And " (counted(matrix.more.0, "server", "servers")) " more, "
                (matrix.more.1) " of them ready everywhere: "
                a href="/api/v1/fleet?output=table" { "all rows as text" } "."
            }
        }
    }
}

fn matrix_of(servers: &[Server], zones: &[Option<Name>]) -> Markup {
    html! {
        table .matrix role="table" {
            caption .unseen { "Servers by the zone of the nodes" }
            thead role="rowgroup" {
                tr role="row" {
                    th scope="col" role="columnheader" { "Server" }
                    th scope="col" role="columnheader" { "Asked for" }
                    @for zone in zones {
                        th scope="col" role="columnheader" { (zone_name(zone.as_ref())) }
                    }
                }
            }
            tbody role="rowgroup" {
                @for server in servers { (server_line(server, zones)) }
            }
        }
    }
}

/// The first ones, and the rest: what is listed comes in that order.
fn parted<T>(all: &[T], first: impl Fn(&&T) -> bool) -> (&[T], &[T]) {
    all.split_at(all.iter().take_while(first).count())
}

fn server_line(server: &Server, zones: &[Option<Name>]) -> Markup {
    let id = server.id.as_str();
    html! {
        tr id=(format!("server-{id}")) role="row" {
            th scope="row" role="rowheader" {
                a href=(format!("/api/v1/fleet?output=table&server={id}")) {
                    span .backend { (server.id.backend()) "/" } wbr; (server.id.server())
                }
                @if server.canary { " " span .tag { "canary" } }
            }
            td role="cell" data-label="Asked for" {
                @match &server.desired {
                    Some(words) => (answer(Kind::of_words(words), words)),
                    None => span .quiet { "by node" },
                }
            }
            @for (cell, zone) in server.cells.iter().zip(zones) {
                td role="cell" data-label=(zone_name(zone.as_ref())) { (cell_of(cell)) }
            }
        }
    }
}

fn cell_of(cell: &Cell) -> Markup {
    if cell.answers.is_empty() {
        return html! { span .quiet { "–" } };
    }
    html! {
        @for (kind, words, count) in &cell.answers {
            span .told { (answer(*kind, words)) " " span .count { "×" (count) } }
        }
        @if cell.waiting > 0 { span .told .quiet { (cell.waiting) " waiting" } }
        @if cell.silent > 0 { span .told .silent { (cell.silent) " silent" } }
    }
}

fn zone_name(zone: Option<&Name>) -> &str {
    zone.map_or("other", Name::as_str)
}

/// A form that works without script: the answer is the table of the API.
fn find(field: &str, label: &str, example: &str) -> Markup {
    let id = format!("find-{field}");
    html! {
        form .find action="/api/v1/fleet" method="get" {
            input type="hidden" name="output" value="table";
            label for=(id) { (label) }
            input id=(id) name=(field) type="search" maxlength="128" placeholder=(example) autocomplete="off";
            button type="submit" { "Show its rows" }
        }
    }
}

/// The nodes.
pub(in crate::http::page) fn nodes(look: &Look) -> Markup {
    let nodes = &look.board.nodes;
    if nodes.listed.is_empty() {
        return html! { p .quiet { "No node has polled yet." } };
    }
    let (first, rest) = parted(&nodes.listed, |line| line.stands_out());
    html! {
        p .lead {
            (counted(nodes.total, "node", "nodes")) ", "
            @if nodes.silent > 0 { b .silent { (nodes.silent) " silent" } } @else { "none silent" }
            ", "
            @if nodes.waiting > 0 { (nodes.waiting) " waiting to be told" } @else { "all told what stands" }
            "."
        }
        (find("node", "Find a node", "haproxy-main"))
        @if !first.is_empty() { (nodes_of(first, look)) }
        @if !rest.is_empty() {
            details .rest open[rest.len() <= OPEN_MAX] {
                summary { (counted(rest.len(), "node polls and has", "nodes poll and have")) " what stands" }
                (nodes_of(rest, look))
            }
        }
        @if nodes.more > 0 {
            p .more {
                "And " (counted(nodes.more, "node", "nodes")) " more: "
                a href="/api/v1/fleet?output=table" { "all rows as text" } "."
            }
        }
    }
}

fn nodes_of(lines: &[NodeLine], look: &Look) -> Markup {
    html! {
        table .nodes role="table" {
            caption .unseen { "Nodes, when they polled last and what they have applied" }
            thead role="rowgroup" {
                tr role="row" {
                    @for name in ["Node", "Zone", "Last poll", "Applied index", "Rows", "How it is"] {
                        th scope="col" role="columnheader" { (name) }
                    }
                }
            }
            tbody role="rowgroup" {
                @for line in lines { (node_line(line, look)) }
            }
        }
    }
}

fn node_line(line: &NodeLine, look: &Look) -> Markup {
    let name = line.name.as_str();
    let newest = look.replicas.index;
    html! {
        tr id=(format!("node-{name}")) role="row" {
            th scope="row" role="rowheader" {
                a href=(format!("/api/v1/fleet?output=table&node={name}")) { (name) }
                @if let Some(role) = &line.role { " " span .tag { (role) } }
            }
            td role="cell" data-label="Zone" {
                @match &line.zone { Some(zone) => (zone), None => span .quiet { "not said" } }
            }
            td role="cell" data-label="Last poll" { (moment(line.last_poll, look.board.at)) }
            td role="cell" data-label="Applied index" {
                @match line.applied {
                    Some(index) => {
                        span .number { (index) }
                        @if newest.is_some_and(|newest| index < newest) {
                            span .quiet { " of " (newest.unwrap_or_default()) }
                        }
                    },
                    None => span .quiet { "never answered" },
                }
            }
            td role="cell" data-label="Rows" { span .number { (line.rows) } }
            td role="cell" data-label="How it is" { (how(line)) }
        }
    }
}

fn how(line: &NodeLine) -> Markup {
    html! {
        @if line.is_silent() { (badge("frozen", "silent")) }
        @else if line.silent > 0 { (badge("drain", &format!("{} silent", line.silent))) }
        @if line.waiting > 0 { (badge("wait", &format!("{} waiting", line.waiting))) }
        @else if line.silent == 0 { (badge("ready", "told")) }
    }
}
