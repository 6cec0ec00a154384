//! Changes: judged, recorded, undone.

use std::process::Command;

use super::killed::{SET, put_many};
use super::*;
use crate::harness::folder::Folder;
use crate::harness::process::run;

fn on_both(story: impl Fn(&Place)) {
    for place in [Place::folder(), Place::consul()] {
        set_up(&place);
        story(&place);
    }
}

#[test]
fn a_change_is_recorded_with_who_why_and_what_and_can_be_undone() {
    on_both(|place| {
        let drain = ["canary", "--drain", "--reason", "bad deploy", "--by", "ana"];
        let shown = place.done(&drain);
        let change = id(&shown);
        assert!(shown.contains("web/cny"), "{shown}");
        let records = history(place, &["canary-state"]);
        let record = &records[0];
        for (field, value) in [
            ("change", change.as_str()),
            ("by", "ana"),
            ("reason", "bad deploy"),
        ] {
            assert_eq!(record[field], value, "{record}");
        }
        let command = record["command"].as_str().expect("a text");
        assert!(
            command.starts_with("tidegate canary --drain --reason"),
            "{command}"
        );
        assert_eq!(place.json("canary-state")["state"], "drain");
        // Twice changes nothing, and leaves no record.
        assert!(place.done(&drain).contains("it is already so"));
        assert_eq!(history(place, &[]).len(), records.len());

        let shown = place.done(&["undo", &change]);
        assert_eq!(place.json("canary-state")["state"], "ready");
        // An undo is a change as well: undoing it drains again.
        place.done(&["undo", &id(&shown)]);
        assert_eq!(place.json("canary-state")["state"], "drain");
        let text = place.done(&["history"]);
        assert!(
            text.contains("why: bad deploy") && text.contains("undo"),
            "{text}"
        );
    });
}

#[test]
fn what_somebody_else_has_changed_since_is_not_undone() {
    on_both(|place| {
        let change = id(&place.done(&["canary", "--drain"]));
        place.put("canary-state", "maint");
        let output = place.run(&["undo", &change]);
        expect(&output, 5, &["somebody has changed canary-state since"]);
        assert_eq!(place.get("canary-state").as_deref(), Some("maint"));
        let output = place.run(&["undo", "01J00000000000000000000000"]);
        expect(&output, 2, &["no change", "tidegate history"]);
    });
}

#[test]
fn the_rails_refuse_by_name_and_say_what_overrides_them() {
    on_both(|place| {
        place.done(&["set", "drain", "web/a"]);
        place.done(&["set", "drain", "web/b"]);
        let before = place.generation();
        let last = ["set", "drain", "web/c"];
        let output = place.run(&last);
        expect(
            &output,
            3,
            &["floor: web: ", "[web/c]", "--below-floor overrides it"],
        );
        assert_eq!(place.generation(), before, "nothing was written");
        let overridden = [
            &last[..],
            &["--below-floor", "--reason", "r", "--canary-alone"],
        ]
        .concat();
        let output = place.run(&overridden);
        expect(&output, 0, &["overridden (floor): ", "CAN SERVE NOW"]);
        // Undraining is always allowed.
        place.done(&["clear", "web/a", "web/b", "web/c"]);
        let output = place.run(&["set", "maint", "web/a"]);
        expect(&output, 3, &["maint-from-ready: ", "--now"]);
        place.done(&["set", "maint", "web/a", "--now"]);
    });
}

#[test]
fn selectors_choose_rows_and_an_empty_match_writes_nothing() {
    on_both(|place| {
        let before = place.generation();
        for (selector, text) in [
            ("backend=api", "no server matches"),
            ("colour=red", "colour"),
            ("server=(", "server"),
        ] {
            expect(&place.run(&["set", "drain", selector]), 2, &[text]);
        }
        assert_eq!(place.generation(), before);
        let shown = place.done(&["set", "drain", "server=cn.*"]);
        let selected = "SELECTED  NODES  THEIR ZONES  WRITTEN FOR\n\
                        web/cny   2      z-b, z-c     all nodes\n\
                        selected: 1 server on 2 nodes; backends: web 1; groups: canary 1; \
                        zones of the nodes: z-b 1, z-c 1\n";
        assert!(shown.starts_with(selected), "{shown}");
        assert_eq!(place.json("server-overrides/web/cny")["state"], "drain");
        place.done(&["clear", "group=canary"]);
        assert_eq!(place.get("server-overrides/web/cny"), None);
        // An override outlives its server in the settings, and is found all the same.
        place.done(&["set", "drain", "old/server-1", "old/server-2"]);
        place.done(&["set", "drain", "old/server-1", "-z", "b"]);
        let shown = place.done(&["clear", "backend=old server=.*-1"]);
        assert!(shown.contains("nobody knows any more"), "{shown}");
        assert_eq!(place.get("server-overrides/old/server-1"), None);
        assert_eq!(
            place.json("server-overrides/old/server-2")["state"],
            "drain"
        );
        place.done(&["clear", "old/server", "zone=z-b"]);
        assert_eq!(place.get("zones/z-b/server-overrides/old/server-1"), None);
        place.done(&["clear", "old"]);
        assert_eq!(place.get("server-overrides/old/server-2"), None);
        expect(&place.run(&["clear", "old"]), 2, &["no server matches"]);
        // The last part of a zone's name is enough.
        place.done(&["set", "drain", "web/a", "-z", "b"]);
        assert_eq!(
            place.json("zones/z-b/server-overrides/web/a")["state"],
            "drain"
        );
    });
}

