//! What this replica believes: fed by the watcher and the peers, kept on disk, compiled, published.
//!
//! Each event is applied, kept and published before the next one, so that nobody is answered from
//! what a restart would not know.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Mutex, mpsc};
use tracing::{Span, info, warn};

pub use self::keeper::Keeper;
use crate::clock::{self, Clock};
use crate::domain::authority::{Authority, AuthorityName, Heard, Moment, Offset};
use crate::domain::fleet::{Version, in_millis};
use crate::domain::key::META;
use crate::domain::listing::Listing;
use crate::domain::memory::Memory;
use crate::domain::name::Name;
use crate::domain::sentinel;
use crate::domain::snapshot::{Difference, Placed, Snapshot};
use crate::domain::trace_parent::TraceParent;
use crate::store::{InForce, Published, Store};
use crate::telemetry;

mod keeper;

/// The most changes of one listing that are logged one by one.
const DIFFERENCES_TOLD_MAX: usize = 20;

/// How long a reason that holds texts of errors stands in the log before another one is told. Eight
/// peers that fail now so and now so would write ten lines a second, for as long as it lasts.
const REASON_EVERY: Duration = Duration::from_secs(10);

/// Keeps what is known over a restart.
#[async_trait]
pub trait Keep: Send {
    /// Keeps this. It returns within a bounded time, whatever the disk does.
    async fn keep(&mut self, memory: Arc<Memory>);

    /// Tries again what could not be kept, now and then; called at each event that brings nothing
    /// new. It waits for no disk.
    async fn retry(&mut self, memory: &Arc<Memory>);
}

/// The authority, and what follows from each of its events.
pub struct Beliefs {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    /// Makes editions of this process unlike those of the one before.
    nonce: u64,
    inner: Mutex<Inner>,
}

struct Inner {
    authority: Authority,
    keep: Option<Box<dyn Keep>>,
    compiled: Option<Compiled>,
    /// The snapshot that was agreed on, while another one is believed already.
    agreed: Option<Arc<Snapshot>>,
    memory: Option<(u64, Arc<Memory>)>,
    shown: Option<Shown>,
    /// What is compiled, and not in force yet.
    update: Option<Update>,
    /// Who follows what is in force.
    follower: Option<mpsc::Sender<InForce>>,
}

/// The spans of a listing, which end when it is in force, and what asked for it.
struct Update {
    version: Version,
    span: Span,
    transitions: Vec<Span>,
    /// Who asked for all of it, as far as the sentinel knows.
    by_sentinel: Option<TraceParent>,
    asked: BTreeSet<TraceParent>,
}

/// The authority as the log tells it.
struct Shown {
    name: AuthorityName,
    /// Why nothing is answered. While answering, the reason holds an age that always changes.
    silent: Option<String>,
    at: Moment,
}

struct Compiled {
    listing: Arc<Listing>,
    snapshot: Arc<Snapshot>,
}

impl Beliefs {
    /// Publishes into `store`; `nonce` is another one at each start.
    pub fn new(
        authority: Authority,
        keep: Option<Box<dyn Keep>>,
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        nonce: u64,
    ) -> Self {
        let mut inner = Inner {
            authority,
            keep,
            compiled: None,
            agreed: None,
            memory: None,
            shown: None,
            update: None,
            follower: None,
        };
        inner.compile(&*clock);
        inner.remember(&*clock, nonce);
        inner.publish(&store, clock.moment());
        Self {
            store,
            clock,
            nonce,
            inner: Mutex::new(inner),
        }
    }

    /// Tells `follower` of each listing that comes into force, as long as it has room for it.
    #[must_use]
    pub fn followed_by(mut self, follower: mpsc::Sender<InForce>) -> Self {
        self.inner.get_mut().follower = Some(follower);
        self
    }

    /// Applies one event at this moment.
    pub async fn update<R>(&self, event: impl FnOnce(&mut Authority, Moment) -> R) -> R {
        let mut inner = self.inner.lock().await;
        let before = inner.authority.edition();
        let result = event(&mut inner.authority, self.clock.moment());
        if inner.authority.edition() != before {
            inner.compile(&*self.clock);
            if let Some(memory) = inner.remember(&*self.clock, self.nonce)
                && let Some(keep) = &mut inner.keep
            {
                // On disk before the next answer.
                keep.keep(memory).await;
            }
        } else if let Inner {
            keep: Some(keep),
            memory: Some((_, memory)),
            ..
        } = &mut *inner
        {
            keep.retry(memory).await;
        }
        inner.publish(&self.store, self.clock.moment());
        result
    }

