//! Secrets: planted wherever there may be one, used, and looked for in everything that comes out.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use tidegate::domain::token::Token;
use tidegate::http::Access;
use tidegate::kv::consul::environment::{ConsulSettings, LoginSettings};

use crate::harness::certificates::Certificates;
use crate::harness::collector::Collector;
use crate::harness::consul::{Consul, ROOT_TOKEN, loopback};
use crate::harness::folder::Folder;
use crate::harness::http;
use crate::harness::ports::Port;
use crate::harness::process::Output;
use crate::harness::receiver::{Answer, Receiver};
use crate::harness::state_folder::META;
use crate::harness::tidegate::{Place, Tidegate, consul_environment, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

const PASSWORD: &str = "the-password-of-a-proxy";
const PEERS: &str = "the-secret-of-all-replicas";
const VIEWERS: &str = "the-token-of-the-viewers";
const NEXT: &str = "the-token-of-the-viewers-tomorrow";
const HOOK: &str = "/hooks/the-secret-path-of-a-chat";
const EVENTS: &str = "the-token-of-the-events";
/// What somebody sends who mistakes one password for another.
const MISTAKEN: &str = "a-password-of-somewhere-else";
const UNUSABLE: &str = "one-secret line\nand another-secret line";

/// Everything that came out of a scene, with where it did.
#[derive(Default)]
struct Out(Vec<(String, String)>);

/// Two replicas, their Consul, a collector and receivers, with a secret in every place.
struct Scene {
    replicas: [Tidegate; 2],
    certificates: Certificates,
    collector: Collector,
    receiver: Receiver,
    consul: Consul,
    folder: Folder,
    config: String,
    _ports: Vec<Port>,
}

impl Scene {
    fn start() -> Self {
        let consul = Consul::dev_with_acl();
        consul.kv_put("frontend/gprd/_meta", META);
        consul.kv_put("frontend/gprd/canary-state", "ready");
        let (collector, receiver) = (Collector::start(), Receiver::start(Answer::Status(204)));
        let certificates = Certificates::make();
        let folder = Folder::new("secrets");
        for (name, text) in [("peers", PEERS), ("viewers", VIEWERS), ("events", EVENTS)] {
            folder.write(name, text);
        }
        folder.write("hook", &receiver.url(HOOK));
        let ports: Vec<_> = (0..4).map(|_| Port::reserve(loopback(1))).collect();
        let at = |number: usize| (loopback(1), ports[number].number()).into();
        let config = configuration(&folder, &certificates, &receiver, [at(0), at(1)]);
        let config = folder.write("tidegate.toml", &config).display().to_string();
        let environment = environment(&consul, &collector);
        let replicas = [("a", 0), ("b", 1)].map(|(slot, number)| {
            let place = Place {
                launcher: Vec::new(),
                slot: slot.to_owned(),
                agent: at(number + 2),
                http: at(number),
                membership: vec!["--config".to_owned(), config.clone()],
            };
            let mut replica = Tidegate::prepare(place, &[], &environment);
            replica.remember();
            replica.relaunch();
            replica
        });
        Self {
            replicas,
            certificates,
            collector,
            receiver,
            consul,
            folder,
            config,
            _ports: ports,
        }
    }

    /// What must not be seen anywhere.
    fn secrets(&self) -> Vec<String> {
        let key = fs::read_to_string(self.certificates.server_key()).expect("it was made");
        let key = key
            .lines()
            .nth(1)
            .expect("a PEM file has a body")
            .to_owned();
        let basic = |pair: String| STANDARD.encode(pair);
        let mut secrets = vec![
            key,
            basic(format!("proxy:{PASSWORD}")),
            basic(format!("ana:{VIEWERS}")),
        ];
        let plain = [
            ROOT_TOKEN, PASSWORD, PEERS, VIEWERS, NEXT, HOOK, EVENTS, MISTAKEN,
        ];
        secrets.extend(plain.map(str::to_owned));
        secrets.extend(["one-secret", "another-secret"].map(str::to_owned));
        secrets
    }

    fn command(&self, arguments: &[&str]) -> Output {
        let mut environment = environment(&self.consul, &self.collector);
        let mine = [("TIDEGATE_CONFIG", &self.config)];
        environment.extend(mine.map(|(name, value)| (name.to_owned(), value.clone())));
        tidegate(arguments, &environment)
    }
}

fn environment(consul: &Consul, collector: &Collector) -> Vec<(String, String)> {
    let mut all = consul_environment(consul);
    all.extend(collector.environment());
    all.push(("CONSUL_HTTP_AUTH".to_owned(), format!("proxy:{PASSWORD}")));
    all.push(("TIDEGATE_LOG_LEVEL".to_owned(), "trace".to_owned()));
    all
}

fn configuration(
    folder: &Folder,
    certificates: &Certificates,
    receiver: &Receiver,
    https: [std::net::SocketAddr; 2],
) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    let shown = |path: std::path::PathBuf| path.display().to_string();
    format!(
        "environment = \"gprd\"\npeers_token_file = \"{}\"\n\
         [peers]\na = \"https://{}\"\nb = \"https://{}\"\n\
         [http]\ntoken_file = \"{}\"\ncertificate_file = \"{}\"\nkey_file = \"{}\"\nca_file = \"{}\"\n\
         [announce]\nchat = [\"chat\"]\n[announce.urls]\nchat = \"file:{}\"\nevents = \"{}\"\n\
         [announce.token_files]\nevents = \"{}\"\n",
        file("peers"),
        https[0],
        https[1],
        file("viewers"),
        shown(certificates.server()),
        shown(certificates.server_key()),
        shown(certificates.authority()),
        file("hook"),
        receiver.url("/events"),
        file("events"),
    )
}

