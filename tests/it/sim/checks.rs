//! What must hold after every step of a history.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate::domain::authority::AuthorityName;
use tokio::time::{Instant, sleep};

use super::consul::NARROWED;
use super::look::{Answered, Look, look, texts};
use super::world::{POLL_INTERVAL, World};

/// Time from one look to the next.
const STEP: Duration = Duration::from_millis(100);
/// What a look may come late, and a message takes at most (0.7 s each way are too late anyway).
const SLACK: Duration = Duration::from_millis(600);
/// The servers that poll.
const SERVERS: usize = 6;
const SERVERS_U32: u32 = 6;

/// The bounds, and the largest values seen.
pub(super) struct Checker {
    world: Arc<World>,
    failures: BTreeMap<&'static str, (f64, String)>,
    pub(super) worst: BTreeMap<&'static str, f64>,
    /// Since when a state that is borne for a while lasts.
    since: BTreeMap<(&'static str, usize), Instant>,
    /// When two replicas last did not see each other.
    apart: BTreeMap<(usize, usize), Instant>,
    /// When a link between two replicas was last cut, whether they ran or not.
    cut: BTreeMap<(usize, usize), Instant>,
    /// What each server was told last: the place in what happened.
    told: [u64; SERVERS],
    /// And whether that was a part only.
    told_part: [bool; SERVERS],
    /// The hidden keys that each replica last answered from, and in which life.
    had: BTreeMap<usize, (Instant, [bool; NARROWED.len()])>,
    /// Servers' times: each polls a replica of its choice once per interval.
    next_poll: [Instant; SERVERS],
    poll_choice: usize,
    /// Whether the story tells each step.
    traces: bool,
}

impl Checker {
    pub(super) fn new(world: &Arc<World>) -> Self {
        let next_poll = std::array::from_fn(|server| {
            let server = u32::try_from(server).expect("a few servers");
            Instant::now() + POLL_INTERVAL * (server + 1) / SERVERS_U32
        });
        Self {
            world: Arc::clone(world),
            failures: BTreeMap::new(),
            worst: BTreeMap::new(),
            since: BTreeMap::new(),
            apart: BTreeMap::new(),
            cut: BTreeMap::new(),
            told: [0; SERVERS],
            told_part: [true; SERVERS],
            had: BTreeMap::new(),
            next_poll,
            poll_choice: 0,
            traces: std::env::var_os("TIDEGATE_SIM_TRACE").is_some(),
        }
    }

    /// Looks for so long.
    pub(super) async fn watch(&mut self, span: Duration) {
        let end = Instant::now() + span;
        while Instant::now() < end {
            self.step();
            sleep(STEP).await;
        }
    }

    /// Looks for so long, at every moment that may matter.
    pub(super) async fn watch_closely(&mut self, span: Duration) {
        let end = Instant::now() + span;
        while Instant::now() < end {
            self.step();
            sleep(STEP / 20).await;
        }
    }

    /// Looks until this holds, at most for so long. Returns after how many seconds it did.
    pub(super) async fn watch_until(
        &mut self,
        most: Duration,
        holds: impl Fn(&[Look]) -> bool,
    ) -> Option<f64> {
        let begin = Instant::now();
        while begin.elapsed() < most {
            self.step();
            if holds(&look(&self.world)) {
                return Some(begin.elapsed().as_secs_f64());
            }
            sleep(STEP).await;
        }
        None
    }

    pub(super) fn fail(&mut self, rule: &'static str, text: &str) {
        let at = self.world.elapsed().as_secs_f64();
        if !self.failures.contains_key(rule) {
            self.world.note(&format!("!!! {rule}: {text}"));
        }
        self.failures
            .entry(rule)
            .or_insert_with(|| (at, text.to_owned()));
    }

    pub(super) fn failures(&self) -> Vec<String> {
        let text = |(rule, (at, text)): (&&'static str, &(f64, String))| {
            format!("{rule} at {at:.2}: {text}")
        };
        self.failures
            .iter()
            .map(|(rule, why)| text((rule, why)))
            .collect()
    }

    pub(super) fn measure(&mut self, what: &'static str, value: f64) {
        let worst = self.worst.entry(what).or_default();
        *worst = worst.max(value);
    }

