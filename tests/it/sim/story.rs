//! The faults of a history, drawn from its seed.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use tokio::time::{Instant, sleep};

use super::consul::Rights;
use super::replica::{self, Running};
use super::world::{State, World};

/// How long faults happen.
pub(super) const FAULTS_FOR: f64 = 40.0;
/// How long a replica goes on answering after it was told to stop.
const DRAIN_FOR: Duration = Duration::from_secs(8);

/// The processes of one history.
pub(super) struct Fleet {
    pub(super) world: Arc<World>,
    running: Vec<Option<Running>>,
}

/// What can happen, with how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Write,
    WriteOutside,
    CutLink,
    HealLinks,
    CutFromConsul,
    HealConsulLinks,
    ConsulDown,
    ConsulHangs,
    Crash,
    Stop,
    Suspend,
    Start,
    Restore,
    Zombie,
    Wipe,
    Accept,
    Rights,
    ClockJump,
}

impl Fleet {
    pub(super) fn start(world: &Arc<World>) -> Self {
        let running = (0..world.count).map(|number| Some(replica::start(world, number)));
        Self {
            world: Arc::clone(world),
            running: running.collect(),
        }
    }

    /// Faults until their time is over.
    pub(super) async fn suffer(&mut self) {
        let weights = weights(self.world.state().rng.random_range(0..6));
        let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
        self.world.until(4.0).await;
        while self.world.elapsed().as_secs_f64() < FAULTS_FOR {
            let (mut pick, who, pause) = {
                let count = self.world.count;
                let rng = &mut self.world.state().rng;
                let pause = -rng.random_range(0.001_f64..1.0).ln() * 1.3;
                (
                    rng.random_range(0..total),
                    rng.random_range(0..count),
                    pause,
                )
            };
            let fault = weights.iter().find(|(_, weight)| {
                let here = pick < *weight;
                pick = pick.saturating_sub(*weight);
                here
            });
            let (fault, _) = fault.expect("the weights sum to the total");
            self.happen(*fault, who);
            sleep(Duration::from_secs_f64(pause)).await;
            self.exit_the_stopped();
        }
        while self.world.elapsed().as_secs_f64() < FAULTS_FOR + 16.0 {
            sleep(Duration::from_millis(100)).await;
            self.exit_the_stopped();
        }
    }

    /// Whether a process ended by itself, as it never should.
    pub(super) fn has_died(&self) -> bool {
        let mut running = self.running.iter().flatten();
        running.any(Running::is_over)
    }

    /// Brings every process back.
    pub(super) fn bring_back(&mut self) {
        for number in 0..self.world.count {
            {
                let mut state = self.world.state();
                state.replicas[number].suspended = false;
                state.replicas[number].stopping = false;
            }
            let up = self.world.state().replicas[number].up;
            if !up {
                self.restart(number, true);
            }
        }
    }

    pub(super) fn crash(&mut self, number: usize, dark: bool) {
        self.running[number] = None;
        let mut state = self.world.state();
        state.replicas[number].up = false;
        state.replicas[number].dark = dark;
        state.replicas[number].store = None;
        let how = if dark {
            "and drops packets"
        } else {
            "and refuses"
        };
        state.note(self.world.elapsed(), &format!("r{number} is dead {how}"));
    }

    pub(super) fn restart(&mut self, number: usize, with_disk: bool) {
        if !with_disk {
            self.world.state().replicas[number].disk = None;
        }
        let disk = if with_disk {
            "with its disk"
        } else {
            "without a disk"
        };
        self.world.note(&format!("r{number} starts {disk}"));
        self.running[number] = Some(replica::start(&self.world, number));
    }

    fn exit_the_stopped(&mut self) {
        for number in 0..self.world.count {
            let due = {
                let state = self.world.state();
                let replica = &state.replicas[number];
                replica.up && replica.stops_at.is_some_and(|at| at <= Instant::now())
            };
            if due && self.world.state().replicas[number].stopping {
                let dark = self.world.state().rng.random_bool(0.3);
                self.crash(number, dark);
            }
        }
    }

    /// What cannot happen now does not.
    fn happen(&mut self, fault: Fault, who: usize) {
        match fault {
            Fault::Write
            | Fault::WriteOutside
            | Fault::Restore
            | Fault::Zombie
            | Fault::Wipe
            | Fault::Accept
            | Fault::ConsulDown
            | Fault::ConsulHangs => {
                if self.world.state().consul.up {
                    disturb_consul(&self.world, fault);
                }
            }
            Fault::CutLink
            | Fault::HealLinks
            | Fault::CutFromConsul
            | Fault::HealConsulLinks
            | Fault::Rights
            | Fault::ClockJump => disturb_links(&self.world, fault, who),
            Fault::Crash | Fault::Stop | Fault::Suspend | Fault::Start => {
                self.disturb_processes(fault, who);
            }
        }
    }

