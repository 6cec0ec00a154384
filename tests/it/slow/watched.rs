//! `status --watch` at a terminal while things happen.

use tidegate::clock;

use crate::read_paths::watched::{GIVEN_BACK, Scene, TAKEN};

const CTRL_C: &[u8] = b"\x03";

/// A ramp over the nodes that begins now.
fn put_ramp(scene: &Scene, every: &str) {
    let since = clock::now();
    let ramp = format!(
        r#"{{"state":"ready","since":"{since}","by":"ana","reason":"tried \u001b[2J",
        "ramp":{{"by":"nodes","steps":[50],{every}"nodes":["lb-0","lb-1","lb-2","lb-3"]}}}}"#
    );
    scene.state.put("canary-state", &ramp);
}

#[test]
fn a_ramp_runs_on_a_replica_goes_and_comes_back_and_the_terminal_is_given_back() {
    let mut scene = Scene::start();
    let mut terminal = scene.watch(&[], (100, 40));
    terminal.await_picture("it is drained", |seen| seen.contains("Canary  drain"));
    assert!(terminal.written().contains(TAKEN));

    put_ramp(&scene, r#""every":"6s","#);
    let first = terminal.await_picture("the ramp is seen", |seen| seen.contains("step 1 of 2"));
    assert!(first.contains("in 2 of 4 nodes: lb-0, lb-1"), "{first}");
    assert!(first.contains(r"tried \u{1b}[2J"), "{first}");
    let bar = |picture: &str| {
        let line = picture.lines().find(|line| line.starts_with("  ["));
        line.map_or(0, |line| line.matches('=').count())
    };
    let begun = bar(&first);
    terminal.await_picture("the bar advances", |seen| bar(seen) > begun);
    terminal.await_picture("the ramp is over", |seen| seen.contains("Canary  ready"));
    put_ramp(&scene, "");
    terminal.await_picture("the ramp holds", |seen| {
        seen.contains("Canary  held at 50% of the nodes")
            && seen.contains("held: it goes no further")
    });

    let away = format!("http://{}", scene.replicas.all[1].http());
    scene.replicas.all[1].kill();
    let seen = terminal.await_picture("the replica is away", |seen| {
        seen.contains(&format!("{away} away")) && seen.contains("Cannot be seen")
    });
    let words = seen.split_whitespace().collect::<Vec<_>>().join(" ");
    let since = "Connection refused (os error 111), since ";
    assert!(
        words.contains(&format!("replica {away}: {since}")),
        "{seen}"
    );
    assert!(words.contains(&format!("{away} away, {since}")), "{seen}");
    scene.replicas.all[1].start_again();
    terminal.await_picture("the replica is back", |seen| {
        !seen.contains(&away) && seen.contains("  b current")
    });

    terminal.resize(40, 12);
    terminal.await_picture("the terminal is small", |seen| {
        let narrow = seen.lines().all(|line| line.chars().count() <= 40);
        narrow && seen.lines().count() <= 12 && seen.contains("held at 50%")
    });
    terminal.type_keys(CTRL_C);
    assert_eq!(terminal.await_end(), Some(130));
    let written = terminal.written();
    assert_eq!(written.matches(TAKEN).count(), 1, "{written:?}");
    let end = written.rfind(GIVEN_BACK).expect("it is given back");
    assert!(!written[end..].contains("\x1b[H"), "{written:?}");
    assert!(written.contains("\x1b[33m"), "there are tones: {written:?}");
}