    fn step(&mut self) {
        let looks = look(&self.world);
        if self.traces {
            self.world.note(&texts(&looks));
        }
        self.note_links();
        self.check_staleness(&looks);
        self.check_two_truths(&looks);
        self.check_lost_rights(&looks);
        self.check_went_back(&looks);
        self.check_newborn(&looks);
        self.check_relays(&looks);
        self.check_clocks(&looks);
        self.poll(&looks);
    }

    /// For how long a state has lasted.
    fn lasts(&mut self, what: &'static str, who: usize, holds: bool) -> Duration {
        if !holds {
            self.since.remove(&(what, who));
            return Duration::ZERO;
        }
        self.since
            .entry((what, who))
            .or_insert_with(Instant::now)
            .elapsed()
    }

    fn note_links(&mut self) {
        let state = self.world.state();
        for a in 0..self.world.count {
            for b in 0..self.world.count {
                let (one, other) = (&state.replicas[a], &state.replicas[b]);
                let well = |slot: &super::world::Slot| slot.up && !slot.suspended;
                let link = !state.cut.contains(&(a, b)) && !state.cut.contains(&(b, a));
                if a != b && !(link && well(one) && well(other)) {
                    self.apart.insert((a, b), Instant::now());
                }
                if !link {
                    self.cut.insert((a, b), Instant::now());
                }
            }
        }
    }

    /// Since when two replicas see each other.
    fn together(&self, a: usize, b: usize) -> Duration {
        self.apart
            .get(&(a, b))
            .copied()
            .unwrap_or(self.world.begin)
            .elapsed()
    }

    fn check_staleness(&mut self, looks: &[Look]) {
        let lease = World::times().lease();
        for look in looks {
            let Some(answer) = &look.answer else {
                continue;
            };
            let stale = answer.replaced.map_or(Duration::ZERO, |at| at.elapsed());
            if look.name == AuthorityName::Agreed || answer.deferred {
                continue;
            }
            self.measure("staleness", stale.as_secs_f64());
            if stale > lease + Duration::from_millis(10) {
                self.fail("1 stale", &format!("{} for {stale:?}", look.text()));
            }
        }
    }

    fn check_two_truths(&mut self, looks: &[Look]) {
        let lease = World::times().lease();
        let answers: Vec<_> = looks
            .iter()
            .filter_map(|look| look.answer.as_ref())
            .collect();
        let newest = answers.iter().map(|answer| answer.seq).max().unwrap_or(0);
        let old = |answer: &&&Answered| {
            answer.seq < newest && answer.replaced.is_some_and(|at| at.elapsed() > lease)
        };
        let differ = answers.iter().any(|answer| old(&answer));
        let lasts = self.lasts("two truths", 0, differ);
        self.measure("two truths at once", lasts.as_secs_f64());
        if lasts > World::times().fresh() + SLACK {
            self.fail("2 two truths", &texts(looks));
        }
        // Nobody but one who sees more can tell that a token never saw the whole.
        let long = World::times().fresh() + lease + SLACK;
        let beside = |(a, b): (&Look, &Look)| {
            let same = |a: &Answered, b: &Answered| a.seq == b.seq && a.cut != b.cut;
            let differ = a.answer.as_ref().zip(b.answer.as_ref());
            differ.is_some_and(|(a, b)| same(a, b)) && self.together(a.number, b.number) > long
        };
        let mut pairs = looks.iter().flat_map(|a| looks.iter().map(move |b| (a, b)));
        let subset = pairs.any(beside);
        let lasts = self.lasts("a part beside the whole", 0, subset);
        if lasts > World::times().fresh() + SLACK {
            self.fail("2 a part beside the whole", &texts(looks));
        }
        self.check_after_agreeing(looks);
    }

    /// A key that a replica answered from is not gone only because its token hides it.
    fn check_lost_rights(&mut self, looks: &[Look]) {
        for look in looks {
            let Some(answer) = &look.answer else {
                continue;
            };
            let before = self.had.insert(look.number, (look.born, answer.has));
            let Some((_, had)) = before.filter(|(born, _)| *born == look.born) else {
                continue;
            };
            let lost = had
                .iter()
                .zip(answer.lacks)
                .any(|(had, lacks)| *had && lacks);
            // Without that key a whole listing looks like the narrowed view of the next version.
            if lost && look.narrowed && look.name == AuthorityName::Current {
                self.fail("2 a part after the whole", &look.text());
            }
        }
    }