#[test]
fn more_than_one_transaction_holds_is_written_in_parts_and_undone_as_one() {
    on_both(|place| {
        put_many(place);
        let shown = place.done(&SET);
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines[0].starts_with("SELECTED  "), "{shown}");
        assert_eq!(lines[41], "... and 110 more", "{shown}");
        assert!(
            lines[42].starts_with("selected: 150 servers on 1 node; "),
            "{shown}"
        );
        let change = id(&shown);
        let records = history(place, &[&change]);
        assert_eq!(
            records.len(),
            3,
            "62 keys at once, beside the sentinel and the record"
        );
        let changed = |record: &Value| record["changed"].as_array().map_or(0, Vec::len);
        assert_eq!(records.iter().map(changed).sum::<usize>(), 150);
        assert_eq!(place.json("server-overrides/many/s149")["weight"], 40);
        place.done(&["undo", &change, "--yes", "--reason", "r"]);
        assert_eq!(place.get("server-overrides/many/s000"), None);
        assert_eq!(place.get("server-overrides/many/s149"), None);
    });
}

#[test]
fn a_stronger_directive_is_met_before_a_drain_is_believed() {
    on_both(|place| {
        place.done(&[
            "set", "ready", "web/cny", "--reason", "a test", "--by", "bob",
        ]);
        let output = place.run(&["canary", "--drain"]);
        expect(
            &output,
            3,
            &[
                "server-overrides/web/cny",
                "by bob, ",
                " s ago",
                "--lift-overrides",
            ],
        );
        let kept = place.done(&["canary", "--drain", "--keep-overrides"]);
        assert!(
            kept.contains("note: server-overrides/web/cny counts before it"),
            "{kept}"
        );
        place.done(&["canary", "--ready"]);
        place.done(&["canary", "--drain", "--lift-overrides"]);
        assert_eq!(place.get("server-overrides/web/cny"), None);
        assert_eq!(place.json("canary-state")["state"], "drain");
    });
}

#[test]
fn a_deploy_locks_what_takes_traffic_from_the_canary() {
    on_both(|place| {
        let url = "https://deploys.example.org/7";
        place.done(&["deploy", "start", "cny", "--url", url, "--ttl", "1h"]);
        for state in ["--drain", "--maint", "--disable"] {
            let output = place.run(&["canary", state]);
            expect(&output, 3, &["deploy-lock: ", "--ignore-deployment-check"]);
        }
        // Never for ready.
        assert!(place.done(&["canary", "--ready"]).contains("already so"));
        place.done(&["canary", "--drain", "--ignore-deployment-check"]);
        place.done(&["canary", "--ready"]);
        place.done(&["deploy", "finish", "cny"]);
        assert_eq!(place.json("deploys/cny")["active"], false);
        place.done(&["canary", "--drain"]);
    });
}

#[test]
fn a_directive_may_end_by_itself() {
    on_both(|place| {
        place.done(&[
            "set",
            "drain",
            "web/a",
            "--ttl",
            "2h",
            "--on-expiry",
            "lift",
        ]);
        let directive = place.json("server-overrides/web/a");
        assert_eq!(directive["on_expiry"], "lift");
        assert!(directive["until"].is_string(), "{directive}");
    });
}

