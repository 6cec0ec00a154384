//! One replica: the production watcher, peers and judgement over the simulated network.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tidegate::beliefs::{Beliefs, Keep};
use tidegate::clock::Clock;
use tidegate::domain::authority::{Authority, Heard, Moment};
use tidegate::domain::key::Prefix;
use tidegate::domain::listing::{Entry, Listing};
use tidegate::domain::memory::Memory;
use tidegate::domain::name::Name;
use tidegate::domain::sentinel::Generation;
use tidegate::domain::word::Identity;
use tidegate::kv::{Capabilities, ClockReading, Kv, KvError, Operation, Outcome, Outline};
use tidegate::metrics::PeerCounters;
use tidegate::peers::{self, Ask, Asker, Peer};
use tidegate::progress::Progress;
use tidegate::store::Store;
use tidegate::watch::{Parts, WAIT, Watcher};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::consul::{NARROWED, Rights, Version};
use super::world::{READ_TIME_MAX, World};

/// A running process.
pub(super) struct Running {
    task: JoinHandle<()>,
}

impl Running {
    /// Whether it ended by itself, as it never should.
    pub(super) fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A replica's clocks: one timeline for all, a wall clock with an error of its own.
#[derive(Clone)]
pub(super) struct SimClock {
    world: Arc<World>,
    number: usize,
    latest: Arc<AtomicI64>,
}

impl std::fmt::Debug for SimClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimClock({})", self.number)
    }
}

impl Clock for SimClock {
    fn moment(&self) -> Moment {
        moment_of(&self.world, self.number)
    }

    fn now(&self) -> Timestamp {
        let error = self.world.state().replicas[self.number].clock_error;
        let millis = i64::try_from(self.world.elapsed().as_millis()).expect("a short history");
        let read = 1_800_000_000_000 + millis + error;
        let latest = self.latest.fetch_max(read, Ordering::Relaxed).max(read);
        Timestamp::from_millisecond(latest).expect("a time of this century")
    }
}

/// A replica's monotonic clock: each machine was started at another time.
pub(super) fn moment_of(world: &World, number: usize) -> Moment {
    let up = Duration::from_secs(1_000 * (1 + number as u64));
    Moment(up + world.elapsed())
}

pub(super) fn slot(number: usize) -> Name {
    Name::parse(&format!("r{number}")).expect("a name")
}

/// Starts a replica, with what its disk holds.
#[expect(
    clippy::too_many_lines,
    reason = "one process from its parts, as src/serve.rs makes it"
)]
pub(super) fn start(world: &Arc<World>, number: usize) -> Running {
    let (disk, seed, boot) = {
        let mut state = world.state();
        let replica = &mut state.replicas[number];
        replica.up = true;
        replica.dark = false;
        replica.stopping = false;
        replica.suspended = false;
        replica.born = Instant::now();
        replica.stops_at = None;
        replica.saw_it = None;
        replica.saw = 0;
        replica.boot += 1;
        (
            replica.disk.clone(),
            state.rng.random(),
            state.replicas[number].boot,
        )
    };
    let clock = SimClock {
        world: Arc::clone(world),
        number,
        latest: Arc::new(AtomicI64::new(i64::MIN)),
    };
    let others = (0..world.count).filter(|other| *other != number);
    let mut authority = Authority::new(World::times(), others.clone().map(slot));
    if let Some(memory) = disk {
        authority = authority.remembering(memory);
    }
    if let Some(clause) = world.without {
        authority = authority.without(clause);
    }
    let store = Arc::new(Store::new(authority.standing()));
    world.state().replicas[number].store = Some(Arc::clone(&store));
    let keep = SimDisk {
        world: Arc::clone(world),
        number,
    };
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let nonce = seed ^ boot;
    let beliefs = Beliefs::new(
        authority,
        Some(Box::new(keep)),
        store,
        Arc::clone(&shared),
        nonce,
    );
    let beliefs = Arc::new(beliefs);
    let watcher = Watcher::new(Parts {
        kv: Arc::new(SimKv {
            world: Arc::clone(world),
            number,
            clock: clock.clone(),
        }),
        prefix: prefix(),
        times: World::times(),
        beliefs: Arc::clone(&beliefs),
        clock: Arc::clone(&shared),
        counters: Arc::default(),
        rng: StdRng::seed_from_u64(seed),
    });
    let peer = |other| Peer {
        slot: slot(other),
        url: format!("http://r{other}"),
    };
    let asker = Asker::new(peers::Parts {
        ask: SimAsk {
            world: Arc::clone(world),
            number,
        },
        peers: others.clone().map(peer).collect(),
        times: World::times(),
        beliefs,
        clock: shared,
        counters: Arc::new(PeerCounters::new(others.map(slot))),
        rng: StdRng::seed_from_u64(seed ^ 1),
    });
    let running = async move {
        let watching = watcher.run(CancellationToken::new(), Progress::new(0).of_the_watcher());
        let asking = asker.run(CancellationToken::new());
        tokio::join!(watching, asking);
    };
    let suspendable = Suspendable {
        world: Arc::clone(world),
        number,
        inner: Box::pin(running),
        rest: None,
    };
    Running {
        task: tokio::spawn(suspendable),
    }
}