    /// Of replicas that agreed, none answers something newer while another still answers that.
    fn check_after_agreeing(&mut self, looks: &[Look]) {
        let lately = World::times().fresh();
        let agrees = |look: &Look| {
            let deferred = look.answer.as_ref().is_some_and(|answer| answer.deferred);
            look.name == AuthorityName::Agreed || deferred
        };
        let mut left = Vec::new();
        for look in looks {
            let since = ("agreed", look.number);
            if agrees(look) {
                self.since.insert(since, Instant::now());
            }
            let last = self.since.get(&since);
            let lately = |at: &&Instant| at.elapsed() < lately && **at >= look.born;
            left.push(!agrees(look) && last.is_some_and(|at| lately(&at)));
        }
        if self.world.state().went_back.is_some() {
            return;
        }
        let seq = |look: &Look| look.answer.as_ref().map(|answer| answer.seq);
        let mut beside = None;
        for (look, left) in looks.iter().zip(left) {
            let older = |other: &&Look| {
                left && agrees(other) && seq(other).is_some() && seq(other) < seq(look)
            };
            if let Some(other) = looks.iter().find(older) {
                beside = Some(format!("{} beside {}", look.text(), other.text()));
            }
        }
        // A confirmation that comes late may lapse at once, and a peer agrees a little longer.
        let lasts = self.lasts("after agreeing", 0, beside.is_some());
        self.measure("old and new right after agreeing", lasts.as_secs_f64());
        if let Some(text) = beside.filter(|_| lasts > STEP * 3) {
            self.fail("2 old and new right after agreeing", &text);
        }
    }

    fn check_went_back(&mut self, looks: &[Look]) {
        let lease = World::times().lease();
        let fresh = World::times().fresh();
        let (went_back, proves): (_, Vec<bool>) = {
            let state = self.world.state();
            let proves = |look: &Look| look.proves(&state.consul);
            (state.went_back, looks.iter().map(proves).collect())
        };
        let mut known_broken = Vec::new();
        let mut held = Vec::new();
        for (look, proves) in looks.iter().zip(proves) {
            let epoch = look
                .memory
                .as_ref()
                .map_or(0, |memory| memory.evidence.highest.epoch);
            let proof = look.broken() >= epoch && epoch > 0
                || (look.name == AuthorityName::Current && proves);
            known_broken.push(self.lasts("proof", look.number, proof && went_back.is_some()));
            held.push(self.lasts("held", look.number, look.name == AuthorityName::Held));
        }
        let Some((at, from)) = went_back else {
            return;
        };
        for (place, look) in looks.iter().enumerate() {
            let Some(answer) = look.answer.as_ref().filter(|answer| answer.seq >= from) else {
                continue;
            };
            let others = |a: &Look| a.number != look.number;
            if at.elapsed() > lease {
                let saw = look
                    .saw_it
                    .is_some_and(|saw| saw.elapsed() > Duration::from_millis(700));
                if saw && look.born.elapsed() > lease {
                    self.fail("3 answers what it saw to be old", &look.text());
                }
                let limit = lease + STEP;
                let known = looks.iter().enumerate().any(|(other, peer)| {
                    others(peer)
                        && known_broken[other] > limit
                        && self.together(look.number, peer.number) > lease
                        && peer.broken() >= answer.epoch
                });
                if known_broken[place] > limit || known {
                    self.fail("3 answers what went back", &look.text());
                }
            }
            if at.elapsed() > lease * 2 {
                let beside = looks.iter().enumerate().any(|(other, peer)| {
                    let knows = peer.broken() >= answer.epoch
                        || peer.saw_it.is_some_and(|saw| saw.elapsed() > fresh);
                    others(peer)
                        && knows
                        && held[other] > fresh + Duration::from_millis(200)
                        && self.together(look.number, peer.number) > lease
                });
                if beside {
                    self.fail("3 answers beside one that is held", &look.text());
                }
            }
        }
    }