    /// What came of a question to a peer that was asked at this moment.
    pub async fn heard(&self, slot: &Name, asked: Moment, heard: Heard) {
        let now = self.clock.now();
        let event = self.update(|authority, received| {
            if let Heard::Word(word) = &heard {
                let way = SignedDuration::try_from(received.since(asked)).unwrap_or_default();
                let sent = now.saturating_sub(way).unwrap_or(now);
                let offset = Offset::measure(word.now, Duration::ZERO, sent, now);
                authority.clock_of_peer(slot, received, offset);
            }
            authority.heard(slot, asked, received, heard);
        });
        event.await;
    }

    /// What is published.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

impl Inner {
    /// Compiles the listing that is believed, and says what changed.
    fn compile(&mut self, clock: &dyn Clock) {
        let Some(listing) = self.authority.listing() else {
            return;
        };
        let before = self.compiled.as_ref();
        let same = |before: &Compiled| {
            Arc::ptr_eq(&before.listing, listing) || before.listing.same_contents(listing)
        };
        if before.is_some_and(same) {
            return;
        }
        let built = before.map_or_else(
            || Snapshot::build(listing),
            |before| Snapshot::build_after(listing, (&before.listing, &before.snapshot)),
        );
        let snapshot = match built {
            Ok(snapshot) => Arc::new(snapshot),
            // The authority believes no listing without a sentinel.
            Err(error) => {
                warn!(%error, "a listing that is believed does not compile");
                return;
            }
        };
        let earlier = before.map(|before| Arc::clone(&before.snapshot));
        self.update = tell(&snapshot, listing, earlier.as_deref());
        let standing = self.authority.standing();
        self.agreed = match standing.deferred_until() {
            Some(until) if clock.moment() < until => self.agreed.take().or(earlier),
            Some(_) | None => None,
        };
        let listing = Arc::clone(listing);
        self.compiled = Some(Compiled { listing, snapshot });
    }

    /// What is to be kept and told now.
    fn remember(&mut self, clock: &dyn Clock, nonce: u64) -> Option<Arc<Memory>> {
        let memory = self.authority.memory(clock.now()).map(Arc::new);
        let edition = nonce.wrapping_add(self.authority.edition());
        self.memory = memory.clone().map(|memory| (edition, memory));
        memory
    }

    fn publish(&mut self, store: &Store, now: Moment) {
        let standing = self.authority.standing();
        let verdict = standing.verdict(now);
        let (authority, reason) = (verdict.name.as_str(), verdict.reason.as_str());
        let shown = Shown {
            name: verdict.name,
            silent: (!verdict.name.answers()).then(|| reason.to_owned()),
            at: now,
        };
        if self
            .shown
            .as_ref()
            .is_none_or(|told| told.is_outdated_by(&shown))
        {
            let _entered = self.authority_changed(&shown, reason).entered();
            match verdict.name {
                AuthorityName::Current | AuthorityName::Relayed | AuthorityName::Agreed => {
                    info!(authority, "{reason}");
                }
                AuthorityName::Starting => info!(authority, "nothing is answered yet: {reason}"),
                AuthorityName::Held | AuthorityName::CutOff => {
                    warn!(authority, "nothing is answered: {reason}");
                }
            }
            self.shown = Some(shown);
        }
        let snapshot = self.compiled.as_ref();
        if standing.deferred_until().is_none_or(|until| until <= now) {
            self.agreed = None;
        }
        // Before anybody is told of it, and no finer than it is known when somebody was.
        let since = in_millis(clock::now());
        store.publish(Published {
            snapshot: snapshot.map(|compiled| Arc::clone(&compiled.snapshot)),
            agreed: self.agreed.clone(),
            standing,
            memory: self.memory.clone(),
        });
        if let Some(update) = self.update.take() {
            self.in_force(update, since);
        }
    }

    /// Nothing is said of the first one: it is no change of a running replica.
    fn authority_changed(&self, new: &Shown, reason: &str) -> Span {
        match &self.shown {
            Some(old) if old.name != new.name => {
                telemetry::authority_change(old.name.as_str(), new.name.as_str(), reason)
            }
            Some(_) | None => Span::none(),
        }
    }

