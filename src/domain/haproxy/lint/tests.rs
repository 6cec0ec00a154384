use super::*;

fn judged(text: &str) -> Report {
    let files = [File {
        name: "a.cfg".to_owned(),
        bytes: text.as_bytes().to_vec(),
    }];
    let readings = Readings::of(&files, &Setting::default()).unwrap();
    readings.judge(&Evidence::default())
}

/// `line rule` of each finding.
fn check(text: &str, expected: &[&str]) {
    let report = judged(text);
    let found = report.findings.iter().map(|finding| {
        let line = finding.place.rsplit(':').next().unwrap_or_default();
        let only_if = finding.only_if.iter().map(|only| format!(" if {only}"));
        format!("{line} {}{}", finding.rule.id, only_if.collect::<String>())
    });
    let found: Vec<_> = found.collect();
    assert_eq!(found, expected, "{text}\n{report}");
}

const HEAD: &str = "global\n max-spread-checks 50ms\n spread-checks 10\n\
                    defaults\n option log-health-checks\nbackend web\n";
const GOOD: &str = "weight 100 check agent-check agent-addr 127.0.0.1 agent-port 1 agent-send";

#[test]
fn a_finding_of_one_branch_says_of_which() {
    let good = format!(" server a 1.1.1.1 {GOOD} \"web/a base=100\\n\"\n server b 1.1.1.1\n");
    let text = format!("{HEAD}.if feature(QUIC)\n balance first\n.endif\n{good}");
    check(&text, &["8 balance-first if feature(QUIC)"]);
    let text = format!("{HEAD}.if version_before(2.8)\n.else\n balance first\n.endif\n{good}");
    check(&text, &["9 balance-first if version_atleast(2.8)"]);
    let text =
        format!("{HEAD}.if feature(A)\n balance first\n.else\n balance first\n.endif\n{good}");
    check(
        &text,
        &[
            "8 balance-first if feature(A)",
            "10 balance-first if !feature(A)",
        ],
    );
}

#[test]
fn too_many_branches_are_refused() {
    let branches: String = ('A'..='P')
        .map(|c| format!(".if feature({c})\n.endif\n"))
        .collect();
    let files = [File {
        name: "a".to_owned(),
        bytes: (HEAD.to_owned() + &branches).into_bytes(),
    }];
    let error = Readings::of(&files, &Setting::default()).unwrap_err();
    assert!(
        error.to_string().contains("feature(A), feature(B)"),
        "{error}"
    );
}

#[test]
fn a_comment_with_a_reason_allows_a_rule_for_its_line_or_section() {
    let server = format!(" server a 1.1.1.1 {GOOD} \"web/a base=100\\n\"");
    check(&format!("{HEAD}{server}\n"), &["7 last-server"]);
    check(
        &format!("{HEAD}{server} # tidegate: allow last-server a test\n"),
        &[],
    );
    check(
        &format!("{HEAD}# tidegate: allow last-server a test\n# so\n\n{server}\n"),
        &[],
    );
    let head = HEAD.replace(
        "backend web",
        "# tidegate: allow last-server a test\nbackend web",
    );
    check(&format!("{head}{server}\n"), &[]);
    // A section ends where the next begins.
    check(
        &format!(
            "{head}{server}\nbackend b\n{}\n",
            server.replace("web/a", "b/a")
        ),
        &["10 last-server"],
    );
}

#[test]
fn a_comment_that_allows_nothing_is_found() {
    let server =
        format!(" server a 1.1.1.1 {GOOD} \"web/a base=100\\n\" backup\n server b 1.1.1.1");
    check(
        &format!("{HEAD}{server} # tidegate: allow last-server\n"),
        &["8 allow-reason"],
    );
    check(
        &format!("{HEAD}{server} # tidegate: allow foo because\n"),
        &["8 allow-reason"],
    );
    check(
        &format!("{HEAD}{server} # tidegate: permit x\n"),
        &["8 allow-reason"],
    );
    check(
        &format!("{HEAD}{server} # tidegate: allow syntax it is so\n"),
        &["8 allow-reason"],
    );
    check(
        &format!("{HEAD}{server} # tidegate: allow track-weight old\n"),
        &["8 allow-unused"],
    );
}

#[test]
fn what_a_comment_allows_is_still_told() {
    let server = format!(
        " server a 1.1.1.1 {GOOD} \"web/a base=100\\n\" # tidegate: allow last-server a test"
    );
    let report = judged(&format!("{HEAD}{server}\n"));
    assert_eq!(report.allowed[0].reason, "a test");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["allowed"][0]["rule"], "last-server");
    assert_eq!(json["allowed"][0]["severity"], "warning");
    assert_eq!(json["servers"]["enrolled"], 1);
}

#[test]
fn a_line_that_haproxy_refuses_is_found_with_its_place() {
    check(&format!("{HEAD} server a 'x\n"), &["7 syntax"]);
    check("backend a from gone\n", &["1 syntax"]);
}

#[test]
fn every_rule_has_a_name_of_its_own() {
    let names: BTreeSet<_> = ALL.iter().map(|rule| rule.id).collect();
    assert_eq!(names.len(), ALL.len());
    for rule in ALL {
        assert!(
            rule.why.ends_with('.') && rule.mend.ends_with('.'),
            "{}",
            rule.id
        );
        assert_eq!(Rule::named(rule.id), Some(*rule));
    }
}

#[test]
fn a_weight_below_100_is_no_fault_of_a_server_that_only_shows_its_answers() {
    let server = |name: &str, more: &str| {
        format!(" server {name} 1.1.1.1 {GOOD} \"web/{name} base=5{more}\\n\" weight 5\n")
    };
    let shadow = " mode=shadow";
    let text = format!("{HEAD}{}{}", server("a", shadow), server("b", shadow));
    check(&text, &[]);
    let text = format!("{HEAD}{}{}", server("a", ""), server("b", shadow));
    check(&text, &["7 weight-below-100"]);
}
