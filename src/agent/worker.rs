//! One thread that accepts and answers.
//!
//! A poll of HAProxy's costs four system calls: accept, receive, send, close. Its line is there
//! when it is accepted, so it is answered at once, without a task and without any registration.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::task::yield_now;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::closing::Closing;
use super::desk::{Desk, Round};
use super::late::{EVENTS_MAX, Ended, Late};
use super::listener::{Accepted, accept};
use super::opening::may_answer;
use super::places::Places;
use super::socket::{Buffer, Read, read, write};
use super::{Close, FINISH_TIME_MAX, REQUEST_TIME_MAX, SILENCE, Shared};
use crate::clock;
use crate::domain::authority::Moment;
use crate::domain::network::Networks;
use crate::domain::request::{REQUEST_BYTES_MAX, line_length};
use crate::fleet::Tally;
use crate::metrics::{Silence, WorkerCounters};
use crate::progress::Beat;

/// The most connections that are taken on one reading of the snapshot and the wall clock: a
/// millisecond of work. Then it is read anew, and everything else has its turn.
const BATCH: usize = 64;

/// How often a worker looks whose time is over, as long as there is somebody. After a failure of
/// accept it tries again with that: descriptors come back when connections close.
const TICK: Duration = Duration::from_millis(10);

/// How often a worker shows a sign of life.
const BEAT: Duration = Duration::from_secs(1);

/// The most answered connections that a worker holds on to.
const CLOSING_MAX: usize = 2_048;

/// How many answered connections are closed at once when there are no descriptors left.
const ROOM_MADE: usize = 16;

/// Everything of one worker. Nobody else touches it.
struct Worker {
    desk: Desk,
    places: Places,
    late: Late,
    closing: Closing,
    close: Close,
    allow: Networks,
    buffer: Buffer,
}

/// What one worker is made of.
pub(super) struct Parts {
    pub(super) listener: TcpListener,
    pub(super) counters: Arc<WorkerCounters>,
    pub(super) tally: Arc<Tally>,
    pub(super) shared: Arc<Shared>,
    /// Cancelled when the worker ends without being told to.
    pub(super) died: CancellationToken,
    pub(super) beat: Beat,
}

/// Whether there is more to do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Done,
    More,
    /// Nothing can be taken now.
    Pause,
}

/// Starts the thread.
pub(super) fn start(number: usize, parts: Parts) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let run = move || runtime.block_on(serve(parts));
    std::thread::Builder::new()
        .name(format!("agent-{number}"))
        .spawn(run)
}

async fn serve(parts: Parts) {
    let end_of_part = parts.died.clone().drop_guard();
    match run(parts).await {
        Ok(()) => drop(end_of_part.disarm()),
        Err(error) => tracing::error!(%error, "an agent's worker cannot go on"),
    }
}

/// Accepts until stopped, then lets open polls finish.
async fn run(parts: Parts) -> io::Result<()> {
    let stop = parts.shared.stop.clone();
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = may_answer(&parts.shared.store, parts.shared.opening) => {}
    }
    let mut worker = Worker::new(parts.shared, parts.counters, parts.tally)?;
    let arrivals = watched(parts.listener)?;
    let lines = watched(worker.late.epoll())?;
    let mut stopped = pin!(stop.cancelled());
    let mut beats = every(BEAT);
    let mut ticks = every(TICK);
    let mut paused = false;
    loop {
        let waits = paused || worker.open() > 0;
        tokio::select! {
            biased;
            () = &mut stopped => break,
            _ = beats.tick() => parts.beat.now(),
            _ = ticks.tick(), if waits => {
                worker.tick(REQUEST_TIME_MAX);
                paused = false;
            }
            ready = lines.readable() => end_turn(ready?, worker.read_late()).await,
            ready = arrivals.readable(), if !paused => {
                let turn = worker.accept(arrivals.get_ref());
                paused = turn == Turn::Pause;
                end_turn(ready?, turn).await;
            }
        }
    }
    let end = Moment(clock::moment().0 + FINISH_TIME_MAX);
    // They are connected: closing the listener would reset them, unless somebody keeps it for the
    // next process.
    while worker.accept(arrivals.get_ref()) == Turn::More && clock::moment() < end {}
    drop(arrivals);
    // Connections that only wait for HAProxy's close are no loss.
    while worker.open() > 0 && clock::moment() < end {
        tokio::select! {
            biased;
            _ = ticks.tick() => worker.tick(SILENCE),
            ready = lines.readable() => end_turn(ready?, worker.read_late()).await,
        }
    }
    Ok(())
}

/// Goes on with what is left, after everything else had its turn, or waits for the kernel's next
/// word.
async fn end_turn<T: AsRawFd>(mut ready: AsyncFdReadyGuard<'_, T>, turn: Turn) {
    match turn {
        Turn::Done => ready.clear_ready(),
        Turn::More => {
            ready.retain_ready();
            yield_now().await;
        }
        Turn::Pause => ready.retain_ready(),
    }
}

#[expect(
    deprecated,
    reason = "its replacement is unsafe code, for the sake of types that give another descriptor \
              each time; the two that are watched here own theirs"
)]
fn watched<T: AsRawFd>(socket: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(socket, Interest::READABLE)
}

