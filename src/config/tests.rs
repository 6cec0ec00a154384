use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Least that a configuration needs.
const LEAST: &str = "environment = 'gprd'\nkv = 'dir:/state'\n";

fn load(
    file: &[u8],
    flags: &[(&'static str, &str)],
    variables: &[(&str, &str)],
) -> Result<Config, String> {
    let flags = flags.iter().fold(Flags::default(), |flags, (key, text)| {
        flags.with(key, *text)
    });
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    let sources = Sources {
        role: Role::Replica,
        file: Some(ConfigFile {
            name: "tidegate.toml",
            text: file,
        }),
        flags: &flags,
        variable: &|name| variables.get(name).map(OsString::from),
        cores: NonZeroUsize::new(3).unwrap(),
    };
    Config::load(&sources).map_err(|errors| errors.to_string())
}

fn check_errors(
    file: &str,
    flags: &[(&'static str, &str)],
    variables: &[(&str, &str)],
    expected: &[&str],
) {
    let errors = load(file.as_bytes(), flags, variables).unwrap_err();
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines, expected, "{file}");
}

#[test]
fn what_nobody_says_has_its_default() {
    let config = load(LEAST.as_bytes(), &[], &[]).unwrap();
    assert_eq!(config.prefix.as_str(), "frontend/gprd/");
    assert_eq!(config.kv, KvSource::Directory("/state".into()));
    assert_eq!(config.slot.as_str(), "a");
    assert!(config.standalone);
    assert_eq!(config.poll_interval, Duration::from_secs(2));
    assert_eq!(config.agent.listen.to_string(), "0.0.0.0:8790");
    assert_eq!(config.agent.workers, 3);
    assert_eq!(config.agent.connections_max, 16_384);
    assert_eq!(config.agent.close, AgentClose::Lazy);
    assert_eq!(config.http.listen.to_string(), "0.0.0.0:8791");
    assert_eq!(config.log.format, LogFormat::Text);
    assert_eq!(config.log.level, "info");
}

/// A file that holds every setting.
const EVERY_SETTING: &str = "
environment = 'gstg'
root = 'infra/lb'
environments = { gprd = 'production', gstg = 'staging' }
environment_roots = { gprd = 'elsewhere' }
kv = 'consul'
slot = 'b'
assume_gone = ['c']
peers_token_file = '/etc/tidegate/token'
poll_interval = '500ms'
data_dir = '/var/lib/tidegate'
drain_for = '0s'
[peers]
a = 'http://10.0.0.1:8791'
b = 'http://10.0.0.2:8791'
c = 'http://10.0.0.3:8791'
[consul]
login_method = 'instance'
bearer_token_file = '/run/identity/token'
[agent]
listen = '[::]:9000'
workers = 0x10
connections_max = 1_000
close = 'fin'
allow = ['10.20.0.0/16', '2001:db8::/32']
[http]
listen = '127.0.0.1:9001'
token_file = '/run/viewers'
certificate_file = '/run/tls.pem'
key_file = '/run/tls.key'
ca_file = '/run/ca.pem'
[observe]
prometheus = 'http://prometheus:9090/'
prometheus_matchers = 'env=\"gprd\",type=\"haproxy\"'
node_label = 'fqdn'
[observe.stats]
lb-1 = 'unix:/run/haproxy/admin.sock'
lb-2 = '10.0.0.2:9999'
[migration]
environment = 'staging'
[announce]
chat = ['chat']
[announce.urls]
events = 'https://events.example.org/changes?k=v'
chat = 'file:/run/chat'
[announce.token_files]
events = '/run/token'
[log]
format = 'json'
level = 'info,tidegate::watch=debug'
";

#[test]
fn every_setting_can_stand_in_the_file() {
    let config = load(EVERY_SETTING.as_bytes(), &[], &[]).unwrap();
    assert_eq!(config.prefix.as_str(), "infra/lb/gstg/");
    assert_eq!(config.kv, KvSource::Consul);
    assert_eq!(config.login.method.as_deref(), Some("instance"));
    let bearer = config.login.bearer_token_file.as_deref();
    assert_eq!(bearer, Some("/run/identity/token".as_ref()));
    assert_eq!(config.agent.workers, 16);
    assert_eq!(config.agent.connections_max, 1_000);
    assert_eq!(config.agent.close, AgentClose::Fin);
    expect_access(&config);
    assert_eq!(config.log.format, LogFormat::Json);
    let others: Vec<_> = config.others().map(|peer| peer.url.as_str()).collect();
    assert_eq!(others, ["http://10.0.0.1:8791", "http://10.0.0.3:8791"]);
    assert_eq!(config.assume_gone, [Name::parse("c").unwrap()]);
    let observe = &config.observe;
    let prometheus = observe.prometheus.as_ref().unwrap();
    assert_eq!(prometheus.url, "http://prometheus:9090");
    assert_eq!(prometheus.matchers, "env=\"gprd\",type=\"haproxy\"");
    let sockets: Vec<_> = observe.stats.values().map(ToString::to_string).collect();
    assert_eq!(sockets, ["unix:/run/haproxy/admin.sock", "10.0.0.2:9999"]);
    expect_receivers(&config.announce);
    assert_eq!(config.migration, Some(config.environment.clone()));
    // All but standalone, which is the other possibility.
    assert_eq!(config.given.len(), settings::SETTINGS.len() - 1);
    for given in &config.given {
        assert!(matches!(given.origin, Origin::File { .. }), "{given:?}");
    }
}

fn expect_access(config: &Config) {
    let admitted = |address: &str| config.agent.allow.admit(address.parse().unwrap());
    let seen = ["10.20.255.1", "10.21.0.1", "2001:db8::1", "::1"].map(admitted);
    assert_eq!(seen, [true, false, true, false]);
    let HttpConfig { tls, access, .. } = &config.http;
    let tls = tls
        .as_ref()
        .map(|files| (files.certificate.as_path(), files.key.as_path()));
    let files = (Path::new("/run/tls.pem"), Path::new("/run/tls.key"));
    assert_eq!(tls, Some(files));
    assert_eq!(
        access.token_file.as_deref(),
        Some(Path::new("/run/viewers"))
    );
    assert_eq!(access.ca_file.as_deref(), Some(Path::new("/run/ca.pem")));
}

fn expect_receivers(all: &[Receiver]) {
    let [chat, events] = all else {
        panic!("{all:?}");
    };
    let file = ReceiverAddress::File("/run/chat".into());
    assert_eq!((&chat.address, chat.form), (&file, Form::Chat));
    let url = ReceiverAddress::Url("https://events.example.org/changes?k=v".to_owned());
    assert_eq!((&events.address, events.form), (&url, Form::Json));
    assert_eq!(events.token_file.as_deref(), Some("/run/token".as_ref()));
}

#[test]
fn a_flag_counts_before_a_variable_before_the_file_before_the_default() {
    let file = format!("{LEAST}slot = 'file'\n");
    let flag = [("slot", "flag")];
    let variable = [("TIDEGATE_SLOT", "variable")];
    for (file, flags, variables, slot, origin) in [
        (LEAST, &[][..], &[][..], "a", "default"),
        (&file, &[], &[], "file", "tidegate.toml:3"),
        (&file, &[], &variable, "variable", "TIDEGATE_SLOT"),
        (&file, &flag, &variable, "flag", "--slot"),
    ] {
        let config = load(file.as_bytes(), flags, variables).unwrap();
        assert_eq!(config.slot.as_str(), slot);
        let given = config
            .given
            .iter()
            .find(|given| given.setting.key == "slot");
        assert_eq!(given.unwrap().origin.to_string(), origin);
    }
}

#[test]
fn a_misspelt_level_does_not_silence_the_log() {
    for (level, right) in [
        ("info", true),
        ("WARN", true),
        ("off", true),
        ("info,tidegate::watch=debug", true),
        ("tidegate::watch", true),
        ("hyper=off, info", true),
        ("wran", false),
        ("", false),
        ("info,", false),
        ("tidegate=", false),
        ("info,dbug", false),
    ] {
        let loaded = load(LEAST.as_bytes(), &[("log.level", level)], &[]);
        assert_eq!(loaded.is_ok(), right, "{level:?}: {loaded:?}");
    }
}

#[test]
fn all_errors_are_told_at_once_each_with_its_place() {
    check_errors(
        "kv = 'etcd'\nslott = 'a'\n\n[agent]\nlisten = 'here'\nworkers = '4'\n[else]\nx = 1\n",
        &[
            ("agent.connections_max", "0"),
            ("log.level", "tidegate=loud"),
        ],
        &[("TIDEGATE_POLL_INTERVAL", "2"), ("TIDEGATE_ROOT", "")],
        &[
            "TIDEGATE_ROOT: empty; unset the variable to use the default",
            "tidegate.toml:2: slott: unknown; did you mean slot?",
            "tidegate.toml:6: agent.workers: expected a whole number, found string",
            "tidegate.toml:7: else: unknown",
            "environment: required; give --env, TIDEGATE_ENV or environment in the file",
            "tidegate.toml:1: kv: \"etcd\" is neither consul nor dir:PATH",
            "TIDEGATE_POLL_INTERVAL: \"2\" is no time such as 2s or 500ms: time unit needed, for \
             example 2sec or 2ms",
            "tidegate.toml:5: agent.listen: \"here\" is no address and port such as 0.0.0.0:8790 \
             or [::]:8790",
            "--agent-connections-max: \"0\" is no whole number between 1 and 1000000",
            "--log-level: \"tidegate=loud\" is no log filter: error parsing level filter: \
             expected one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number \
             0-5",
        ],
    );
}

#[test]
fn a_value_out_of_its_range_is_refused() {
    let long = "x".repeat(33);
    for (key, text, error) in [
        ("environment", "g/p", "--env: a name holds '/'"),
        (
            "root",
            "a//b",
            "--root: every segment of the path is a name, but a name is empty",
        ),
        ("kv", "dir:", "--kv: the path is missing"),
        ("slot", &long, "--slot: 33 bytes; a slot has at most 32"),
        ("slot", "", "--slot: a name is empty"),
        (
            "standalone",
            "yes",
            "--standalone: \"yes\" is neither true nor false",
        ),
        (
            "standalone",
            "false",
            "--standalone: a folder serves one replica",
        ),
        (
            "poll_interval",
            "199ms",
            "--poll-interval: 199ms is not between 200ms and 1m",
        ),
        (
            "poll_interval",
            "61s",
            "--poll-interval: 61s is not between 200ms and 1m",
        ),
        (
            "agent.workers",
            "257",
            "--agent-workers: \"257\" is no whole number between 1 and 256",
        ),
        (
            "agent.workers",
            "-1",
            "--agent-workers: \"-1\" is no whole number",
        ),
        (
            "agent.listen",
            "localhost:1",
            "--agent-listen: \"localhost:1\" is no address",
        ),
        (
            "log.format",
            "xml",
            "--log-format: \"xml\" is neither text nor json",
        ),
    ] {
        let errors = load(LEAST.as_bytes(), &[(key, text)], &[]).unwrap_err();
        assert!(errors.starts_with(error), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
    for (key, text) in [
        ("poll_interval", "200ms"),
        ("poll_interval", "60s"),
        ("agent.workers", "1"),
        ("agent.workers", "256"),
        ("agent.connections_max", "1000000"),
    ] {
        assert!(
            load(LEAST.as_bytes(), &[(key, text)], &[]).is_ok(),
            "{key} {text}"
        );
    }
}

#[test]
fn a_value_that_does_not_count_is_checked_all_the_same() {
    let file = format!("{LEAST}slot = 'a/b'\n");
    let error = "tidegate.toml:3: slot: a name holds '/'; allowed are letters, digits and . _ : -";
    check_errors(&file, &[("slot", "b")], &[], &[error]);
}

#[test]
fn the_two_listeners_must_not_meet() {
    for (agent, http, meet) in [
        ("0.0.0.0:8790", "0.0.0.0:8790", true),
        ("0.0.0.0:8790", "127.0.0.1:8790", true),
        ("127.0.0.1:8790", "[::]:8790", true),
        ("127.0.0.1:8790", "127.0.0.2:8790", false),
        ("127.0.0.1:0", "127.0.0.1:0", false),
    ] {
        let flags = [("agent.listen", agent), ("http.listen", http)];
        let loaded = load(LEAST.as_bytes(), &flags, &[]);
        assert_eq!(loaded.is_err(), meet, "{agent} {http}");
        if let Err(errors) = loaded {
            let expected = format!(
                "--http-listen: {http} takes the same port as agent.listen ({agent}, --agent-listen)"
            );
            assert_eq!(errors, expected);
        }
    }
}

#[test]
fn a_replica_knows_all_others_or_is_the_only_one() {
    let errors = load(b"environment = 'gprd'\nstandalone = false", &[], &[]).unwrap_err();
    assert!(
        errors.starts_with("tidegate.toml:2: standalone: required with kv = \"consul\", unless"),
        "{errors}"
    );
    let alone = [("TIDEGATE_STANDALONE", "1")];
    let config = load(b"environment = 'gprd'", &[], &alone).unwrap();
    assert!(config.standalone && config.peers.is_empty());
    let peers = ("peers", "a=http://127.0.0.1:1,b=http://127.0.0.1:2");
    let config = load(b"environment = 'gprd'", &[peers], &[]).unwrap();
    assert!(!config.standalone && config.peers.len() == 2);
    let errors = load(b"environment = 'gprd'", &[peers], &alone).unwrap_err();
    assert!(
        errors.starts_with("TIDEGATE_STANDALONE: there are peers"),
        "{errors}"
    );
    // Replicas may share a folder.
    let config = load(LEAST.as_bytes(), &[peers], &[]).unwrap();
    assert!(!config.standalone);
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_with_its_line() {
    for (file, place) in [
        (
            &b"environment = 'gprd'\nkv = = 'x'"[..],
            "tidegate.toml:2: ",
        ),
        (b"environment = 'gprd'\n\xff", "tidegate.toml:2: not UTF-8"),
        (
            b"agent = 1\nenvironment = 'g'",
            "tidegate.toml:1: agent: expected a table, found integer",
        ),
        (b"slot = 'a'\nslot = 'b'", "tidegate.toml:2: "),
    ] {
        let errors = load(file, &[("kv", "dir:x")], &[]).unwrap_err();
        assert!(errors.starts_with(place), "{errors}");
    }
    let large = vec![b'#'; FILE_BYTES_MAX + 1];
    let errors = load(&large, &[("environment", "gprd"), ("kv", "dir:x")], &[]).unwrap_err();
    assert_eq!(errors, "tidegate.toml:1: larger than 65536 bytes");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(file in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _either = load(&file, &[], &[]);
    }

    #[test]
    fn any_text_near_a_file_is_read_or_refused(
        file in "((agent|http|log|slot|kv|\\[agent\\]|\\[\\[log\\]\\]|'a'|\"\\PC{0,3}\"|=|\\.|\n|[0-9]{1,3}|\\{|\\}|,|true|#) ?){0,40}",
    ) {
        if let Err(errors) = load(file.as_bytes(), &[("environment", "gprd")], &[]) {
            prop_assert!(!errors.is_empty());
        }
    }
}

mod environments;
mod observe;
mod peers;
