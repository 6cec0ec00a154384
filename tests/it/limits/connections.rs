//! The cap of agent connections.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::harness::dial::raise_descriptor_limit;
use crate::harness::tidegate::{Tidegate, drained};
use crate::harness::wait::{PATIENCE, check, eventually};

const CAP: usize = 1_000;
const OVER_LIMIT: &str = r#"tidegate_agent_silent_total{reason="over_limit"}"#;
const ANSWERED: &str = r#"tidegate_agent_answers_total{answer="drain"}"#;
const OPEN: &str = "tidegate_agent_connections";
const LINE: &[u8] = b"web/cny canary\n";
/// A request without its line end is answered after 100 ms, and then makes room: all must be taken
/// within that. A busy machine may need another try.
const TRIES: usize = 20;

#[test]
fn exactly_as_many_as_configured_are_served_at_once_and_later_ones_again() {
    let cap = CAP.to_string();
    let (_state, tidegate) = drained(&["--agent-connections-max", &cap]);
    raise_descriptor_limit();

    let extra = 10;
    let before = (0..TRIES)
        .find_map(|_| {
            await_no_connections(&tidegate);
            let before = [OVER_LIMIT, ANSWERED].map(|series| tidegate.metric(series));
            let mut held = fill(&tidegate, CAP + extra);
            // Which ones were refused is a matter of which worker came first.
            let fates: Vec<_> = held.iter_mut().map(fate).collect();
            let count = |wanted: Fate| fates.iter().filter(|fate| **fate == wanted).count();
            let (answered, closed) = (count(Fate::Answered), count(Fate::ClosedWithoutAByte));
            println!("{answered} answered, {closed} closed");
            assert_eq!(answered + closed, CAP + extra);
            assert!(answered >= CAP, "{answered}");
            // A slow machine took the last ones when the first had their answers already.
            (answered == CAP).then_some(before)
        })
        .expect("one of the tries is fast enough");
    await_grown(&tidegate, OVER_LIMIT, before[0], extra);

    await_no_connections(&tidegate);
    assert_eq!(tidegate.ask_line("web/cny canary"), "up drain");
    await_grown(&tidegate, OVER_LIMIT, before[0], extra);
    await_grown(&tidegate, ANSWERED, before[1], CAP + 1);
}

/// Who has his answer holds a place until he closes, and half a second at most.
#[test]
fn who_has_his_answer_makes_room_for_who_has_none() {
    let limits = ["--agent-connections-max", "2", "--agent-workers", "1"];
    let (_state, tidegate) = drained(&limits);
    let before = tidegate.count(OVER_LIMIT);
    for _ in 0..5 {
        await_no_connections(&tidegate);
        let mut answered = tidegate.connect();
        answered.write_all(LINE).expect("it is accepted");
        assert_eq!(fate(&mut answered), Fate::Answered);
        let silent = tidegate.connect();
        let mut third = tidegate.connect();
        third.write_all(LINE).expect("it is accepted");
        assert_eq!(fate(&mut third), Fate::Answered);
        drop((answered, silent));
    }
    assert_eq!(tidegate.count(OVER_LIMIT), before);
}

/// Who asks finds a place, though all are taken by connections that say nothing, within the 100 ms
/// that those have for themselves.
#[test]
fn who_says_nothing_makes_room_after_100_ms() {
    let limits = ["--agent-connections-max", "3", "--agent-workers", "1"];
    let (_state, tidegate) = drained(&limits);
    let begin = Instant::now();
    let mut mute: Vec<_> = (0..3).map(|_| tidegate.connect()).collect();
    let taken = || {
        check(tidegate.count(OPEN) == 3, || {
            "not all are accepted".to_owned()
        })
    };
    eventually("all places are taken", PATIENCE, taken);
    eventually("somebody who asks is answered", PATIENCE, || {
        let mut asks = tidegate.connect();
        asks.write_all(LINE).map_err(|error| error.to_string())?;
        let answered = fate(&mut asks) == Fate::Answered;
        check(answered, || "closed".to_owned())
    });
    let span = begin.elapsed();
    assert!(span >= Duration::from_millis(100), "{span:?}");
    // The longest silent one was told so; the others are waited for.
    assert_eq!(fate(&mut mute[0]), Fate::UnknownRequest);
    for asks in &mut mute[1..] {
        asks.write_all(LINE).expect("it is open");
        assert_eq!(fate(asks), Fate::Answered);
    }
}

/// So many connections that have begun to ask.
fn fill(tidegate: &Tidegate, count: usize) -> Vec<TcpStream> {
    let one = |_| {
        let mut stream = tidegate.connect();
        // One that was refused may have been closed by now.
        stream.write_all(b"web/cny canary").ok();
        stream
    };
    (0..count).map(one).collect()
}

fn await_no_connections(tidegate: &Tidegate) {
    eventually("all places are free", PATIENCE, || {
        let open = tidegate.metric(OPEN);
        check(open == 0.0, || open.to_string())
    });
}

/// Waits for it: an answer is counted after it was sent.
#[expect(
    clippy::float_cmp,
    clippy::cast_precision_loss,
    reason = "counts are small whole numbers"
)]
fn await_grown(tidegate: &Tidegate, series: &str, before: f64, by: usize) {
    eventually(&format!("{series} grows by {by}"), PATIENCE, || {
        let grown = tidegate.metric(series) - before;
        check(grown == by as f64, || grown.to_string())
    });
}

/// What became of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Answered,
    UnknownRequest,
    ClosedWithoutAByte,
    Other(String),
}

fn fate(stream: &mut TcpStream) -> Fate {
    let mut answer = [0; 8];
    match stream.read_exact(&mut answer) {
        Ok(()) if &answer == b"up drain" => Fate::Answered,
        Ok(()) if &answer == b"unknown-" => Fate::UnknownRequest,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Fate::ClosedWithoutAByte,
        Err(error) if error.kind() == ErrorKind::UnexpectedEof && answer == [0; 8] => {
            Fate::ClosedWithoutAByte
        }
        other => Fate::Other(format!("{other:?} {answer:?}")),
    }
}
