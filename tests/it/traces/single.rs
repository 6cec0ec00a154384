//! One replica from its start to its stop.

use super::*;
use rustix::process::Signal;

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn start(collector: &Collector, state: &StateFolder, arguments: &[&str]) -> Tidegate {
    let kv = state.kv();
    let arguments = [&["--kv", &kv], arguments].concat();
    let mut replica = Tidegate::launch(&arguments, &collector.environment());
    replica.await_ready();
    replica
}

#[test]
fn a_start_a_ramp_a_reload_and_a_stop_are_told_and_no_key_that_stood_there_before() {
    let collector = Collector::start();
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    for number in 0..50 {
        state.put(&format!("server-overrides/web/s{number}"), "maint");
    }
    let mut replica = start(&collector, &state, &[]);
    let change = &collector.await_named("authority.change", 1, PATIENCE)[0];
    assert_eq!(
        (change.instance.as_str(), change.attribute("from")),
        ("a", "starting".to_owned())
    );
    assert_eq!(change.attribute("to"), "current");

    let ramp = [
        "canary",
        "--ready",
        "--ramp",
        "by=weight,steps=5,50,every=1s",
    ];
    let output = command(&state, &collector, &ramp);
    assert_eq!(output.code, Some(0), "{output:?}");
    let asked = &collector.await_named("tidegate canary", 1, PATIENCE)[0];
    for (name, percent) in [("ramp.start", "5"), ("ramp.step", "50"), ("ramp.end", "50")] {
        let told = &collector.await_named(name, 1, PATIENCE)[0];
        assert_eq!(told.attribute("percent"), percent);
        assert_eq!(told.attribute("path"), "canary-state");
        assert!(told.is_linked_to(asked), "{told:?}");
    }
    replica.process().signal(Signal::HUP);
    collector.await_named("reload", 1, PATIENCE);
    assert_eq!(replica.process().stop().code(), Some(0));
    let stop = &collector.await_named("stop", 1, PATIENCE)[0];
    assert_eq!(stop.attribute("why"), "SIGTERM");
    // Each is in the log too, with the id of its trace.
    let log = replica.process().log_text();
    for name in [
        "authority.change",
        "ramp.start",
        "ramp.end",
        "reload",
        "stop",
    ] {
        let told = &collector.named(name)[0].span;
        let id = format!("trace_id=\"{}\"", hex(&told.trace_id));
        assert!(log.contains(&id), "{name}: no {id} in {log}");
    }
    for (name, count) in [("state.transition", 1), ("kv.update", 1), ("ramp.start", 1)] {
        let all = collector.named(name);
        assert_eq!(all.len(), count, "{all:#?}");
    }
}

#[test]
fn a_key_that_is_taken_away_or_put_back_is_linked_to_the_command_that_did_it() {
    let collector = Collector::start();
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let settings = r#"{"rows":[{"server":"web/a"},{"server":"web/b"}]}"#;
    state.put("settings", settings);
    let _replica = start(&collector, &state, &[]);
    let set = ["set", "drain", "web/a", "--yes", "--reason", "tried"];
    let output = command(&state, &collector, &set);
    assert_eq!(output.code, Some(0), "{output:?}");
    let change = crate::operators::id(&output.stdout);
    let expect = |name: &str, transitions: usize| {
        let command = collector.await_named(name, 1, PATIENCE).pop();
        let command = command.expect("it was awaited");
        let all = collector.await_named("state.transition", transitions, PATIENCE);
        let last = all.last().expect("it was awaited");
        assert!(last.is_linked_to(&command), "{last:?} {command:?}");
        assert_eq!(last.attribute("path"), "server-overrides/web/a");
    };
    expect("tidegate set", 1);
    let clear = command(&state, &collector, &["clear", "web/a", "--yes"]);
    assert_eq!(clear.code, Some(0), "{clear:?}");
    expect("tidegate clear", 2);
    let again = crate::operators::id(&clear.stdout);
    assert_ne!(change, again);
    let undo = command(&state, &collector, &["undo", &again, "--yes"]);
    assert_eq!(undo.code, Some(0), "{undo:?}");
    expect("tidegate undo", 3);
}

#[test]
fn a_command_continues_its_callers_trace_and_log_lines_carry_the_ids() {
    for (format, form) in [("text", "trace_id=\"{}\""), ("json", "\"trace_id\":\"{}\"")] {
        let collector = Collector::start();
        let state = StateFolder::new();
        state.put("canary-state", "ready");
        // Ids do not depend on what is logged.
        let level = "warn,tidegate::beliefs=info";
        let arguments = ["--log-format", format, "--log-level", level];
        let mut replica = start(&collector, &state, &arguments);
        let mut environment = collector.environment();
        environment.push(("TRACEPARENT".to_owned(), CALLER.to_owned()));
        let kv = state.kv();
        let drain = ["canary", "--drain", "--env", "gprd", "--kv", &kv];
        let output = tidegate(&drain, &environment);
        assert_eq!(output.code, Some(0), "{output:?}");
        let command = &collector.await_named("tidegate canary", 1, PATIENCE)[0].span;
        assert_eq!(hex(&command.trace_id), CALLER[3..35]);
        assert_eq!(hex(&command.parent_span_id), CALLER[36..52]);
        let transition = &collector.await_named("state.transition", 1, PATIENCE)[0].span;
        let id = form.replace("{}", &hex(&transition.trace_id));
        let log = replica.process().log_text();
        let line = log
            .lines()
            .find(|line| line.contains("changed") && line.contains("drain"));
        let line = line.unwrap_or_else(|| panic!("no change in {log}"));
        assert!(line.contains(&id), "no {id} in {line}");
        assert_eq!(replica.stop(), Some(0));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