fn prefix() -> Prefix {
    Prefix::new("frontend", "gprd").expect("a prefix")
}

fn identity(number: usize) -> Identity {
    Identity {
        prefix: prefix(),
        schema: 1,
        slot: slot(number),
        digest: 0,
        version: "sim".to_owned(),
    }
}

/// Does nothing while its process is suspended, whatever happens meanwhile.
struct Suspendable<F> {
    world: Arc<World>,
    number: usize,
    inner: Pin<Box<F>>,
    rest: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<F: Future<Output = ()>> Future for Suspendable<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        while self.world.state().replicas[self.number].suspended {
            let rest = self
                .rest
                .get_or_insert_with(|| Box::pin(sleep(Duration::from_millis(20))));
            if rest.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.rest = None;
        }
        self.inner.as_mut().poll(context)
    }
}

/// A disk that holds what was kept last.
struct SimDisk {
    world: Arc<World>,
    number: usize,
}

#[async_trait]
impl Keep for SimDisk {
    async fn keep(&mut self, memory: Arc<Memory>) {
        sleep(Duration::from_millis(2)).await;
        self.world.state().replicas[self.number].disk = Some((*memory).clone());
    }

    async fn retry(&mut self, _: &Arc<Memory>) {}
}

/// The way of one process to its peers.
struct SimAsk {
    world: Arc<World>,
    number: usize,
}

impl Ask for SimAsk {
    async fn ask(&self, peer: &Peer, known: Option<u64>) -> Heard {
        let mut numbers = 0..self.world.count;
        let to = numbers.find(|number| slot(*number) == peer.slot);
        ask(&self.world, self.number, to.expect("a replica"), known).await
    }
}

/// A question over the network.
async fn ask(world: &Arc<World>, from: usize, to: usize, known: Option<u64>) -> Heard {
    if world.state().cut.contains(&(from, to)) {
        pending::<()>().await;
    }
    sleep(world.delay()).await;
    let dead = {
        let state = world.state();
        let replica = &state.replicas[to];
        if replica.up { None } else { Some(replica.dark) }
    };
    let heard = match dead {
        Some(true) => pending().await,
        Some(false) => Heard::Refused,
        None => {
            // A suspended process answers when it goes on.
            while world.state().replicas[to].suspended {
                sleep(Duration::from_millis(20)).await;
            }
            let (store, stopping) = {
                let state = world.state();
                (
                    state.replicas[to].store.clone(),
                    state.replicas[to].stopping,
                )
            };
            let clock = SimClock {
                world: Arc::clone(world),
                number: to,
                latest: Arc::new(AtomicI64::new(i64::MIN)),
            };
            // It was killed meanwhile: the connection is reset.
            let Some(store) = store else {
                return Heard::Silent("connection reset".to_owned());
            };
            let now = (clock.moment(), clock.now());
            Heard::Word(Box::new(store.load().word(
                &identity(to),
                known,
                stopping,
                now,
            )))
        }
    };
    sleep(world.delay()).await;
    if world.state().cut.contains(&(to, from)) {
        pending::<()>().await;
    }
    heard
}

/// A replica's way to Consul.
struct SimKv {
    world: Arc<World>,
    number: usize,
    clock: SimClock,
}

impl SimKv {
    /// The way there, what is read there, and the way back, within a limit.
    async fn read<T>(
        &self,
        limit: Duration,
        read: impl AsyncFnOnce() -> Result<T, KvError>,
    ) -> Result<T, KvError> {
        let exchange = async {
            if self.is_cut(false) {
                pending::<()>().await;
            }
            sleep(self.world.delay()).await;
            let answer = if self.world.state().consul.up {
                read().await
            } else {
                Err(KvError::Unreachable("no leader".to_owned()))
            };
            if self.world.state().consul.hangs || self.is_cut(true) {
                pending::<()>().await;
            }
            sleep(self.world.delay()).await;
            answer
        };
        let late = || Err(KvError::Unreachable("no answer in time".to_owned()));
        timeout(limit, exchange).await.unwrap_or_else(|_| late())
    }

