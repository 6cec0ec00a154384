//! The questions to the other replicas.
//!
//! Each peer is asked again and again, one question at a time, and what came of it is told to
//! [`crate::beliefs`]. All loops are one future: it is suspended, and stopped, as a whole.

mod client;
mod fleet;
mod http;

use std::future::{Future, poll_fn};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::task::Poll;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::fleet::{FLEET_TIME_MAX, FleetAsk, REPORT_BYTES_MAX};
pub use self::http::{HttpAsk, WORD_BYTES_MAX};
use crate::beliefs::Beliefs;
use crate::clock::Clock;
use crate::domain::authority::{Heard, Times};
use crate::domain::name::Name;
use crate::metrics::PeerCounters;

/// How far the time between two questions is off its mean: replicas that were started together
/// must not ask together for ever.
const JITTER: std::ops::Range<f64> = 0.9..1.1;

/// Another replica, and where it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its slot.
    pub slot: Name,
    /// Base URL of its HTTP listener: `http://host:port`.
    pub url: String,
}

/// The way to a peer.
pub trait Ask: Send + Sync + 'static {
    /// Asks a peer for its word; `known` is the edition of its memory that is known here. It may
    /// take as long as it likes: the caller stops waiting.
    fn ask(&self, peer: &Peer, known: Option<u64>) -> impl Future<Output = Heard> + Send;
}

/// What an [`Asker`] is made of.
pub struct Parts<A> {
    /// The way to them.
    pub ask: A,
    /// All of them, without this replica.
    pub peers: Vec<Peer>,
    /// How often, and how long.
    pub times: Times,
    /// Who is told.
    pub beliefs: Arc<Beliefs>,
    /// When a question is sent.
    pub clock: Arc<dyn Clock>,
    /// Counts of outcomes.
    pub counters: Arc<PeerCounters>,
    /// Spreads the questions.
    pub rng: StdRng,
}

/// Asks all peers until it is stopped.
pub struct Asker<A> {
    parts: Parts<A>,
}

impl<A: Ask> Asker<A> {
    /// Asks nobody yet.
    #[must_use]
    pub const fn new(parts: Parts<A>) -> Self {
        Self { parts }
    }

    /// Asks until `stop`; without peers it only waits.
    pub async fn run(mut self, stop: CancellationToken) {
        let peers = std::mem::take(&mut self.parts.peers);
        let seeds: Vec<u64> = peers.iter().map(|_| self.parts.rng.random()).collect();
        let loops = peers.iter().zip(seeds);
        let loops = loops.map(|(peer, seed)| self.ask_for_ever(peer, seed));
        let asking = join_all(loops.collect());
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = asking => stop.cancelled().await,
        }
    }

    async fn ask_for_ever(&self, peer: &Peer, seed: u64) {
        let parts = &self.parts;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut shown = None;
        loop {
            let begun = Instant::now();
            self.ask_once(peer, &mut shown).await;
            let every = parts.times.question().mul_f64(rng.random_range(JITTER));
            sleep_until(begun + every).await;
        }
    }

    async fn ask_once(&self, peer: &Peer, shown: &mut Option<Discriminant<Heard>>) {
        let Parts { beliefs, clock, .. } = &self.parts;
        let limit = self.parts.times.answer_time_max();
        let known = self.known_edition(&peer.slot);
        let asked = clock.moment();
        let heard = timeout(limit, self.parts.ask.ask(peer, known)).await;
        let heard = match heard {
            // The timer stands still while the machine is suspended; the clock does not.
            Ok(heard) if clock.moment().since(asked) <= limit => heard,
            Ok(_) | Err(_) => Heard::Silent(format!(
                "{} gave no whole answer within {limit:?}",
                peer.url
            )),
        };
        self.parts.counters.count(&peer.slot, &heard);
        show(peer, &heard, shown);
        beliefs.heard(&peer.slot, asked, heard).await;
    }

    /// What is published is enough: only this loop's own outcomes change it.
    fn known_edition(&self, slot: &Name) -> Option<u64> {
        let published = self.parts.beliefs.store().load();
        let mut peers = published.standing.peers().iter();
        peers.find(|peer| peer.slot == *slot)?.edition
    }
}

/// Logs an outcome of another kind than the one before.
fn show(peer: &Peer, heard: &Heard, shown: &mut Option<Discriminant<Heard>>) {
    let kind = discriminant(heard);
    if shown.replace(kind) == Some(kind) {
        return;
    }
    let (slot, url) = (&peer.slot, &peer.url);
    match heard {
        Heard::Word(word) => {
            let authority = word.authority.as_str();
            info!(peer = %slot, authority, version = ?word.identity.version, "the peer answers");
        }
        Heard::Refused => warn!(
            peer = %slot,
            "{url} refuses the connection: no replica runs there, and it is counted as dead"
        ),
        Heard::Silent(text) => warn!(peer = %slot, "no word of the peer: {}", text.escape_debug()),
        Heard::Stranger(text) => warn!(
            peer = %slot,
            "who answers at {url} is not counted as this peer: {}",
            text.escape_debug()
        ),
    }
}

/// Runs all of them at once within one task, polled in their order: a simulation repeats it.
async fn join_all<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}
