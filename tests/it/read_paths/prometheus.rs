//! The same decisions over a real Prometheus, in both namings.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use super::{Fleet, expect};
use crate::harness::prometheus::Prometheus;
use crate::harness::wait::{PATIENCE, check, eventually};

const OLDER: &str = "--prometheus-matchers=naming=\"older\"";

#[test]
fn prometheus_tells_what_its_exporters_said_and_how_old_that_is() {
    let fleet = Fleet::start();
    let prometheus = fleet.prometheus();
    let source = [format!("--prometheus={}", prometheus.url())];
    // Full names are joined with those of the polls: 6 rows, not 10.
    let blocked = fleet.run(&["precheck", "--stage", "cny"], &source);
    let texts = [
        "blocks  canary_web/gke-cny-web is DRAIN, on lb-1, lb-2; canary-state is drain by alice",
        "blocked: stage cny, 6 of 6 rows known",
    ];
    expect(&blocked, 4, &texts);
    expect(
        &fleet.run(&["gate"], &source),
        4,
        &["canary_web is down on lb-1, lb-2"],
    );
    let main = fleet.run(&["precheck", "--stage", "main"], &source);
    expect(&main, 0, &["passes: stage main, 2 of 2 rows known"]);
    let strict = ["precheck", "--stage", "main", "--max-age", "1ms"];
    expect(
        &fleet.run(&strict, &source),
        4,
        &["was UP 0 s ago, which is too old to know"],
    );
    let elsewhere = [
        source[0].clone(),
        "--prometheus-matchers=env=\"gstg\"".to_owned(),
    ];
    let nothing = fleet.run(&["precheck", "--stage", "main"], &elsewhere);
    expect(&nothing, 4, &["0 of 0 rows are known"]);
    let wrong = [source[0].clone(), "--node-label=host".to_owned()];
    let texts = ["series have no label host that names a node: set observe.node_label"];
    expect(&fleet.run(&["gate"], &wrong), 4, &texts);

    fleet.state.put("canary-state", "ready");
    fleet.await_canary("no check");
    await_code(&fleet, &["precheck", "--stage", "cny"], &source, 0);
    await_code(&fleet, &["gate"], &source, 0);
}

#[test]
fn of_the_older_naming_only_what_it_says_is_taken() {
    let fleet = Fleet::start();
    let prometheus = fleet.prometheus();
    let source = [
        format!("--prometheus={}", prometheus.url()),
        OLDER.to_owned(),
    ];
    // The older exporter counts a drained server as up.
    let blocked = fleet.run(&["precheck", "--stage", "cny"], &source);
    let texts = ["canary_web/gke-cny-web may be draining: there is no haproxy_server_status of it"];
    expect(&blocked, 4, &texts);
    expect(
        &fleet.run(&["gate"], &source),
        4,
        &["canary_web is down on lb-1, lb-2"],
    );
    fleet.state.put("canary-state", "maint");
    fleet.await_canary("MAINT");
    let out = ["is down or in maintenance: there is no haproxy_server_status of it"];
    eventually("the rules follow", PATIENCE, || {
        let found = fleet.run(&["precheck", "--stage", "cny"], &source);
        check(found.stdout.contains(out[0]), || found.stdout.clone())
    });
    fleet.state.put("canary-state", "ready");
    fleet.await_canary("no check");
    await_code(&fleet, &["gate"], &source, 0);
}

#[test]
fn a_prometheus_that_hangs_is_named() {
    let fleet = Fleet::start();
    let mut prometheus = Prometheus::start(&[]);
    prometheus.process().pause();
    let source = [format!("--prometheus={}", prometheus.url())];
    let hung = fleet.run(&["gate"], &source);
    prometheus.process().resume();
    expect(&hung, 4, &[": no whole answer within 5s"]);
}

#[test]
fn what_is_no_prometheus_is_named() {
    let fleet = Fleet::start();
    let error = r#"{"status":"error","errorType":"bad_data","error":"query\u001b too big"}"#;
    for (status, body, why) in [
        ("500 Oh", "", "it answers 500"),
        ("302 Found", "", "it answers 302"),
        ("200 OK", "hello", "this is no answer of Prometheus"),
        ("422 No", error, "query\\u{1b} too big"),
    ] {
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
        let source = [format!("--prometheus=http://{}", server(answer))];
        expect(&fleet.run(&["gate"], &source), 4, &[why]);
    }
}

/// A server that answers every connection so.
fn server(answer: String) -> SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            // What it is asked does not matter, nor whether it still listens.
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

fn await_code(fleet: &Fleet, arguments: &[&str], more: &[String], code: i32) {
    eventually(&format!("{arguments:?} ends with {code}"), PATIENCE, || {
        let found = fleet.run(arguments, more);
        check(found.code == Some(code), || found.stdout.clone())
    });
}