impl Out {
    fn add(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.0.push((place.into(), text.into()));
    }

    fn add_output(&mut self, arguments: &[&str], output: &Output) {
        self.add(format!("{arguments:?}, output"), &output.stdout);
        self.add(format!("{arguments:?}, errors"), &output.stderr);
    }

    fn assert_without(&self, secrets: &[String]) {
        for (place, text) in &self.0 {
            for secret in secrets {
                let Some(at) = text.find(secret) else {
                    continue;
                };
                let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
                let line = text[begin..].lines().next().unwrap_or_default();
                panic!("{place} shows {secret:?}: {line}");
            }
        }
    }

    fn text_of(&self, place: &str) -> &str {
        let found = self.0.iter().find(|(name, _)| name.starts_with(place));
        &found
            .unwrap_or_else(|| panic!("nothing came out of {place}"))
            .1
    }
}

#[test]
fn no_secret_is_logged_printed_traced_or_shown() {
    let mut scene = Scene::start();
    for replica in &mut scene.replicas {
        replica.await_ready();
    }
    let mut out = Out::default();
    use_them(&scene, &mut out);
    reload_them(&mut scene, &mut out);
    run_commands(&scene, &mut out);
    for replica in &mut scene.replicas {
        let process = format!("/proc/{}", replica.process().id());
        let words = fs::read(format!("{process}/cmdline")).expect("it runs");
        out.add("its command line", String::from_utf8_lossy(&words));
        assert_eq!(replica.process().stop().code(), Some(0));
    }
    collect(&mut scene, &mut out);
    out.assert_without(&scene.secrets());
}