#[test]
fn waiting_ends_when_the_nodes_that_poll_were_told() {
    let place = Place::folder();
    set_up(&place);
    let tidegate: Tidegate = place.serve();
    let replica = format!("http://{}", tidegate.http());
    let wait = |state: &str, limit: &str| {
        let wait = format!("--wait={limit}");
        place.run(&["canary", state, "--replica", &replica, &wait])
    };
    let output = wait("--drain", "1s");
    expect(
        &output,
        7,
        &["it is written", "no node polls what it changes"],
    );
    let line = "web/cny canary node=lb-1 zone=z-b";
    tidegate.await_answer(line, "up drain", PATIENCE);
    // It polled, and nobody polls for it again in time.
    let output = wait("--ready", "1s");
    expect(&output, 7, &["applied by 0 of 1 nodes, not yet: lb-1"]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait("--drain", "30s"));
        tidegate.await_answer(line, "up drain", PATIENCE);
        let output = waiting.join().expect("it ends");
        expect(&output, 0, &["applied by 1 of 1 nodes"]);
    });
}

#[test]
fn the_commands_of_old_go_on_working_by_their_names() {
    let place = Place::folder();
    set_up(&place);
    let links = Folder::new("links");
    let call = |name: &str, arguments: &[&str]| {
        let link = links.join(name);
        if !link.exists() {
            let program = env!("CARGO_BIN_EXE_tidegate");
            std::os::unix::fs::symlink(program, &link).expect("the folder takes links");
        }
        let mut command = Command::new(link);
        command.args(arguments).args(["--kv", &place.kv()]);
        run(name, &command, PATIENCE)
    };
    let output = call(
        "set-server-state",
        &["gprd", "drain", "cny", "-z", "b", "--yes"],
    );
    expect(&output, 0, &["selected: 1 server", "written to gprd"]);
    let key = "zones/z-b/server-overrides/web/cny";
    assert_eq!(place.json(key)["state"], "drain");
    let command = &history(&place, &[key])[0]["command"];
    assert!(
        command
            .as_str()
            .is_some_and(|c| c.starts_with("set-server-state gprd drain"))
    );
    // Nothing polls, and nobody is asked what HAProxy has.
    let output = call("get-server-state", &["gprd", "cny"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    expect(&call("set-server-state", &[]), 2, &["STATE"]);
}

#[test]
fn a_change_whose_first_part_is_gone_is_not_half_undone() {
    let place = Place::consul();
    set_up(&place);
    let names: Vec<_> = (0..70).map(|n| format!("web/cny-{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let change = id(&place.done(&[&["set", "40%"], &names[..]].concat()));
    let Place::Consul(consul) = &place else {
        panic!("it is a Consul");
    };
    consul.kv_delete(&format!("frontend-history/gprd/{change}"));
    let text = "part 1 of this change is not in the history any more";
    expect(
        &place.run(&["undo", &change]),
        3,
        &[text, "nothing was written"],
    );
    assert!(place.get("server-overrides/web/cny-69").is_some());
}

#[test]
fn a_lock_of_a_stage_that_nobody_knows_is_named() {
    let place = Place::folder();
    set_up(&place);
    let texts = ["note: this locks nothing", "know cny, and no canary"];
    expect(&place.run(&["deploy", "start", "canary"]), 0, &texts);
    let shown = place.done(&["deploy", "start", "cny"]);
    assert!(!shown.contains("locks nothing"), "{shown}");
}

#[test]
fn every_command_takes_the_flag_that_a_deploy_lock_names() {
    let place = Place::folder();
    set_up(&place);
    place.done(&["canary", "--drain"]);
    place.done(&["deploy", "start", "cny"]);
    let ready = id(&place.done(&["canary", "--ready"]));
    for command in [&["set", "drain", "web/cny"][..], &["undo", &ready]] {
        expect(
            &place.run(command),
            3,
            &["--ignore-deployment-check overrides it"],
        );
        let flag = ["--ignore-deployment-check"];
        place.done(&[command, &flag].concat());
        // What gives traffic back is never held up.
        place.done(&["clear", "web/cny"]);
    }
}

#[test]
fn a_command_that_is_repeated_goes_on_waiting() {
    let place = Place::folder();
    set_up(&place);
    place.done(&["canary", "--drain"]);
    let again = [
        "canary",
        "--drain",
        "--wait=0s",
        "--replica",
        "http://127.0.0.1:1",
    ];
    let texts = ["already so", "no replica shows who was told"];
    expect(&place.run(&again), 7, &texts);
}

#[test]
fn nodes_that_nobody_sees_are_not_said_to_be_missing_in_the_settings() {
    let place = Place::folder();
    set_up(&place);
    let output = place.run(&["get", "zone=b", "--replica", "http://127.0.0.1:1"]);
    let shown = expect(&output, 2, &["zones: none is known, since no node is"]);
    assert!(!shown.contains("settings.nodes is empty"), "{shown}");
}