    fn disturb_processes(&mut self, fault: Fault, who: usize) {
        let world = Arc::clone(&self.world);
        let (up, stopping, suspended) = {
            let state = world.state();
            let replica = &state.replicas[who];
            (replica.up, replica.stopping, replica.suspended)
        };
        if fault == Fault::Start {
            for number in 0..world.count {
                let with_disk = world.state().rng.random_bool(0.6);
                let down = !world.state().replicas[number].up;
                if down {
                    self.restart(number, with_disk);
                }
            }
        } else if fault == Fault::Crash && up {
            let dark = world.state().rng.random_bool(0.4);
            self.crash(who, dark);
        } else if fault == Fault::Stop && up && !stopping {
            let mut state = world.state();
            state.replicas[who].stopping = true;
            state.replicas[who].stops_at = Some(Instant::now() + DRAIN_FOR);
            state.note(world.elapsed(), &format!("r{who} stops in order"));
        } else if fault == Fault::Suspend && up && !suspended {
            suspend(&world, who);
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is no fault of Consul's, or cannot happen now, does not happen"
)]
fn disturb_consul(world: &Arc<World>, fault: Fault) {
    let at = world.elapsed();
    let mut state = world.state();
    match fault {
        Fault::Write => write(world, &mut state),
        Fault::WriteOutside => {
            state.consul.write_outside();
            state.note(at, "a write outside the prefix");
        }
        Fault::ConsulDown | Fault::ConsulHangs => {
            let span = state.rng.random_range(1.0..15.0);
            outage(world, &mut state, span, fault == Fault::ConsulHangs);
        }
        Fault::Restore => {
            let pick = state.rng.random_range(0..6);
            if state.consul.restore(Some(pick)) {
                went_back(&mut state, at, "RESTORE");
            }
        }
        Fault::Zombie if state.consul.zombie_sentinel() => {
            went_back(&mut state, at, "ZOMBIE WRITE");
            wake(world);
        }
        Fault::Wipe => {
            state.consul.wipe();
            went_back(&mut state, at, "WIPE");
        }
        Fault::Accept if state.went_back.is_some() => accept(world, &mut state),
        _ => {}
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is no fault of a link's, or cannot happen now, does not happen"
)]
fn disturb_links(world: &Arc<World>, fault: Fault, who: usize) {
    let at = world.elapsed();
    let mut state = world.state();
    match fault {
        Fault::CutLink if world.count > 1 => {
            let other = (who + state.rng.random_range(1..world.count)) % world.count;
            let one_way = state.rng.random_bool(0.3);
            state.cut.insert((who, other));
            if !one_way {
                state.cut.insert((other, who));
            }
            let arrow = if one_way { "->" } else { "<->" };
            state.note(at, &format!("r{who} {arrow} r{other} cut"));
        }
        Fault::HealLinks => {
            state.cut.clear();
            state.note(at, "links between replicas healed");
        }
        Fault::CutFromConsul => {
            let ways: &[bool] = match state.rng.random_range(0..4) {
                0 => &[false],
                1 => &[true],
                _ => &[false, true],
            };
            state
                .cut_from_consul
                .extend(ways.iter().map(|way| (who, *way)));
            state.note(at, &format!("r{who} loses Consul"));
        }
        Fault::HealConsulLinks => {
            let all = state.rng.random_bool(0.5);
            state
                .cut_from_consul
                .retain(|(number, _)| !all && *number != who);
            state.note(at, &format!("r{who} sees Consul (all: {all})"));
        }
        Fault::Rights => {
            let rights = [Rights::None, Rights::Subset, Rights::Full];
            let rights = rights[state.rng.random_range(0..rights.len())];
            let all = state.rng.random_bool(0.4);
            for number in 0..world.count {
                if all || number == who {
                    state.replicas[number].rights = rights;
                }
            }
            state.note(at, &format!("rights {rights:?} for r{who} (all: {all})"));
        }
        Fault::ClockJump => {
            // One bad clock at a time: of two nobody could tell.
            let jump = state.rng.random_range(-9_000..9_000);
            for (number, replica) in state.replicas.iter_mut().enumerate() {
                replica.clock_error = if number == who { jump } else { 0 };
                replica.clock_since = Instant::now();
            }
            state.note(at, &format!("the clock of r{who} is {jump} ms off"));
        }
        _ => {}
    }
}

fn suspend(world: &Arc<World>, who: usize) {
    let mut state = world.state();
    let span = Duration::from_secs_f64(state.rng.random_range(0.3..6.0));
    state.replicas[who].suspended = true;
    state.note(world.elapsed(), &format!("r{who} suspended for {span:?}"));
    let boot = state.replicas[who].boot;
    let again = Arc::clone(world);
    tokio::spawn(async move {
        sleep(span).await;
        let mut state = again.state();
        if state.replicas[who].boot == boot {
            state.replicas[who].suspended = false;
        }
    });
}

/// Consul gone for all, or silent for all.
pub(super) fn outage(world: &Arc<World>, state: &mut State, span: f64, hangs: bool) {
    let at = world.elapsed();
    if hangs {
        state.consul.hangs = true;
        state.note(at, "Consul accepts and never answers");
    } else {
        state.consul.up = false;
        state.note(at, "Consul down for all");
    }
    world.wakes.notify_waiters();
    let again = Arc::clone(world);
    tokio::spawn(async move {
        sleep(Duration::from_secs_f64(span)).await;
        let at = again.elapsed();
        let mut state = again.state();
        if hangs {
            state.consul.hangs = false;
        } else {
            state.consul.up = true;
        }
        state.note(at, "Consul is back");
    });
}

/// An operator looks at what there is, and writes a new epoch.
pub(super) fn accept(world: &Arc<World>, state: &mut State) {
    state.consul.accept();
    state.went_back = None;
    for replica in &mut state.replicas {
        replica.saw_it = None;
        replica.saw = 0;
    }
    let seq = state.consul.now().seq;
    state.note(world.elapsed(), &format!("ACCEPT as seq {seq}"));
    wake(world);
}

/// A transaction that wakes everybody.
pub(super) fn transact(world: &Arc<World>, key: &str) {
    let mut state = world.state();
    state.consul.transact(key);
    let seq = state.consul.now().seq;
    state.note(world.elapsed(), &format!("transaction {key}: seq {seq}"));
    wake(world);
}

/// The state before the last change is put back.
pub(super) fn restore(world: &Arc<World>) {
    let mut state = world.state();
    assert!(state.consul.restore(None), "there was a change before");
    went_back(&mut state, world.elapsed(), "RESTORE");
}

fn write(world: &Arc<World>, state: &mut State) {
    let keys = [
        "group-states/a",
        "group-states/b",
        "group-states/c",
        "group-states/d",
    ];
    let key = keys[state.rng.random_range(0..keys.len())];
    let pick = state.rng.random_range(0..8);
    let what = match state.rng.random_range(0..4) {
        0 | 1 => state.consul.transact(key).then_some("transaction"),
        2 => {
            state.consul.put(key);
            Some("put")
        }
        _ => state
            .consul
            .delete(pick)
            .then_some("delete of another key than"),
    };
    if let Some(what) = what {
        let version = state.consul.now();
        let (seq, index) = (version.seq, version.index);
        state.note(
            world.elapsed(),
            &format!("{what} {key}: seq {seq} index {index}"),
        );
        // One in ten wakes nobody.
        if state.rng.random_bool(0.9) {
            wake(world);
        }
    }
}

fn went_back(state: &mut State, at: Duration, what: &str) {
    let seq = state.consul.now().seq;
    state.note(at, &format!("{what}: seq {seq}"));
    if state.went_back.is_none() {
        state.went_back = Some((Instant::now(), seq));
    }
}

fn wake(world: &Arc<World>) {
    world.wakes.notify_waiters();
}

fn weights(profile: u32) -> Vec<(Fault, u32)> {
    let base = [
        (Fault::Write, 80),
        (Fault::WriteOutside, 10),
        (Fault::CutLink, 30),
        (Fault::HealLinks, 20),
        (Fault::CutFromConsul, 30),
        (Fault::HealConsulLinks, 30),
        (Fault::ConsulDown, 10),
        (Fault::ConsulHangs, 5),
        (Fault::Crash, 7),
        (Fault::Stop, 5),
        (Fault::Suspend, 6),
        (Fault::Start, 15),
        (Fault::Restore, 0),
        (Fault::Zombie, 0),
        (Fault::Wipe, 0),
        (Fault::Accept, 0),
        (Fault::Rights, 0),
        (Fault::ClockJump, 3),
    ];
    let changed: &[(Fault, u32)] = match profile {
        // Processes.
        1 => &[
            (Fault::Crash, 30),
            (Fault::Stop, 20),
            (Fault::Start, 50),
            (Fault::CutLink, 15),
        ],
        // The store's history.
        2 => &[
            (Fault::Restore, 12),
            (Fault::Zombie, 3),
            (Fault::Wipe, 3),
            (Fault::Accept, 8),
            (Fault::WriteOutside, 20),
            (Fault::Crash, 15),
            (Fault::Start, 30),
        ],
        3 => &[
            (Fault::Rights, 25),
            (Fault::Crash, 20),
            (Fault::Start, 40),
            (Fault::CutLink, 10),
        ],
        4 | 5 => &[
            (Fault::Restore, 12),
            (Fault::Zombie, 2),
            (Fault::Wipe, 3),
            (Fault::Accept, 8),
            (Fault::WriteOutside, 20),
            (Fault::Rights, 15),
        ],
        // The network.
        _ => &[],
    };
    let weight = |(fault, weight): (Fault, u32)| {
        let other = changed.iter().find(|(other, _)| *other == fault);
        (fault, other.map_or(weight, |(_, weight)| *weight))
    };
    base.into_iter().map(weight).collect()
}