    fn is_cut(&self, back: bool) -> bool {
        let state = self.world.state();
        state.cut_from_consul.contains(&(self.number, back))
    }

    fn rights(&self) -> Rights {
        self.world.state().replicas[self.number].rights
    }

    fn known(&self) -> Option<Arc<Memory>> {
        let state = self.world.state();
        let store = state.replicas[self.number].store.as_ref()?;
        let published = store.load();
        Some(Arc::clone(&published.memory.as_ref()?.1))
    }

    /// Notes when this replica had the proof in its hands that the history went back.
    fn see(&self, sent: Instant, known: Option<Arc<Memory>>, read: &Result<Listing, KvError>) {
        let (Ok(listing), Some(known)) = (read, known) else {
            return;
        };
        let mut state = self.world.state();
        let old = if let Ok(generation) = Generation::read(listing) {
            known.evidence.against(listing, generation).is_some()
        } else {
            // Of an epoch that it has not seen, it knows nothing.
            let now = state.consul.now();
            let epoch = now.generation.map_or(0, |generation| generation.epoch);
            now.table_index < known.evidence.table_index && epoch <= known.evidence.highest.epoch
        };
        let since = state.went_back.map(|(at, _)| at);
        let replica = &mut state.replicas[self.number];
        if !old || since.is_none_or(|at| sent < at) {
            replica.saw = 0;
            return;
        }
        // One may have been late, and one may be overtaken by news from a peer.
        replica.saw += 1;
        if replica.saw >= 3 {
            replica.saw_it.get_or_insert(Instant::now());
        }
    }

    fn look<T>(&self, see: impl FnOnce(&Version) -> T) -> Result<T, KvError> {
        let state = self.world.state();
        if !state.consul.up {
            return Err(KvError::Unreachable("no leader".to_owned()));
        }
        Ok(see(state.consul.now()))
    }

    fn view(&self, rights: Rights) -> Result<Listing, KvError> {
        if rights == Rights::None && self.world.state().list_policy {
            return Err(KvError::Denied("no rights".to_owned()));
        }
        self.look(|version| version.view(rights))
    }
}

impl Kv for SimKv {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writable: false,
            key_beside_children: true,
            odd_keys: true,
            access_rights: true,
            atomic_for_all: true,
        }
    }

    fn clock(&self) -> Option<ClockReading> {
        // Consul's clock is right, and shows whole seconds.
        let millis = i64::try_from(self.world.elapsed().as_millis()).expect("a short history");
        let date = Timestamp::from_second(1_800_000_000 + millis / 1_000).expect("a time");
        let now = self.clock.now();
        Some(ClockReading {
            date,
            sent: now,
            received: now,
        })
    }

    async fn list(&self, _: &Prefix) -> Result<Listing, KvError> {
        let (sent, known) = (Instant::now(), self.known());
        let read = self
            .read(READ_TIME_MAX, async || self.view(self.rights()))
            .await;
        self.see(sent, known, &read);
        read
    }

    async fn watch(&self, _: &Prefix, after: u64, wait: Duration) -> Result<Listing, KvError> {
        let limit = wait + wait / 16 + Duration::from_millis(1_500);
        let spread = self.world.state().rng.random_range(1.0..1.06);
        assert_eq!(wait, WAIT);
        self.read(limit, async || {
            // A blocked read keeps the rights that it began with.
            let rights = self.rights();
            let woken = self.world.wakes.notified();
            let due = self.look(|version| version.index > after)?;
            if !due {
                // Not every change wakes, and an outage does.
                let _ = timeout(wait.mul_f64(spread), woken).await;
            }
            self.view(rights)
        })
        .await
    }

    async fn confirm(&self, _: &Prefix) -> Result<Outline, KvError> {
        self.read(READ_TIME_MAX, async || {
            Ok(self.view(self.rights())?.outline())
        })
        .await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        let path = key
            .strip_prefix("frontend/gprd/")
            .expect("below the prefix");
        self.read(READ_TIME_MAX, async || {
            let allowed = match self.rights() {
                Rights::Full => true,
                Rights::Subset => !NARROWED.contains(&path),
                Rights::None => false,
            };
            if !allowed {
                return Err(KvError::Denied(format!("{path} may not be read")));
            }
            self.look(|version| version.entries.get(path).cloned())
        })
        .await
    }

    async fn table_index(&self, _: &Prefix) -> Result<u64, KvError> {
        self.read(READ_TIME_MAX, async || {
            self.look(|version| version.table_index)
        })
        .await
    }

    async fn transact(&self, _: &[Operation]) -> Result<Outcome, KvError> {
        Err(KvError::ReadOnly("the service writes nothing".to_owned()))
    }
}