    /// Whoever starts without memory asks those who know before it answers.
    fn check_newborn(&mut self, looks: &[Look]) {
        let Some((_, from)) = self.world.state().went_back else {
            return;
        };
        let second = Duration::from_secs(1);
        for look in looks {
            let Some(answer) = look.answer.as_ref().filter(|answer| answer.seq >= from) else {
                continue;
            };
            let mut others = looks.iter().filter(|other| other.number != look.number);
            let knows = |other: &Look| {
                let linked = self.cut.get(&(look.number, other.number));
                let linked = linked.is_none_or(|at| at.elapsed() > second);
                let long = self.since.get(&("proof", other.number));
                let long = long.is_some_and(|at| at.elapsed() > second);
                linked && long && other.broken() >= answer.epoch
            };
            let all_here = looks.len() == self.world.count && self.world.count > 1;
            let all_know = all_here && others.all(knows);
            if all_know && look.born.elapsed() < second {
                self.fail("3 a newborn answers what went back", &look.text());
            }
        }
    }

    /// Whoever sees a replica with a confirmed listing is not silent for long.
    fn check_relays(&mut self, looks: &[Look]) {
        let long = World::times().lease() + SLACK;
        let mut confirmed = Vec::new();
        for look in looks {
            let is = matches!(look.name, AuthorityName::Current | AuthorityName::Relayed);
            confirmed.push(self.lasts("confirmed", look.number, is));
        }
        for look in looks {
            let sees = looks.iter().zip(&confirmed).any(|(other, confirmed)| {
                other.number != look.number
                    && *confirmed > long
                    && self.together(look.number, other.number) > long
            });
            // Whose listing is further than one that was restored takes it only from the source.
            let fine = !look.reason.contains("clock of this machine")
                && self.world.state().went_back.is_none();
            let silent = look.name == AuthorityName::CutOff && sees && fine;
            if self.lasts("silent beside one that is confirmed", look.number, silent) > long {
                self.fail("8 silent beside one that is confirmed", &texts(looks));
            }
        }
    }

    /// A replica whose clock is far off, and that hears two others, is silent.
    fn check_clocks(&mut self, looks: &[Look]) {
        for look in looks {
            let off = look.clock_error.unsigned_abs() > 6_000;
            let lately = Duration::from_secs(6);
            let sees = looks.iter().filter(|other| {
                other.number != look.number
                    && self.together(look.number, other.number) > lately
                    && other.born.elapsed() > lately
            });
            let hears = sees.count() >= 2;
            let long = look.clock_since.elapsed() > lately && look.born.elapsed() > lately;
            if off && hears && long && look.answer.is_some() && look.clock_error > 0 {
                self.fail("6 answers by a wrong clock", &look.text());
            }
        }
    }

    /// Each server polls one of the replicas per interval, as behind a balancer.
    fn poll(&mut self, looks: &[Look]) {
        for server in 0..SERVERS {
            if Instant::now() < self.next_poll[server] {
                continue;
            }
            self.next_poll[server] += POLL_INTERVAL;
            self.poll_choice += 1;
            let choice = (self.poll_choice * 7 + server) % self.world.count;
            let Some(look) = looks.iter().find(|look| look.number == choice) else {
                continue;
            };
            let Some(answer) = &look.answer else {
                continue;
            };
            let told = std::mem::replace(&mut self.told[server], answer.seq);
            let part = std::mem::replace(&mut self.told_part[server], answer.cut);
            // A part is an answer as long as nobody is in sight who has more.
            let long = World::times().lease() + World::times().fresh() + SLACK;
            let in_sight = looks.iter().any(|other| {
                let whole = other.answer.as_ref().is_some_and(|answer| !answer.cut);
                whole
                    && self.together(look.number, other.number) > long
                    && look.number != other.number
            });
            if answer.seq == told && answer.cut && !part && in_sight {
                self.fail("2 whole to part at one server", &look.text());
            }
            let knows_newer = looks
                .iter()
                .any(|other| other.answer.as_ref().is_some_and(|newer| newer.seq >= told));
            if answer.seq < told && knows_newer {
                let (before, after) = (told, look.text());
                self.fail(
                    "2 new to old at one server",
                    &format!("seq {before}, then {after}"),
                );
            }
        }
    }
}
