//! `main → cli → serve → {agent, http, watch} → {store, kv, ...} → domain`, never upward.

use super::{Source, sources};

/// What each part may name besides itself and `domain`.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("clock", &[]),
    ("store", &[]),
    ("causes", &[]),
    ("http_client", &["pem"]),
    ("secret_file", &[]),
    ("pem", &[]),
    ("kv", &["causes", "clock", "http_client", "pem"]),
    ("disk", &[]),
    ("fleet", &["clock", "disk", "store"]),
    ("haproxy", &["causes", "clock", "http_client"]),
    ("config", &["haproxy", "kv"]),
    ("metrics", &["clock", "fleet", "kv", "store", "telemetry"]),
    ("progress", &["clock"]),
    ("telemetry", &["config", "pem"]),
    (
        "beliefs",
        &["clock", "disk", "metrics", "store", "telemetry"],
    ),
    ("delivery", &["clock", "fleet", "store", "telemetry"]),
    // These meet only in `store`, what feeds it, and `fleet`.
    ("agent", &["clock", "fleet", "metrics", "progress", "store"]),
    ("http", &["clock", "fleet", "metrics", "store"]),
    (
        "watch",
        &["beliefs", "clock", "kv", "metrics", "progress", "store"],
    ),
    (
        "peers",
        &[
            "beliefs",
            "causes",
            "clock",
            "fleet",
            "http_client",
            "metrics",
            "store",
        ],
    ),
    (
        "serve",
        &[
            "agent",
            "beliefs",
            "clock",
            "config",
            "delivery",
            "disk",
            "fleet",
            "http",
            "http_client",
            "kv",
            "metrics",
            "peers",
            "pem",
            "progress",
            "secret_file",
            "store",
            "telemetry",
            "watch",
        ],
    ),
    (
        "cli",
        &[
            "causes",
            "clock",
            "config",
            "haproxy",
            "http_client",
            "kv",
            "secret_file",
            "serve",
            "telemetry",
        ],
    ),
    // The crate's root declares all parts and names none.
    ("lib", &[]),
];

#[test]
fn each_part_names_only_parts_below_it() {
    let wrong: Vec<_> = sources("src").flat_map(|source| upward(&source)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_domain_knows_no_socket_file_clock_task_or_log() {
    // IpAddr is a value; what does something with it is not.
    let words = [
        "tokio",
        "tracing",
        "std::fs",
        "std::io",
        "std::env",
        "std::process",
        "std::thread",
        "std::time::Instant",
        "SystemTime",
        "Timestamp::now",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "rustix",
        "rand::",
        "arc_swap",
    ];
    let domain = sources("src/domain").filter(|source| source.path != "src/domain/answer.rs");
    let mut wrong: Vec<_> = domain.flat_map(|source| source.places_of(&words)).collect();
    // `io::Write` into a Vec is how an answer is rendered without an allocation.
    let answer = sources("src/domain").filter(|source| source.path == "src/domain/answer.rs");
    let words: Vec<_> = words
        .into_iter()
        .filter(|word| *word != "std::io")
        .collect();
    wrong.extend(answer.flat_map(|source| source.places_of(&words)));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_foreign_library_stays_behind_its_door() {
    for (word, doors) in [
        ("consulrs", &["src/kv/consul"][..]),
        ("rustify", &["src/kv/consul"]),
        (
            "reqwest",
            &[
                "src/cli/announce.rs",
                "src/cli/replica.rs",
                "src/haproxy/prometheus",
                "src/http_client.rs",
                "src/kv/consul",
                "src/peers/client.rs",
            ],
        ),
        ("prometheus_client", &["src/metrics"]),
        ("axum", &["src/http"]),
        ("maud", &["src/http/page"]),
        (
            "rustls",
            &[
                "src/http/tls.rs",
                "src/http_client.rs",
                "src/kv/consul",
                "src/pem.rs",
                "src/serve/access.rs",
            ],
        ),
        ("tokio_rustls", &["src/http/tls.rs"]),
        ("opentelemetry", &["src/telemetry"]),
        ("tracing_opentelemetry", &["src/telemetry"]),
        ("tonic", &["src/telemetry"]),
    ] {
        let inside = |source: &Source| doors.iter().any(|door| source.path.starts_with(door));
        let outside = sources("src").filter(|source| !inside(source));
        let named = [format!("{word}::"), format!("use {word}")];
        let words = named.each_ref().map(String::as_str);
        let wrong: Vec<_> = outside
            .flat_map(|source| source.places_of(&words))
            .collect();
        assert!(wrong.is_empty(), "outside {doors:?}: {wrong:#?}");
    }
}

/// Deadlines of tokio's own clock are no readings: they can be paused, and decide no answer.
#[test]
fn one_file_reads_clocks() {
    let words = [
        "Timestamp::now",
        "Zoned::now",
        "SystemTime::now",
        "std::time::Instant",
        "clock_gettime",
    ];
    // The lock of a folder is waited for on a thread without a runtime.
    let allowed = ["src/clock.rs", "src/kv/directory/lock.rs"];
    let others = sources("src").filter(|source| !allowed.contains(&source.path.as_str()));
    let wrong: Vec<_> = others.flat_map(|source| source.places_of(&words)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn upward(source: &Source) -> Vec<String> {
    let part = part_of(&source.path);
    if part == "main" {
        return Vec::new();
    }
    let (_, may) = MAY_NAME
        .iter()
        .find(|(known, _)| *known == part)
        .unwrap_or_else(|| panic!("{}: a new part needs its line in MAY_NAME", source.path));
    let mut wrong = Vec::new();
    for (line, code) in &source.code {
        for named in code.split("crate::").skip(1) {
            let end = named.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            let named = &named[..end.unwrap_or(named.len())];
            if named != part && named != "domain" && !may.contains(&named) {
                wrong.push(format!("{}:{line}: {part} names {named:?}", source.path));
            }
        }
    }
    wrong
}

/// `src/agent/worker.rs` is of the part `agent`, `src/store.rs` of `store`.
fn part_of(path: &str) -> &str {
    let below = path.strip_prefix("src/").unwrap_or(path);
    let first = below.split('/').next().unwrap_or(below);
    first.strip_suffix(".rs").unwrap_or(first)
}
