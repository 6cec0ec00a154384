//! TLS at the HTTP port: for views, between replicas, and for the commands.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::process::Signal;

use crate::harness::certificates::Certificates;
use crate::harness::consul::loopback;
use crate::harness::folder::Folder;
use crate::harness::http;
use crate::harness::netns::Net;
use crate::harness::ports::Port;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Place, Tidegate, status_of, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

const PEERS_TOKEN: &str = "a-secret-of-two-replicas";

fn borrowed(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// A service with certificates on this machine.
fn encrypted() -> (StateFolder, Certificates, Tidegate) {
    let (state, certificates) = (StateFolder::new(), Certificates::make());
    state.put("canary-state", "drain");
    let arguments = [
        vec!["--kv".to_owned(), state.kv()],
        certificates.arguments(),
    ]
    .concat();
    let tidegate = Tidegate::start(&borrowed(&arguments));
    (state, certificates, tidegate)
}

#[test]
fn another_machine_is_shown_views_over_tls_and_probes_either_way() {
    let net = Net::new();
    let address = Ipv4Addr::new(10, 77, 9, 1);
    let space = net.add("replica", &[address]);
    let (state, certificates) = (
        StateFolder::new(),
        Certificates::for_address(address.into()),
    );
    state.put("canary-state", "drain");
    let place = Place {
        launcher: space.launcher(),
        slot: "a".to_owned(),
        agent: SocketAddr::from((address, 8790)),
        http: SocketAddr::from((address, 8791)),
        membership: vec!["--standalone".to_owned()],
    };
    let arguments = [
        vec!["--kv".to_owned(), state.kv()],
        certificates.arguments(),
    ]
    .concat();
    let mut service = Tidegate::prepare(place, &borrowed(&arguments), &[]);
    service.relaunch();
    service.await_ready();
    for (path, plain) in [
        ("/livez", 200),
        ("/readyz", 200),
        ("/metrics", 403),
        ("/", 403),
        ("/api/v1/snapshot", 403),
        ("/api/v1/fleet", 403),
        ("/no/such/page", 403),
        // Without a token of the peers a stranger is told nothing, encrypted or not.
        ("/peer/v1/word", 403),
    ] {
        let answer = http::get(service.http(), path).expect("it answers");
        assert_eq!(answer.status, plain, "{path}: {}", answer.text());
        let answer = certificates
            .get(service.http(), path, &[])
            .expect("it speaks TLS");
        let expected = match path {
            "/no/such/page" => 404,
            "/peer/v1/word" => 403,
            _ => 200,
        };
        assert_eq!(
            answer.status,
            expected,
            "{path} over TLS: {}",
            answer.text()
        );
    }
    let refused = http::get(service.http(), "/metrics")
        .expect("it answers")
        .text();
    assert!(refused.contains("over TLS only"), "{refused}");
}

#[test]
fn on_its_own_machine_it_is_shown_plainly_and_another_authority_knows_it_not() {
    let (_state, certificates, service) = encrypted();
    assert_eq!(service.get("/metrics").status, 200);
    let answer = certificates.get(service.http(), "/metrics", &[]);
    assert_eq!(answer.expect("it speaks TLS").status, 200);
    let other = Certificates::make();
    let error = other.get(service.http(), "/metrics", &[]).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn a_certificate_is_replaced_at_sighup_and_a_broken_one_keeps_the_old() {
    let (_state, certificates, mut service) = encrypted();
    let next = Certificates::make();
    certificates.replace_by(&next);
    service.process().signal(Signal::HUP);
    eventually("the new certificate is shown", PATIENCE, || {
        let answer = next.get(service.http(), "/livez", &[]);
        answer.map(|_| ()).map_err(|error| error.to_string())
    });
    std::fs::write(certificates.server_key(), "no key").expect("the folder takes files");
    service.process().signal(Signal::HUP);
    service
        .process()
        .await_log("old ones stay in use: http.key_file", PATIENCE);
    let answer = next.get(service.http(), "/livez", &[]);
    assert_eq!(answer.expect("the one before").status, 200);
}

#[test]
fn certificates_that_cannot_be_used_are_named_at_the_start() {
    let (state, certificates) = (StateFolder::new(), Certificates::make());
    let other = Certificates::make();
    let folder = Folder::new("pem");
    let text = |path: std::path::PathBuf| path.display().to_string();
    let (certificate, key) = (text(certificates.server()), text(certificates.server_key()));
    let (foreign, none) = (
        text(other.server_key()),
        text(folder.write("none.pem", "no PEM")),
    );
    let kv = state.kv();
    for (more, said) in [
        (
            vec!["--http-certificate-file", &certificate],
            "http.key_file: required",
        ),
        (
            vec!["--http-key-file", &key],
            "http.certificate_file: required",
        ),
        (
            vec!["--http-certificate-file", &none, "--http-key-file", &key],
            "holds no PEM certificate",
        ),
        (
            vec![
                "--http-certificate-file",
                &certificate,
                "--http-key-file",
                &none,
            ],
            "holds no PEM private key",
        ),
        (
            vec![
                "--http-certificate-file",
                &certificate,
                "--http-key-file",
                &foreign,
            ],
            "http.key_file",
        ),
        (
            vec!["--http-token-file", "/nowhere"],
            "http.token_file: /nowhere",
        ),
    ] {
        let serve = [
            "serve",
            "--env",
            "gprd",
            "--kv",
            &kv,
            "--agent-listen",
            "127.0.0.1:0",
            "--http-listen",
            "127.0.0.1:0",
        ];
        let output = tidegate(&[&serve[..], &more].concat(), &[]);
        assert!(matches!(output.code, Some(1 | 2)), "{more:?}: {output:?}");
        assert!(output.stderr.contains(said), "{more:?}: {output:?}");
    }
}

/// Two replicas that ask each other at `https://`; the second knows its peers by this authority.
struct Pair {
    replicas: [Tidegate; 2],
    _ports: Vec<Port>,
    _folder: Folder,
}

impl Pair {
    fn launch(state: &StateFolder, certificates: &Certificates, known_by: &Certificates) -> Self {
        let address = loopback(1);
        let ports: Vec<_> = (0..4).map(|_| Port::reserve(address)).collect();
        let at = |number: usize| SocketAddr::new(address, ports[number].number());
        let folder = Folder::new("pair");
        let token = folder.write("token", PEERS_TOKEN).display().to_string();
        let mut membership = vec!["--peers-token-file".to_owned(), token];
        for (slot, number) in [("a", 0), ("b", 1)] {
            membership.extend([
                "--peer".to_owned(),
                format!("{slot}=https://{}", at(number)),
            ]);
        }
        let replicas = [("a", 0, certificates), ("b", 1, known_by)].map(|(slot, number, ca)| {
            let place = Place {
                launcher: Vec::new(),
                slot: slot.to_owned(),
                agent: at(number + 2),
                http: at(number),
                membership: membership.clone(),
            };
            let ca = vec![
                "--http-ca-file".to_owned(),
                ca.authority().display().to_string(),
            ];
            let own = certificates.arguments()[..4].to_vec();
            let arguments = [vec!["--kv".to_owned(), state.kv()], own, ca].concat();
            let mut replica = Tidegate::prepare(place, &borrowed(&arguments), &[]);
            replica.relaunch();
            replica
        });
        Self {
            replicas,
            _ports: ports,
            _folder: folder,
        }
    }
}

#[test]
fn replicas_ask_each_other_over_tls_and_believe_nobody_whom_the_authority_does_not_know() {
    let (state, certificates) = (StateFolder::new(), Certificates::make());
    state.put("canary-state", "drain");
    let mut pair = Pair::launch(&state, &certificates, &certificates);
    for replica in &mut pair.replicas {
        replica.await_ready();
    }
    let [a, b] = &pair.replicas;
    a.await_counted("b", "current");
    b.await_counted("a", "current");
    eventually("one view shows the fleet of both", PATIENCE, || {
        b.ask("web/cny canary node=lb-1\n");
        let fleet = a.get("/api/v1/fleet").text();
        check(
            fleet.contains("lb-1") && fleet.contains(r#""complete":true"#),
            || fleet,
        )
    });
    drop(pair);

    let stranger = Certificates::make();
    let mut pair = Pair::launch(&state, &certificates, &stranger);
    // The second never has the word of the first, unless that it refused before it listened.
    pair.replicas[0].await_ready();
    let [_, b] = &pair.replicas;
    b.await_counted("a", "out-of-sight");
    let replicas = b.get("/api/v1/replicas").text();
    assert!(replicas.contains("certificate"), "{replicas}");
}

#[test]
fn commands_ask_replicas_over_tls() {
    let (state, certificates, service) = encrypted();
    let (kv, ca) = (state.kv(), certificates.authority().display().to_string());
    let other = Certificates::make().authority();
    let replica = format!("https://{}", service.http());
    let status = |more: &[&str]| status_of(&kv, &replica, more);
    service.ask("web/cny canary node=lb-1\n");
    eventually("the row is shown", PATIENCE, || {
        let output = status(&["--http-ca-file", &ca]);
        check(output.stdout.contains("lb-1"), || format!("{output:?}"))
    });
    let output = status(&[]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(
        output.stderr.contains("http.ca_file: required"),
        "{output:?}"
    );
    let output = status(&["--http-ca-file", &other.display().to_string()]);
    assert!(!output.stdout.contains("lb-1"), "{output:?}");
}

/// A client that begins a handshake and says no more keeps nobody out.
#[test]
fn handshakes_that_never_end_keep_nobody_out() {
    use std::io::Write as _;
    let (_state, certificates, service) = encrypted();
    let address: IpAddr = loopback(2);
    let mut begun: Vec<_> = (0..300)
        .map(|_| crate::harness::dial::connect_from(address, service.http()).expect("it listens"))
        .collect();
    for stream in &mut begun {
        // The head of a record, and no body.
        stream.write_all(&[22, 3, 1, 2, 0]).ok();
    }
    for _ in 0..5 {
        assert_eq!(service.get("/readyz").status, 200);
        let answer = certificates.get(service.http(), "/readyz", &[]);
        assert_eq!(answer.expect("it speaks TLS").status, 200);
    }
}
