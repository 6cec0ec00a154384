//! The files of the repository, rendered.

use tidegate::domain::haproxy::lint::{Evidence, Severity};
use tidegate::domain::haproxy::reading::File;
use tidegate::domain::haproxy::render::{Asking, Mode, RenderError, Wish, render};
use tidegate::domain::settings::Settings;

use crate::harness::haproxy::{Haproxy, Version};
use crate::lint::corpus::{REFUSED, files};
use crate::lint::{judge, setting};

/// Whom the servers ask.
const AGENT: &str = "127.0.0.9:8790";
const SETTINGS: &[u8] = include_bytes!("../../../examples/state/frontend/gprd/settings");

fn rendered(
    name: &str,
    text: &str,
    mode: Mode,
    settings: Option<&Settings>,
) -> Result<String, RenderError> {
    let wish = Wish {
        all: Some(mode),
        asking: Asking {
            agent: Some(AGENT.parse().expect("an address")),
            ..Asking::default()
        },
        settings,
        ..Wish::default()
    };
    let files = [File {
        name: name.to_owned(),
        bytes: text.as_bytes().to_vec(),
    }];
    let rendered = render(&files, &setting(&[("LB_ZONE", "b")]), &wish)?;
    let [file] = &rendered.files[..] else {
        panic!("one file is one file")
    };
    Ok(String::from_utf8(file.bytes.clone()).expect("text stays text"))
}

fn expect_accepted(name: &str, text: &str) {
    for version in Version::ALL {
        let accepted = Haproxy::accepts(version, text);
        assert_eq!(accepted, Ok(()), "{version:?} {name}\n{text}");
    }
}

#[test]
fn the_examples_are_accepted_and_clean_in_each_mode() {
    let (settings, _) = Settings::parse(SETTINGS).expect("the example can be read");
    let mut made = 0;
    for (name, text) in files("examples") {
        let enrolled = text.matches(" agent-check ").count();
        for mode in [Mode::Off, Mode::Shadow, Mode::On] {
            let text = match rendered(&name, &text, mode, Some(&settings)) {
                // The backends of the demonstration have no servers.
                Err(RenderError::NoServer) => continue,
                made => made.unwrap_or_else(|error| panic!("{name}: {error:?}")),
            };
            expect_accepted(&name, &text);
            let mut report = judge(&name, &text, &Evidence::default());
            report
                .findings
                .retain(|finding| finding.rule.severity != Severity::Note);
            assert!(report.findings.is_empty(), "{mode:?}: {report}");
            let (asks, shadow) = (report.servers.enrolled, report.servers.shadow);
            let expected = match mode {
                Mode::Off => (0, 0),
                Mode::Shadow => (enrolled, enrolled),
                Mode::On => (enrolled, 0),
            };
            assert_eq!((asks, shadow), expected, "{name}");
            made += 1;
        }
    }
    assert_eq!(made, 12, "four nodes in three modes");
}

/// Whatever else is wrong with a file, rendering makes nothing that HAProxy refuses.
pub(crate) fn check_faulty_files() {
    let mut made = 0;
    for (name, text) in files("tests/it/lint/corpus") {
        if REFUSED.contains(&name.as_str()) {
            continue;
        }
        if let Ok(on) = rendered(&name, &text, Mode::On, None) {
            expect_accepted(&name, &on);
            let off = rendered(&name, &on, Mode::Off, None)
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
            expect_accepted(&name, &off);
            let again = rendered(&name, &on, Mode::On, None);
            assert_eq!(again, Ok(on), "{name}");
            made += 1;
        }
    }
    assert!(made > 20, "{made} only");
}

/// Many servers of all kinds, in one file: HAProxy asks exactly those that are enrolled.
#[test]
fn a_file_with_all_that_server_lines_have_is_accepted_and_given_back() {
    let mut text = "# a fleet's\nglobal\n    log stdout local0 # kept\n\ndefaults\n    mode http\n    \
        timeout connect 1s\n    timeout client 1s\n    timeout server 1s\n    option log-health-checks\n"
        .to_owned();
    let more = [
        "",
        " backup",
        " check inter 2s",
        " weight 100 maxconn 30",
        " weight 40 check # weight 7",
        " cookie \"x y\"",
        " disabled",
        " no-agent-check\t#x",
        " agent-inter 1s",
        " check\\x20 weight 1",
    ];
    for (at, first) in more.iter().enumerate() {
        text += &format!("\nbackend b{at} # {at}\n    balance roundrobin\n");
        for (place, second) in [*first, more[(at + 3) % more.len()]].iter().enumerate() {
            let name = if place == 0 { "main" } else { "gke-cny-x" };
            text += &format!("    server {name} 127.0.0.1:80{second}\n");
        }
    }
    // The word with a blank in it is none of HAProxy's.
    let text = text.replace("check\\x20", "check");
    expect_accepted("fleet", &text);
    for mode in [Mode::Shadow, Mode::On] {
        let made = rendered("fleet", &text, mode, None).unwrap_or_else(|error| panic!("{error:?}"));
        expect_accepted("fleet", &made);
        assert_eq!(
            made.matches(" agent-check agent-addr ").count(),
            2 * more.len()
        );
        assert_eq!(rendered("fleet", &made, Mode::Off, None), Ok(text.clone()));
    }
}