/// Asks as those who may see, as those who may not, and as peers do.
fn use_them(scene: &Scene, out: &mut Out) {
    let [a, b] = &scene.replicas;
    let bearer = format!("Bearer {VIEWERS}");
    let may = [("Authorization", bearer.as_str())];
    eventually("the replicas know each other", PATIENCE, || {
        let answer = scene.certificates.get(a.http(), "/api/v1/replicas", &may);
        let text = answer.map_err(|error| error.to_string())?.text();
        check(text.contains(r#""counted_as":"current""#), || text.clone())
    });
    a.ask("web/cny canary node=lb-1\n");
    b.ask(format!("web/cny canary {MISTAKEN}\n"));
    let mistaken = format!("Bearer {MISTAKEN}");
    let basic = format!("Basic {}", STANDARD.encode(format!("ana:{VIEWERS}")));
    for path in [
        "/",
        "/readyz",
        "/metrics",
        "/api/v1/snapshot?entries=true",
        "/api/v1/fleet",
        "/api/v1/replicas",
        "/api/v1/groups/canary",
        "/peer/v1/word",
        "/no/such/page",
    ] {
        for (sent, is_let_in) in [(&bearer, true), (&basic, true), (&mistaken, false)] {
            let headers = [("Authorization", sent.as_str())];
            let answer = scene.certificates.get(a.http(), path, &headers);
            let answer = answer.expect("it speaks TLS");
            // The peers have a secret of their own, and probes need none.
            let expected = match path {
                "/peer/v1/word" => true,
                "/readyz" => false,
                _ => !is_let_in,
            };
            assert_eq!(answer.status == 401, expected, "{path}: {}", answer.text());
            out.add(format!("{path} with {}", &sent[..6]), answer.text());
        }
    }
    let word = http::get(a.http(), "/peer/v1/word").expect("it answers");
    assert_eq!(word.status, 401, "the peers' secret is in use");
}

/// Replaces a token, and then everything by what cannot be used.
fn reload_them(scene: &mut Scene, out: &mut Out) {
    scene.folder.write("viewers", NEXT);
    await_after_sighup(scene, &["of the HTTP listener were read anew"]);
    for name in ["viewers", "peers"] {
        scene.folder.write(name, UNUSABLE);
    }
    let refused = [
        "old ones stay in use: http.token_file",
        "old peers' token stays in use",
    ];
    await_after_sighup(scene, &refused);
    let anywhere = [
        "--agent-listen",
        "127.0.0.1:0",
        "--http-listen",
        "127.0.0.1:0",
    ];
    for name in ["--http-token-file", "--peers-token-file", "--http-key-file"] {
        let file = scene.folder.join("viewers").display().to_string();
        let arguments = [&["serve", "--slot", "a", name, &file], &anywhere[..]].concat();
        let output = scene.command(&arguments);
        assert!(matches!(output.code, Some(1 | 2)), "{name}: {output:?}");
        out.add_output(&arguments, &output);
    }
    for (name, text) in [("viewers", VIEWERS), ("peers", PEERS)] {
        scene.folder.write(name, text);
    }
    scene.replicas[0].process().signal(Signal::HUP);
}

fn await_after_sighup(scene: &mut Scene, said: &[&str]) {
    let process = scene.replicas[0].process();
    process.signal(Signal::HUP);
    for text in said {
        process.await_log(text, PATIENCE);
    }
}

/// Runs commands that use every secret, and some that fail.
fn run_commands(scene: &Scene, out: &mut Out) {
    for (arguments, codes) in [
        (&["check-config", &scene.config][..], &[0][..]),
        (&["canary", "--drain", "--reason", "a test"], &[0]),
        (&["status"], &[0, 1]),
        (&["status", "--output", "json"], &[0, 1]),
        (&["history"], &[0]),
        (&["diff"], &[0, 1, 10]),
        (&["accept", "--dry-run"], &[0, 1, 2, 3]),
        (
            &["canary", "--drain", "--replica", "https://127.0.0.1:1"],
            &[0, 1, 3, 6, 7],
        ),
        (
            &["set", "drain", "no/such", "--yes", "--reason", "a test"],
            &[0, 2, 3],
        ),
        (&["status", "--http-token-file", "/nowhere"], &[2]),
    ] {
        let output = scene.command(arguments);
        assert!(
            output.code.is_some_and(|code| codes.contains(&code)),
            "{arguments:?}: {output:?}"
        );
        out.add_output(arguments, &output);
    }
    let sent = scene.receiver.take();
    let hook = sent.iter().find(|sent| sent.path == HOOK);
    assert!(hook.is_some(), "the chat was told: {sent:?}");
    let shown = format!("Bearer {EVENTS}");
    let events = sent
        .iter()
        .find(|sent| sent.authorization.as_deref() == Some(&shown));
    assert!(events.is_some(), "the token was shown: {sent:?}");
    for sent in &sent {
        out.add("an announcement", sent.body.to_string());
    }
    for key in scene.consul.kv_keys("") {
        let value = scene.consul.kv_get(&key).unwrap_or_default();
        out.add(format!("the key {key}"), String::from_utf8_lossy(&value));
    }
}

/// Takes the logs, the traces and what is kept on disk.
fn collect(scene: &mut Scene, out: &mut Out) {
    let spans = scene.collector.all();
    assert!(
        spans.iter().any(|sent| sent.span.name == "tidegate canary"),
        "spans came"
    );
    out.add("the traces", format!("{spans:?}"));
    for replica in &mut scene.replicas {
        let log = replica.process().log_text();
        assert!(
            log.contains(" TRACE ") && log.contains("hyper"),
            "everything is logged"
        );
        out.add("a log", log);
        for file in ["memory", "fleet"] {
            let kept = fs::read(replica.data().join(file)).expect("it was kept");
            out.add(format!("the file {file}"), String::from_utf8_lossy(&kept));
        }
    }
    assert!(
        out.text_of("[\"check-config\"")
            .contains("http.token_file = ")
    );
}

/// A panic, and an error that quotes a value, print it with its Debug.
#[test]
fn a_type_that_holds_a_secret_prints_none() {
    let variables = |name: &str| {
        let value = match name {
            "CONSUL_HTTP_TOKEN" => ROOT_TOKEN.to_owned(),
            "CONSUL_HTTP_AUTH" => format!("proxy:{PASSWORD}"),
            _ => return None,
        };
        Some(value)
    };
    let consul = ConsulSettings::from_lookup(variables).expect("usable");
    let login = LoginSettings {
        method: Some("ci".to_owned()),
        bearer_token_file: None,
    };
    let bearer = |name: &str| (name == "TIDEGATE_CONSUL_BEARER_TOKEN").then(|| EVENTS.to_owned());
    let signed = ConsulSettings::new(&login, bearer).expect("usable");
    let access = Access::default();
    let token = Token::parse(VIEWERS).expect("a token");
    access
        .viewers
        .store(Some(std::sync::Arc::new(token.clone())));
    let shown = format!("{consul:?} {consul:#?} {signed:?} {access:?} {token:?}");
    assert!(shown.contains("proxy"), "{shown}");
    for secret in [ROOT_TOKEN, PASSWORD, EVENTS, VIEWERS] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// There is no flag that takes a secret: the list of processes shows flags to everybody.
#[test]
fn no_flag_takes_a_secret() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/command-line.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let flags = page
        .lines()
        .filter_map(|line| line.trim().strip_prefix("--"));
    let named = flags.filter(|flag| {
        ["token", "secret", "password", "key"]
            .iter()
            .any(|word| flag.contains(word))
    });
    let mut seen = 0;
    for flag in named {
        let name = flag.split([' ', '=', '[']).next().unwrap_or_default();
        assert!(name.ends_with("-file"), "--{name} takes no file");
        seen += 1;
    }
    assert!(seen > 5, "{seen} flags were looked at");
}
