use std::sync::Mutex;

use rand::SeedableRng as _;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::clock::{self, SystemClock};
use crate::domain::authority::{Authority, AuthorityName};
use crate::domain::sentinel::Generation;
use crate::kv::memory::MemoryKv;
use crate::kv::{Capabilities, Operation, Outcome};
use crate::progress::Progress;
use crate::store::Store;

/// Long beside every pause of the watcher, for conditions that hold in the end.
const PATIENCE: Duration = Duration::from_secs(10);
const META: &str = "frontend/gprd/_meta";
const CANARY: &str = "frontend/gprd/canary-state";

/// What was asked of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    List,
    Watch(u64),
    Confirm,
    Other,
}

/// A store that keeps a record of its readers, and can be slow or wake them for nothing.
#[derive(Default)]
struct Recorded {
    inner: MemoryKv,
    calls: Mutex<Vec<(Call, Instant)>>,
    /// How long a whole reading, a light read and a question by name take.
    slow: [Duration; 3],
    /// What a question by name is answered instead.
    unnamed: Option<KvError>,
    /// How often from now on a watch returns at once, with what is there.
    wakes: Mutex<u32>,
}

impl Recorded {
    fn set_up() -> Self {
        let store = Self::default();
        let generation = Generation { epoch: 1, r#gen: 1 };
        let meta = generation.to_json(clock::now(), "test", None);
        store.inner.put(META, meta);
        store.inner.put(CANARY, "drain");
        store
    }

    fn note(&self, call: Call) {
        self.calls.lock().unwrap().push((call, Instant::now()));
    }

    /// The whole readings so far.
    fn whole(&self) -> Vec<Call> {
        let calls = self.calls.lock().unwrap();
        let calls = calls.iter().map(|(call, _)| call.clone());
        calls
            .filter(|call| matches!(call, Call::List | Call::Watch(_)))
            .collect()
    }
}

impl Kv for Recorded {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn list(&self, prefix: &Prefix) -> Result<Listing, KvError> {
        self.note(Call::List);
        sleep(self.slow[0]).await;
        self.inner.list(prefix).await
    }

    async fn watch(&self, prefix: &Prefix, after: u64, wait: Duration) -> Result<Listing, KvError> {
        self.note(Call::Watch(after));
        let woken = {
            let mut wakes = self.wakes.lock().unwrap();
            let woken = *wakes > 0;
            *wakes = wakes.saturating_sub(1);
            woken
        };
        if woken {
            return self.inner.list(prefix).await;
        }
        self.inner.watch(prefix, after, wait).await
    }

    async fn confirm(&self, prefix: &Prefix) -> Result<Outline, KvError> {
        self.note(Call::Confirm);
        sleep(self.slow[1]).await;
        self.inner.confirm(prefix).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        self.note(Call::Other);
        sleep(self.slow[2]).await;
        if let Some(error) = &self.unnamed {
            return Err(error.clone());
        }
        self.inner.get(key).await
    }

    async fn table_index(&self, prefix: &Prefix) -> Result<u64, KvError> {
        self.inner.table_index(prefix).await
    }

    async fn transact(&self, operations: &[Operation]) -> Result<Outcome, KvError> {
        self.inner.transact(operations).await
    }
}

/// A watcher that runs until it is dropped.
struct Running {
    kv: Arc<Recorded>,
    store: Arc<Store>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(kv: Recorded, poll_interval: Duration) -> Self {
        let kv = Arc::new(kv);
        let (watcher, store) = watcher(&kv, poll_interval);
        let task =
            tokio::spawn(watcher.run(CancellationToken::new(), Progress::new(0).of_the_watcher()));
        Self { kv, store, task }
    }

    fn authority(&self) -> AuthorityName {
        self.store.load().standing.name(clock::moment())
    }

    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !condition(self) {
            assert!(begin.elapsed() < PATIENCE, "never: {what}");
            sleep(Duration::from_millis(2)).await;
        }
    }

    async fn until_is(&self, name: AuthorityName) {
        self.until(name.as_str(), |it| it.authority() == name).await;
    }

    async fn until_blocked(&self) {
        self.until("blocked", |it| {
            matches!(it.kv.whole().last(), Some(Call::Watch(_)))
        })
        .await;
    }

