//! Several writers at once.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::harness::between::{Between, Treat};
use crate::harness::consul::Consul;
use crate::harness::tidegate::{consul_environment, tidegate};

/// Runs `first`, and `meanwhile` between its look and its write. Gives how the first one ended.
fn overtaken(place: &Place, first: &[&str], meanwhile: &'static [&'static str]) -> Output {
    let Place::Consul(consul) = place else {
        unreachable!("these tests are about Consul")
    };
    let environment = consul_environment(consul);
    let between = Between::new(consul.http(), move |number| {
        if number == 1 {
            let arguments = [meanwhile, &["--env", "gprd"]].concat();
            let output = tidegate(&arguments, &environment);
            assert_eq!(output.code, Some(0), "{output:?}");
        }
        Treat::Pass
    });
    let arguments = [first, &["--env", "gprd"]].concat();
    tidegate(&arguments, &between.environment())
}

#[test]
fn of_two_changes_of_one_key_one_wins_and_the_other_ends_with_5() {
    let place = Place::consul();
    set_up(&place);
    let generation = place.generation();
    let drain = ["set", "drain", "web/a", "--by", "loser", "--yes"];
    let output = overtaken(&place, &drain, &["set", "40%", "web/a", "--yes"]);
    let text =
        "somebody else wrote meanwhile, and changed server-overrides/web/a; nothing was written";
    expect(&output, 5, &[text]);
    assert_eq!(place.generation(), generation + 1);
    assert_eq!(place.json("server-overrides/web/a")["weight"], 40);
    let records = history(&place, &[]);
    assert!(records.iter().all(|record| record["by"] != "loser"));
}

#[test]
fn a_change_of_other_keys_is_no_conflict() {
    let place = Place::consul();
    set_up(&place);
    let generation = place.generation();
    let drain = ["set", "drain", "web/a", "--yes"];
    let output = overtaken(&place, &drain, &["canary", "--drain"]);
    let texts = [
        "note: somebody else wrote meanwhile: looking again",
        "written to gprd",
    ];
    expect(&output, 0, &texts);
    assert_eq!(place.generation(), generation + 2);
    assert_eq!(place.json("server-overrides/web/a")["state"], "drain");
    assert_eq!(place.json("canary-state")["state"], "drain");
    assert_eq!(history(&place, &["server-overrides/web/a"]).len(), 1);
}

#[test]
fn what_somebody_elses_change_leaves_too_little_for_is_refused() {
    let place = Place::consul();
    set_up(&place);
    place.done(&["set", "drain", "web/a"]);
    let drain = ["set", "drain", "web/b", "--yes"];
    let output = overtaken(&place, &drain, &["set", "drain", "web/c", "--yes"]);
    expect(&output, 3, &["floor: web: ", "nothing was written"]);
    assert_eq!(place.get("server-overrides/web/b"), None);
    // And so is what counts before it since.
    let drain = ["canary", "--drain"];
    let output = overtaken(&place, &drain, &["set", "ready", "web/cny", "--yes"]);
    expect(
        &output,
        3,
        &["server-overrides/web/cny", "--lift-overrides"],
    );
    assert_eq!(place.json("canary-state")["state"], "ready");
}

const WRITERS: usize = 4;
const CHANGES_EACH: usize = 10;

/// Every third change is of a server that all share, the others of the writer's own.
#[test]
fn of_forty_changes_by_four_writers_none_is_lost_and_none_is_half_there() {
    let place = Place::consul();
    set_up(&place);
    let before = contents(&place);
    let ended: Mutex<BTreeMap<String, Option<i32>>> = Mutex::default();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (place, ended) = (&place, &ended);
            scope.spawn(move || {
                for round in 0..CHANGES_EACH {
                    let by = format!("writer-{writer}-{round}");
                    let server = match round % 3 {
                        0 => "web/shared".to_owned(),
                        _ => format!("web/own-{writer}"),
                    };
                    let weight = format!("{}%", 1 + writer * CHANGES_EACH + round);
                    let output = place.run(&["set", &weight, &server, "--by", &by]);
                    let mut ended = ended.lock().expect("no thread panics with it");
                    ended.insert(by, output.code);
                    // What is touched by nobody else does not fail.
                    let codes: &[i32] = if round % 3 == 0 { &[0, 5] } else { &[0] };
                    let code = output.code.unwrap_or(-1);
                    assert!(codes.contains(&code), "{output:?}");
                }
            });
        }
    });
    let ended = ended.into_inner().expect("no thread has panicked");
    let conflicts = ended.values().filter(|code| **code == Some(5)).count();
    eprintln!("{} changes, {conflicts} conflicts", ended.len());
    let records = records_as_written(&place);
    for (by, code) in &ended {
        let count = records
            .iter()
            .filter(|record| record["by"] == *by.as_str())
            .count();
        assert_eq!(
            count,
            usize::from(*code == Some(0)),
            "{by} ended with {code:?}"
        );
    }
    assert_eq!(replayed(before, &records), contents(&place));
}

/// The directives, by path.
fn contents(place: &Place) -> BTreeMap<String, String> {
    let Place::Consul(consul) = place else {
        unreachable!("these tests are about Consul")
    };
    let prefix = "frontend/gprd/";
    let keys = consul.kv_keys(prefix).into_iter();
    let paths = keys.map(|key| key[prefix.len()..].to_owned());
    let paths = paths.filter(|path| path != "_meta");
    let with_value = |path: String| {
        let value = place.get(&path).expect("it was listed");
        (path, value)
    };
    paths.map(with_value).collect()
}

/// The history in the order in which Consul took it, since the environment was set up.
fn records_as_written(place: &Place) -> Vec<Value> {
    let Place::Consul(consul) = place else {
        unreachable!("these tests are about Consul")
    };
    let mut pairs = pairs(consul);
    pairs.sort_by_key(|pair| pair["CreateIndex"].as_u64());
    let record = |pair: &Value| {
        assert_eq!(pair["CreateIndex"], pair["ModifyIndex"], "a record stays");
        let value = STANDARD.decode(pair["Value"].as_str().expect("it has a value"));
        serde_json::from_slice(&value.expect("it is base64")).expect("it is JSON")
    };
    pairs.iter().map(record).collect()
}

fn pairs(consul: &Consul) -> Vec<Value> {
    let path = "/v1/kv/frontend-history/gprd/?recurse&consistent";
    let answer = consul.call("GET", path, b"");
    serde_json::from_slice(&answer.body).expect("it is a list")
}

/// What the history makes of `state`; each change was made of what stood there.
fn replayed(mut state: BTreeMap<String, String>, records: &[Value]) -> BTreeMap<String, String> {
    for record in records {
        for changed in record["changed"].as_array().expect("a list") {
            let path = changed["path"].as_str().expect("a path");
            let stood = state.remove(path);
            assert_eq!(stood.as_deref(), changed["before"].as_str(), "{record}");
            if let Some(after) = changed["after"].as_str() {
                state.insert(path.to_owned(), after.to_owned());
            }
        }
    }
    state
}
