//! The list of replicas, and what they share.

use super::load;

#[test]
#[expect(clippy::too_many_lines, reason = "a table, and one check of each row")]
fn a_list_of_peers_is_whole_or_refused() {
    let local = "a=http://127.0.0.1:1,b=http://[::1]:2";
    for (peers, more, error) in [
        (local, &[][..], ""),
        ("b=http://localhost:2/, a = http://127.1.2.3:1", &[], ""),
        (
            "a=http://127.0.0.1:1",
            &[],
            "--peer: 1 given; 2 to 9 are allowed",
        ),
        ("a", &[], "--peer: \"a\" is no NAME=URL"),
        (
            "a/b=http://127.0.0.1:1",
            &[],
            "--peer: \"a/b\": a name holds",
        ),
        (
            "a=http://127.0.0.1:1,a=http://127.0.0.1:2",
            &[],
            "--peer: a is named twice",
        ),
        (
            "a=http://127.0.0.1:1,b=http://127.0.0.1:1/",
            &[],
            "--peer: 127.0.0.1:1 is given twice",
        ),
        (
            "a=ftp://127.0.0.1:1,b=http://127.0.0.1:2",
            &[],
            "--peer: \"ftp://127.0.0.1:1\" begins with neither http:// nor https://",
        ),
        (
            "a=https://127.0.0.1:1,b=http://127.0.0.1:2",
            &[],
            "http.ca_file: required",
        ),
        (
            "a=https://127.0.0.1:1,b=https://[::1]:2",
            &[("http.ca_file", "/ca.pem")],
            "",
        ),
        (
            "a=https://10.0.0.1:1,b=http://127.0.0.1:2",
            &[("http.ca_file", "/ca.pem")],
            "peers_token_file: required",
        ),
        (
            "a=https://127.0.0.1:1,b=http://127.0.0.1:1",
            &[],
            "--peer: 127.0.0.1:1 is given twice",
        ),
        (
            "a=127.0.0.1:1,b=http://127.0.0.1:2",
            &[],
            "--peer: \"127.0.0.1:1\"",
        ),
        (
            "a=http://u@127.0.0.1:1,b=http://127.0.0.1:2",
            &[],
            "--peer: \"127.0.0.1:1\" has",
        ),
        (
            "a=http://127.0.0.1:1/x,b=http://127.0.0.1:2",
            &[],
            "--peer: \"http://127.0.0.1:1/x\" has",
        ),
        (
            local,
            &[("slot", "c")],
            "--slot: c is none of the peers (a, b)",
        ),
        (
            "a=http://10.0.0.1:1,b=http://127.0.0.1:2",
            &[],
            "peers_token_file: required",
        ),
        (
            "a=http://10.0.0.1:1,b=http://127.0.0.1:2",
            &[("peers_token_file", "/token")],
            "",
        ),
        (local, &[("assume_gone", "b")], ""),
        (
            local,
            &[("assume_gone", "a")],
            "--assume-gone: a is this replica itself",
        ),
        (
            local,
            &[("assume_gone", "b,c")],
            "--assume-gone: c is none of the peers",
        ),
    ] {
        let flags = [&[("peers", peers)], more].concat();
        let loaded = load(b"environment = 'gprd'", &flags, &[]);
        match loaded {
            Ok(_) => assert_eq!(error, "", "{peers} {more:?}"),
            Err(errors) => {
                assert!(!error.is_empty() && errors.starts_with(error), "{errors}");
                assert_eq!(errors.lines().count(), 1, "{errors}");
            }
        }
    }
}

#[test]
fn the_digest_is_of_what_changes_answers_or_membership() {
    let peers = ("peers", "a=http://127.0.0.1:1,b=http://127.0.0.1:2");
    let digest = |flags: &[(&'static str, &str)]| {
        let flags = [&[peers], flags].concat();
        load(b"environment = 'gprd'", &flags, &[]).unwrap().digest()
    };
    let same = digest(&[]);
    for flags in [
        ("slot", "b"),
        ("agent.listen", "127.0.0.1:9"),
        ("log.level", "debug"),
        ("peers", "b=http://127.0.0.1:2/,a=http://127.0.0.1:1"),
        ("poll_interval", "2000ms"),
        ("agent.allow", "10.0.0.0/8"),
        ("http.token_file", "/token"),
    ] {
        assert_eq!(digest(&[flags]), same, "{flags:?}");
    }
    // They are asked one way or the other, one after the other.
    let encrypted = ("peers", "a=http://127.0.0.1:1,b=https://127.0.0.1:2");
    assert_eq!(digest(&[encrypted, ("http.ca_file", "/ca.pem")]), same);
    for flags in [
        ("environment", "gstg"),
        ("root", "other"),
        ("poll_interval", "1s"),
        ("peers", "a=http://127.0.0.1:1,b=http://127.0.0.1:3"),
        ("peers", "a=http://127.0.0.1:1,c=http://127.0.0.1:2"),
    ] {
        assert_ne!(digest(&[flags]), same, "{flags:?}");
    }
}

#[test]
fn certificate_and_key_come_together() {
    let (certificate, key) = (
        ("http.certificate_file", "/tls.pem"),
        ("http.key_file", "/tls.key"),
    );
    let errors = |flags: &[(&'static str, &str)]| {
        let loaded = load(b"environment = 'gprd'\nkv = 'dir:/state'", flags, &[]);
        loaded.err().unwrap_or_default()
    };
    assert_eq!(errors(&[certificate, key]), "");
    for (given, missing) in [
        (certificate, "http.key_file"),
        (key, "http.certificate_file"),
    ] {
        let text = format!("{missing}: required, as the other one of certificate and key is given");
        assert_eq!(errors(&[given]), text);
    }
    let empty = errors(&[("agent.allow", ""), ("http.token_file", "")]);
    assert_eq!(empty.lines().count(), 2, "{empty}");
}