    fn index(&self) -> Option<u64> {
        Some(self.store.load().snapshot.as_ref()?.index)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn watcher(kv: &Arc<Recorded>, poll_interval: Duration) -> (Watcher<Recorded>, Arc<Store>) {
    let times = Times::from_poll_interval(poll_interval);
    let authority = Authority::new(times, []);
    let store = Arc::new(Store::new(authority.standing()));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let beliefs = Beliefs::new(authority, None, Arc::clone(&store), Arc::clone(&clock), 0);
    let watcher = Watcher::new(Parts {
        kv: Arc::clone(kv),
        prefix: prefix(),
        times,
        beliefs: Arc::new(beliefs),
        clock,
        counters: Arc::default(),
        rng: StdRng::seed_from_u64(0),
    });
    (watcher, store)
}

fn prefix() -> Prefix {
    Prefix::new("frontend", "gprd").unwrap()
}

#[test]
fn the_gap_grows_with_errors_and_stays_within_the_lease_while_refused() {
    let times = Times::from_poll_interval(Duration::from_secs(2));
    for (errors, refused, jitter, ms) in [
        (0, 0, 0.5, 100),
        (0, 1, 0.5, 100),
        // A second refusal and all later ones: a quarter of a poll.
        (0, 2, 0.5, 500),
        (0, 9, 1.0, 500),
        (1, 0, 1.0, 100),
        (2, 0, 1.0, 200),
        (3, 0, 1.0, 400),
        (5, 0, 1.0, 1_600),
        (6, 0, 1.0, 2_000),
        (u32::MAX, u32::MAX, 1.0, 2_000),
        // Jitter halves it at most, and never goes below the least gap.
        (1, 0, 0.5, 100),
        (3, 0, 0.5, 200),
        (6, 0, 0.5, 1_000),
    ] {
        let gap = gap(times, errors, refused, jitter);
        let expected = Duration::from_millis(ms);
        assert_eq!(gap, expected, "{errors} errors, {refused} refusals");
    }
    let shortest = Times::from_poll_interval(Duration::from_millis(200));
    assert_eq!(gap(shortest, 0, 2, 1.0), READ_GAP_MIN);
}

#[tokio::test]
async fn after_an_error_the_next_reading_carries_no_index() {
    let running = Running::start(Recorded::set_up(), Duration::from_secs(2));
    running.until_blocked().await;
    assert_eq!(running.kv.whole(), [Call::List, Call::Watch(3)]);
    let gone = KvError::Unreachable("no leader".to_owned());
    running.kv.inner.fail_with(Some(gone));
    running
        .until("asked again", |it| it.kv.whole().len() > 3)
        .await;
    running.kv.inner.fail_with(None);
    running.until_blocked().await;
    let whole = running.kv.whole();
    let (last, retries) = whole[2..].split_last().unwrap();
    assert!(retries.iter().all(|c| *c == Call::List), "{whole:?}");
    assert_eq!(*last, Call::Watch(3));
}

#[tokio::test]
async fn a_reading_ends_the_growth_of_the_gap() {
    let mut watcher = watcher(&Arc::new(Recorded::set_up()), Duration::from_secs(2)).0;
    watcher.errors_in_a_row = 6;
    watcher.turn().await;
    assert_eq!(watcher.errors_in_a_row, 0);
    // So does one that is not believed.
    watcher.errors_in_a_row = 6;
    watcher.parts.kv.inner.remove(META);
    watcher.turn().await;
    assert_eq!(watcher.errors_in_a_row, 0);
    assert_eq!(watcher.refused_in_a_row, 1);
}

#[tokio::test]
async fn a_wake_with_the_index_that_was_asked_for_is_read_again_without_it() {
    let running = Running::start(Recorded::set_up(), Duration::from_secs(2));
    running.until_blocked().await;
    *running.kv.wakes.lock().unwrap() = 1;
    // Ends the reading under way, so that the next one is woken for nothing.
    running.kv.inner.put(CANARY, "ready");
    running
        .until("read again", |it| it.kv.whole().len() > 4)
        .await;
    let expected = [
        Call::List,
        Call::Watch(3),
        Call::Watch(4),
        Call::List,
        Call::Watch(4),
    ];
    assert_eq!(running.kv.whole(), expected);
}

#[tokio::test]
async fn whole_readings_keep_their_distance_however_often_they_are_woken() {
    let store = Recorded::set_up();
    *store.wakes.lock().unwrap() = u32::MAX;
    let running = Running::start(store, Duration::from_secs(2));
    running
        .until("six readings", |it| it.kv.whole().len() >= 6)
        .await;
    let calls = running.kv.calls.lock().unwrap();
    let whole: Vec<_> = calls
        .iter()
        .filter(|(call, _)| matches!(call, Call::List | Call::Watch(_)))
        .map(|(_, at)| *at)
        .collect();
    for pair in whole.windows(2) {
        assert!(pair[1] - pair[0] >= READ_GAP_MIN, "{calls:?}");
    }
}

#[tokio::test]
async fn a_light_read_that_differs_starts_a_whole_reading() {
    let running = Running::start(Recorded::set_up(), Duration::from_millis(400));
    running.until_blocked().await;
    let entry = Entry {
        value: "ready".into(),
        modify_index: 9,
    };
    // Nobody is woken.
    running.kv.inner.set_raw(CANARY, entry);
    running
        .until("the new listing", |it| it.index() == Some(9))
        .await;
    running.until_blocked().await;
    let expected = [Call::List, Call::Watch(3), Call::List, Call::Watch(9)];
    assert_eq!(running.kv.whole(), expected);
}

#[tokio::test]
async fn a_slow_first_reading_is_not_begun_anew_by_light_reads() {
    let store = Recorded {
        slow: [Duration::from_millis(400), Duration::ZERO, Duration::ZERO],
        ..Recorded::set_up()
    };
    let running = Running::start(store, Duration::from_millis(400));
    running.until_is(AuthorityName::Current).await;
    assert_eq!(running.kv.whole()[0], Call::List);
    running.until_blocked().await;
    assert_eq!(running.kv.whole().len(), 2, "{:?}", running.kv.whole());
}

#[tokio::test]
async fn a_refusal_holds_for_as_long_as_it_lasts() {
    let running = Running::start(Recorded::set_up(), Duration::from_secs(1));
    running.until_is(AuthorityName::Current).await;
    let denied = KvError::Denied("ACL not found".to_owned());
    running.kv.inner.fail_with(Some(denied));
    running.until_is(AuthorityName::Held).await;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        assert_eq!(running.authority(), AuthorityName::Held);
        sleep(Duration::from_millis(5)).await;
    }
    running.kv.inner.fail_with(None);
    running.until_is(AuthorityName::Current).await;
}

#[tokio::test]
async fn a_prefix_without_a_sentinel_starts_when_it_gets_one() {
    let running = Running::start(Recorded::default(), Duration::from_millis(400));
    let says = |it: &Running, text: &str| {
        let verdict = it.store.load().standing.verdict(clock::moment());
        verdict.name == AuthorityName::Held && verdict.reason.contains(text)
    };
    running
        .until("the reason", |it| says(it, "no key under the prefix"))
        .await;
    running.kv.inner.put(CANARY, "drain");
    running
        .until("the other reason", |it| says(it, "_meta is missing"))
        .await;
    let meta = Generation { epoch: 1, r#gen: 1 }.to_json(clock::now(), "test", None);
    running.kv.inner.put(META, meta);
    running.until_is(AuthorityName::Current).await;
}

#[tokio::test]
async fn questions_without_an_answer_are_asked_ever_less_often() {
    let store = Recorded {
        unnamed: Some(KvError::Unreachable("no leader".to_owned())),
        ..Recorded::set_up()
    };
    let running = Running::start(store, Duration::from_secs(2));
    running.until_blocked().await;
    running.kv.inner.remove(CANARY);
    let begin = Instant::now();
    running
        .until("five readings", |it| it.kv.whole().len() >= 2 + 5)
        .await;
    // Gaps of 100, 100, 200 and 400 ms at least.
    assert!(begin.elapsed() >= Duration::from_millis(800));
    assert_eq!(running.index(), Some(3), "not believed");
}

#[tokio::test]
async fn questions_that_hang_are_given_up() {
    let store = Recorded {
        slow: [Duration::ZERO, Duration::ZERO, PATIENCE * 6],
        ..Recorded::set_up()
    };
    let mut watcher = watcher(&Arc::new(store), Duration::from_secs(2)).0;
    watcher.turn().await;
    watcher.after = None;
    watcher.parts.kv.inner.remove(CANARY);
    timeout(PATIENCE, watcher.turn()).await.unwrap();
    assert_eq!(watcher.errors_in_a_row, 1);
}

#[tokio::test]
async fn a_vanished_key_that_cannot_be_asked_for_is_gone() {
    let store = Recorded {
        unnamed: Some(KvError::BadRequest("two slashes".to_owned())),
        ..Recorded::set_up()
    };
    let running = Running::start(store, Duration::from_secs(2));
    running.until_blocked().await;
    running.kv.inner.remove(CANARY);
    running
        .until("the deletion", |it| it.index() == Some(4))
        .await;
}

#[tokio::test]
async fn the_period_of_light_reads_counts_from_their_sending() {
    let slow = Duration::from_millis(60);
    let store = Recorded {
        slow: [Duration::ZERO, slow, Duration::ZERO],
        ..Recorded::set_up()
    };
    let (begin, every) = (Instant::now(), Duration::from_millis(50));
    let (outline, _, next) = light_read(&store, &prefix(), &SystemClock, begin, every).await;
    assert!(outline.is_ok());
    assert!(next >= begin + every && next < Instant::now());
}

#[tokio::test]
async fn vanished_keys_are_asked_for_at_once_and_each_answer_counts() {
    let slow = Duration::from_millis(50);
    let store = Recorded {
        slow: [Duration::ZERO, Duration::ZERO, slow],
        ..Recorded::set_up()
    };
    store.inner.put("frontend/gprd/group-states/g40", "drain");
    let paths = (0..64).map(|i| format!("group-states/g{i}")).collect();
    let begin = Instant::now();
    let kv = Arc::new(store);
    let findings = examine(&kv, &prefix(), &Questions { paths }).await.unwrap();
    assert!(begin.elapsed() < slow * 32, "{:?}", begin.elapsed());
    assert_eq!(findings.table_index, 4);
    let present = BTreeMap::from([("group-states/g40".to_owned(), 4)]);
    assert_eq!(findings.present, present);
    assert_eq!(findings.denied, None);
}
