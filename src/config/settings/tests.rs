use super::*;
use std::collections::BTreeSet;

#[test]
fn the_three_names_of_a_setting_agree_and_are_its_own() {
    for setting in SETTINGS {
        let name = if setting.key == "environment" {
            "env"
        } else {
            setting.key
        };
        // A flag is given once for each peer; commands have the words of their tables.
        let flag = match name {
            "peers" => "peer",
            "announce.urls" => "announce.url",
            "announce.token_files" => "announce.token_file",
            name => name
                .strip_prefix("observe.")
                .or_else(|| name.strip_prefix("consul."))
                .unwrap_or(name),
        };
        assert_eq!(setting.flag, flag.replace(['.', '_'], "-"));
        let variable = name.replace('.', "_").to_uppercase();
        assert_eq!(setting.variable, format!("TIDEGATE_{variable}"));
        assert!(setting.doc.ends_with('.'), "{}", setting.key);
    }
    let keys: BTreeSet<_> = SETTINGS.iter().map(|setting| setting.key).collect();
    assert_eq!(keys.len(), SETTINGS.len());
}

#[test]
fn a_slip_finds_the_name_that_was_meant() {
    for (slip, meant) in [
        ("agent.listn", Some("agent.listen")),
        ("agent.connection_max", Some("agent.connections_max")),
        ("env", Some("environment")),
        ("poll-interval", Some("poll_interval")),
        ("agent_listen", Some("agent.listen")),
        ("workers", Some("agent.workers")),
        ("something.else", None),
        (&"x".repeat(10_000), None),
    ] {
        assert_eq!(nearest(slip), meant, "{slip}");
    }
}

#[test]
fn the_limits_of_a_setting_stand_in_its_text() {
    for (key, limit) in [
        ("slot", SLOT_BYTES_MAX),
        ("peers", super::super::peers::PEERS_MAX),
        ("environments", super::super::environments::NAMES_MAX),
        ("observe.stats", super::super::observe::SOCKETS_MAX),
        ("announce.urls", super::super::announce::RECEIVERS_MAX),
    ] {
        let doc = find(key).unwrap().doc;
        assert!(doc.contains(&limit.to_string()), "{key}: {limit}: {doc}");
    }
}