    /// Its spans end, and it is followed from here on.
    fn in_force(&self, update: Update, since: Timestamp) {
        let own = telemetry::parent(&update.span);
        drop((update.transitions, update.span));
        if let Some(follower) = &self.follower {
            // Where no room is left, nobody looks any more, or there was more than one can read.
            let _ = follower.try_send(InForce {
                version: update.version,
                at: since,
                asked: update.asked.into_iter().chain(own).collect(),
            });
        }
    }
}

impl Shown {
    fn is_outdated_by(&self, new: &Self) -> bool {
        let other_reason = self.silent != new.silent;
        // What is found in the source is for a person to mend, and does not change by itself.
        let every = match new.name {
            AuthorityName::Held => Duration::ZERO,
            AuthorityName::Starting
            | AuthorityName::Current
            | AuthorityName::Relayed
            | AuthorityName::Agreed
            | AuthorityName::CutOff => REASON_EVERY,
        };
        self.name != new.name || (other_reason && new.at.since(self.at) >= every)
    }
}

/// Who changed what, and which new problems there are: what an operator looks for first.
fn tell(snapshot: &Snapshot, listing: &Listing, earlier: Option<&Snapshot>) -> Option<Update> {
    let mut update = earlier.and_then(|earlier| Update::of(snapshot, listing, earlier));
    let span = update.as_ref().map_or_else(Span::none, |u| u.span.clone());
    let _entered = span.enter();
    info!(
        index = snapshot.index,
        generation = %snapshot.generation,
        keys = listing.entries.len(),
        problems = snapshot.problems.len(),
        "a new listing was read"
    );
    if let Some(earlier) = earlier {
        tell_differences(&snapshot.differences(earlier), update.as_mut());
    }
    let earlier = earlier.map_or(&[][..], |earlier| &earlier.problems);
    let known: HashSet<_> = earlier.iter().collect();
    for problem in snapshot.problems.iter().filter(|p| !known.contains(p)) {
        let kind = problem.kind.as_str();
        // A key may be called anything: its name must not forge lines of the log.
        warn!(kind, path = %problem.path.escape_debug(), "{}", problem.text);
    }
    update
}

fn tell_differences(differences: &[Difference<'_>], mut update: Option<&mut Update>) {
    for difference in differences.iter().take(DIFFERENCES_TOLD_MAX) {
        let text = |placed: Option<&Placed>| placed.map_or_else(|| "none".to_owned(), Placed::text);
        let (before, after) = (text(difference.before), text(difference.after));
        let span = update.as_mut().map_or_else(Span::none, |update| {
            update.transition(difference, (&before, &after))
        });
        span.in_scope(|| info!(path = %difference.path(), before, after, "changed"));
    }
    let more = differences.len().saturating_sub(DIFFERENCES_TOLD_MAX);
    if more > 0 {
        info!(more, "further changes");
        if let Some(update) = update {
            telemetry::note(&update.span, "more", &more);
        }
    }
}

impl Update {
    /// `None` without traces.
    fn of(snapshot: &Snapshot, listing: &Listing, earlier: &Snapshot) -> Option<Self> {
        if !telemetry::enabled() {
            return None;
        }
        // Of one transaction after the earlier listing the sentinel says who asked for it. It knows
        // also of keys that are taken away, and of directives that an undo put back.
        let sentinel = listing.entries.get(META);
        let sentinel = sentinel.filter(|_| snapshot.generation == earlier.generation.next());
        let generation = snapshot.generation.to_string();
        Some(Self {
            version: Version::of(snapshot),
            span: telemetry::kv_update(snapshot.index, &generation),
            transitions: Vec::new(),
            by_sentinel: sentinel.and_then(|entry| sentinel::trace_of(&entry.value)),
            asked: BTreeSet::new(),
        })
    }

    fn transition(&mut self, difference: &Difference<'_>, texts: (&str, &str)) -> Span {
        let directive = difference
            .after
            .and_then(|after| after.directive.as_ref().ok());
        let trace = directive.and_then(|directive| directive.author.trace.as_deref());
        let asked = self.by_sentinel.or_else(|| TraceParent::parse(trace?));
        self.asked.extend(asked);
        let span = telemetry::transition(&self.span, difference.path(), texts, asked.as_ref());
        self.transitions.push(span.clone());
        span
    }
}
