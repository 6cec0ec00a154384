//! What the other replicas know of the fleet: `GET <base>/peer/v1/fleet`, and
//! `POST <base>/peer/v1/fleet/forget`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use serde::Deserialize;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Peer;
use super::client::{Failed, Method, PeerClient, Request};
use crate::domain::fleet::{Missing, Report};
use crate::domain::name::Name;
use crate::domain::statement::Statement;
use crate::domain::token::Token;
use crate::domain::word::Identity;
use crate::fleet::{Forgot, Others};
use crate::http_client::Authority;

/// The longest that one of these questions may take, the reading of its answer included. Far more
/// than a large report needs, and less than an HTTP request may take here: the others are shown.
pub const FLEET_TIME_MAX: Duration = Duration::from_secs(2);
/// The most bytes of a report. A row takes some 50, so all rows that a replica keeps have room.
pub const REPORT_BYTES_MAX: usize = 32 << 20;
/// The most bytes of what a peer says to have forgotten.
const FORGOTTEN_BYTES_MAX: usize = 4_096;

/// Asks the other replicas for their part of the fleet, each with a connection of its own.
#[derive(Debug)]
pub struct FleetAsk {
    way: Arc<Way>,
    peers: Vec<Peer>,
}

#[derive(Debug)]
struct Way {
    client: PeerClient,
    identity: Arc<Identity>,
}

#[derive(Deserialize)]
struct Forgotten {
    /// None: the question was meant for somebody else.
    rows: Option<usize>,
}

impl FleetAsk {
    /// Asks these as `identity`, and with the token that is held at that moment; those at
    /// `https://` are known by `authorities`. Connects to nothing yet.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new(
        identity: Arc<Identity>,
        token: Arc<ArcSwapOption<Token>>,
        authorities: Vec<Authority>,
        peers: Vec<Peer>,
    ) -> io::Result<Self> {
        let client = PeerClient::new(token, authorities, FLEET_TIME_MAX)?;
        let way = Arc::new(Way { client, identity });
        Ok(Self { way, peers })
    }

    /// Asks all at once; who gives nothing that can be used is missing, with the reason.
    async fn all<T, F>(
        &self,
        question: impl Fn(&Way, &Peer) -> Request,
        read: F,
    ) -> Vec<Result<T, Missing>>
    where
        T: Send + 'static,
        F: Fn(&Peer, &Statement) -> Result<T, String> + Copy + Send + 'static,
    {
        let ask = |peer: &Peer| {
            let (way, peer, request) = (self.way.clone(), peer.clone(), question(&self.way, peer));
            tokio::spawn(async move {
                let asked = timeout(FLEET_TIME_MAX, way.ask(&peer, request, read)).await;
                asked.unwrap_or_else(|_| Err(late(&peer)))
            })
        };
        let asked: Vec<_> = self.peers.iter().map(ask).collect();
        let mut outcomes = Vec::new();
        for (peer, outcome) in self.peers.iter().zip(asked) {
            let outcome = outcome.await.unwrap_or_else(|error| Err(error.to_string()));
            outcomes.push(outcome.map_err(|why| Missing {
                replica: peer.slot.clone(),
                why,
            }));
        }
        outcomes
    }
}

#[async_trait]
impl Others for FleetAsk {
    async fn reports(&self) -> Vec<Result<Report, Missing>> {
        let question = |_: &Way, _: &Peer| Request {
            method: Method::GET,
            path: "/peer/v1/fleet".to_owned(),
            answer_bytes_max: REPORT_BYTES_MAX,
        };
        self.all(question, report).await
    }

    async fn forget(&self, node: &Name) -> Vec<Result<Forgot, Missing>> {
        // Names and numbers hold nothing that a URL would have to escape.
        let question = |way: &Way, peer: &Peer| Request {
            method: Method::POST,
            path: format!(
                "/peer/v1/fleet/forget?node={node}&slot={}&digest={:016x}",
                peer.slot, way.identity.digest
            ),
            answer_bytes_max: FORGOTTEN_BYTES_MAX,
        };
        self.all(question, forgot).await
    }
}

impl Way {
    async fn ask<T, F>(&self, peer: &Peer, question: Request, read: F) -> Result<T, String>
    where
        T: Send + 'static,
        F: Fn(&Peer, &Statement) -> Result<T, String> + Send + 'static,
    {
        let body = match self.client.exchange(peer, question).await {
            Ok(body) => body,
            Err(Failed::Refused) => {
                let url = &peer.url;
                return Err(format!(
                    "{url} refuses the connection: no replica runs there"
                ));
            }
            Err(Failed::Silent(text)) => return Err(text),
        };
        let (identity, peer) = (Arc::clone(&self.identity), peer.clone());
        // A large report takes a while to read; nothing else waits for it.
        let reading = spawn_blocking(move || {
            let unreadable = |error: String| {
                let url = &peer.url;
                format!("{url}: what came is not what a replica says: {error}")
            };
            let statement =
                Statement::parse(&body).map_err(|error| unreadable(error.to_string()))?;
            if let Some(text) = identity.mismatch(&statement.from, &peer.slot) {
                let url = &peer.url;
                return Err(format!(
                    "who answers at {url} is not counted as this peer: {text}"
                ));
            }
            read(&peer, &statement).map_err(unreadable)
        });
        reading.await.map_err(|error| error.to_string())?
    }
}

fn report(peer: &Peer, statement: &Statement) -> Result<Report, String> {
    let report = Report::parse(statement.says.as_bytes(), &statement.from.prefix);
    let report = report.map_err(|error| error.to_string())?;
    if report.replica != peer.slot {
        return Err(format!("it is the report of {}", report.replica));
    }
    Ok(report)
}

fn forgot(peer: &Peer, statement: &Statement) -> Result<Forgot, String> {
    let forgotten: Forgotten =
        serde_json::from_str(&statement.says).map_err(|error| error.to_string())?;
    let rows = forgotten
        .rows
        .ok_or("it takes this replica for no peer of its own")?;
    let replica = peer.slot.clone();
    Ok(Forgot { replica, rows })
}

fn late(peer: &Peer) -> String {
    let url = &peer.url;
    format!("{url} gave no whole answer within {FLEET_TIME_MAX:?}")
}
