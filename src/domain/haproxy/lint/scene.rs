//! One reading of the files, with what the rules ask of it.

use std::net::IpAddr;

use super::Evidence;
use super::report::Counts;
use crate::domain::haproxy::configuration::{Configuration, Proxy, Server};
use crate::domain::haproxy::reading::Reading;
use crate::domain::haproxy::server::Options;
use crate::domain::key::CANARY;
use crate::domain::request::Request;

/// What canary servers are called.
const CANARY_NAME: &str = "-cny-";

/// What the rules look at.
pub struct Scene<'a> {
    /// The lines.
    pub reading: &'a Reading<'a>,
    /// The sections.
    pub configuration: &'a Configuration,
    /// What is known beside them.
    pub evidence: &'a Evidence,
    /// The servers, in their order.
    pub rows: Vec<Row<'a>>,
}

/// One backend, and its servers.
pub struct OneBackend<'s, 'a> {
    /// The backend.
    pub proxy: &'a Proxy,
    /// All servers.
    pub all: &'s [Row<'a>],
    /// Those that HAProxy asks an agent about; never none.
    pub enrolled: Vec<&'s Row<'a>>,
}

/// One server of one backend.
pub struct Row<'a> {
    /// Its backend.
    pub proxy: &'a Proxy,
    /// The server.
    pub server: &'a Server,
    /// What it asks, where that can be read; `None` without an agent check.
    pub request: Option<Request<'a>>,
    /// Whether another active server shares its traffic.
    pub shares: bool,
}

impl<'a> Scene<'a> {
    /// Of one reading.
    #[must_use]
    pub fn new(
        reading: &'a Reading<'a>,
        configuration: &'a Configuration,
        evidence: &'a Evidence,
    ) -> Self {
        let rows = configuration.backends().flat_map(|proxy| {
            let active = proxy.servers.iter().filter(|server| !server.is_backup());
            // A template is several.
            let active: usize = active
                .map(|server| if server.is_template { 2 } else { 1 })
                .sum();
            let row = move |server: &'a Server| Row {
                proxy,
                server,
                request: asked(server),
                shares: !server.is_backup() && active > 1,
            };
            proxy.servers.iter().map(row)
        });
        Self {
            reading,
            configuration,
            evidence,
            rows: rows.collect(),
        }
    }

    /// The servers that HAProxy asks an agent about.
    pub fn enrolled(&self) -> impl Iterator<Item = &Row<'a>> {
        self.rows.iter().filter(|row| row.server.has_agent())
    }

    /// The servers of each backend that has any.
    pub fn of_backends(&self) -> impl Iterator<Item = &[Row<'a>]> {
        self.rows
            .chunk_by(|one, other| std::ptr::eq(one.proxy, other.proxy))
    }

    /// The servers of each backend that has such servers.
    pub fn enrolled_backends(&self) -> impl Iterator<Item = OneBackend<'_, 'a>> {
        self.of_backends().filter_map(|all| {
            let enrolled: Vec<_> = all.iter().filter(|row| row.server.has_agent()).collect();
            let proxy = enrolled.first()?.proxy;
            Some(OneBackend {
                proxy,
                all,
                enrolled,
            })
        })
    }

    pub(super) fn counts(&self) -> Counts {
        let shadow = |row: &&Row<'_>| row.request.is_some_and(|request| request.shadow);
        Counts {
            servers: self.rows.len(),
            enrolled: self.enrolled().count(),
            shadow: self.enrolled().filter(shadow).count(),
        }
    }
}

impl Row<'_> {
    /// `backend/server`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.proxy.name, self.server.name)
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.server.options
    }

    /// Whether it is a canary server.
    #[must_use]
    pub fn is_canary(&self) -> bool {
        self.server.name.contains(CANARY_NAME)
            || self
                .request
                .is_some_and(|request| request.groups().contains(&CANARY))
    }

    /// Whom it asks, where that is an address.
    #[must_use]
    pub fn agent_address(&self) -> Option<IpAddr> {
        let options = self.options();
        let given = options.agent_addr.as_ref().or(options.addr.as_ref())?;
        address(&given.value)
    }
}

/// An address as HAProxy takes it.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    bare.unwrap_or(text).parse().ok()
}

fn asked(server: &Server) -> Option<Request<'_>> {
    let send = server
        .options
        .agent_send
        .as_ref()
        .filter(|_| server.has_agent())?;
    Request::parse(send.value.as_bytes()).ok()
}