fn every(time: Duration) -> Interval {
    let mut ticks = interval(time);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Worker {
    fn new(
        shared: Arc<Shared>,
        counters: Arc<WorkerCounters>,
        tally: Arc<Tally>,
    ) -> io::Result<Self> {
        // All workers together hold on to half of what may be open: there is room for new ones.
        let held = shared.connections_max / shared.workers.max(1) / 2;
        Ok(Self {
            close: shared.close,
            allow: shared.allow.clone(),
            late: Late::new()?,
            closing: Closing::new(held.min(CLOSING_MAX)),
            places: Places::new(Arc::clone(&shared), Arc::clone(&counters)),
            desk: Desk::new(shared, counters, tally),
            buffer: [0; REQUEST_BYTES_MAX + 1],
        })
    }

    fn open(&self) -> usize {
        self.late.len() + self.closing.len()
    }

    /// Takes a batch of those who wait.
    fn accept(&mut self, listener: &TcpListener) -> Turn {
        let round = self.desk.round();
        let mut turn = Turn::More;
        for _ in 0..BATCH {
            match accept(listener) {
                Accepted::Connection(socket, source) => self.take(socket, source, &round),
                Accepted::Nobody => {
                    turn = Turn::Done;
                    break;
                }
                Accepted::Aborted => self.desk.accept_failed(),
                Accepted::Failed(error) => {
                    self.desk.accept_failed();
                    tracing::debug!(%error, "accept");
                    if !self.make_room(&round) {
                        turn = Turn::Pause;
                        break;
                    }
                }
            }
        }
        self.end_round(clock::moment());
        turn
    }

    /// Answers a new connection, or has it wait for its line.
    fn take(&mut self, socket: OwnedFd, source: IpAddr, round: &Round) {
        if !self.allow.admit(source) {
            return self.desk.silent(Silence::NotAllowed);
        }
        if !self.places.take(self.open()) && !self.take_place_of_another(round) {
            return self.desk.silent(Silence::OverLimit);
        }
        let (read, length) = read(&socket, &mut self.buffer, 0);
        if read == Read::Part {
            let (part, now) = (&self.buffer[..length], clock::moment());
            if self.late.add(socket, source, part, now).is_err() {
                self.desk.silent(Silence::OverLimit);
            }
        } else {
            let ended = Ended {
                socket,
                source,
                read,
                length,
            };
            self.reply(ended, round);
        }
    }

    fn take_place_of_another(&mut self, round: &Round) -> bool {
        self.let_one_go(round) && self.places.take(self.open())
    }

    fn make_room(&mut self, round: &Round) -> bool {
        (0..ROOM_MADE)
            .take_while(|_| self.let_one_go(round))
            .count()
            > 0
    }

    /// Who has his answer makes room for who has none, and then who has not said a byte.
    fn let_one_go(&mut self, round: &Round) -> bool {
        if self.closing.close_oldest() {
            return true;
        }
        let Some(mute) = self.late.mute(&mut self.buffer, clock::moment(), SILENCE) else {
            return false;
        };
        self.reply(mute, round);
        self.closing.close_oldest();
        true
    }

    /// Reads what came on connections whose line was late.
    fn read_late(&mut self) -> Turn {
        let round = self.desk.round();
        let (places, count) = self.late.readable();
        for at in &places[..count] {
            if let Some(ended) = self.late.read(*at, &mut self.buffer, clock::moment()) {
                self.reply(ended, &round);
            }
        }
        self.end_round(clock::moment());
        if count == EVENTS_MAX {
            Turn::More
        } else {
            Turn::Done
        }
    }

    /// Answers those who say no more, or have not said anything for so long.
    fn tick(&mut self, patience: Duration) {
        let round = self.desk.round();
        let now = clock::moment();
        while let Some(ended) = self.late.silent(&mut self.buffer, now, patience) {
            self.reply(ended, &round);
        }
        self.end_round(clock::moment());
    }

    fn end_round(&mut self, now: Moment) {
        self.closing.look(now);
        self.places.settle(self.open());
    }

    /// Answers the request in the buffer, and lets its connection go.
    fn reply(&mut self, ended: Ended, round: &Round) {
        let Ended {
            socket,
            source,
            read,
            length,
        } = ended;
        if read == Read::Gone {
            return self.desk.silent(Silence::Gone);
        }
        let bytes = &self.buffer[..length];
        // What follows the line end is not looked at, so that it does not matter whether it came
        // with the same segment.
        let line = &bytes[..line_length(bytes).unwrap_or(length)];
        // Each answer looks at the lease at its own moment: the process may have been stopped in
        // the middle of a batch.
        let now = clock::moment();
        let Some(answer) = self.desk.answer(round, line, source, now) else {
            return self.desk.no_authority(round, line, source);
        };
        let whole = read == Read::Whole && line.len() == length;
        let last = read == Read::HalfClosed || (whole && self.close == Close::Fin);
        match write(&socket, &answer.line, last) {
            Ok(()) => {
                let took = clock::moment().since(now);
                self.desk.told(round, &answer, source, took);
            }
            Err(why) => return self.desk.not_told(round, &answer, source, why),
        }
        if !last {
            self.closing.push(socket, now);
        }
    }
}
