use proptest::prelude::*;

use super::*;

const AGENT: &str = "10.0.0.9:8790";
const HEAD: &str = "global\n    spread-checks 5\n    max-spread-checks 100ms\n\
                    defaults\n    option log-health-checks\n    default-server check\n";
const WORDS: &str = "agent-check agent-addr 10.0.0.9 agent-port 8790 agent-inter 2s agent-send";

fn file(text: &str) -> Vec<File> {
    let (name, bytes) = ("a.cfg".to_owned(), text.as_bytes().to_vec());
    vec![File { name, bytes }]
}

fn wish(mode: Mode) -> Wish<'static> {
    let agent = Some(AGENT.parse().unwrap());
    Wish {
        all: Some(mode),
        asking: Asking {
            agent,
            ..Asking::default()
        },
        ..Wish::default()
    }
}

fn try_with(text: &str, wish: &Wish<'_>) -> Result<Rendered, RenderError> {
    let environment = [(LOCAL_PEER.to_owned(), "lb-1".to_owned())];
    let setting = Setting {
        environment: environment.into(),
        ..Setting::default()
    };
    render(&file(text), &setting, wish)
}

fn with(text: &str, wish: &Wish<'_>) -> String {
    let rendered = try_with(text, wish).unwrap_or_else(|error| panic!("{text}\n{error:?}"));
    String::from_utf8(rendered.files[0].bytes.clone()).unwrap()
}

/// The lines behind the head, without the agent's words.
fn check(text: &str, mode: Mode, expected: &[&str]) {
    let rendered = with(&format!("{HEAD}{text}"), &wish(mode));
    let lines = rendered.strip_prefix(HEAD).expect("the head stays");
    let lines: Vec<_> = lines
        .lines()
        .map(|line| line.replace(WORDS, "..."))
        .collect();
    assert_eq!(lines, expected);
}

#[test]
fn words_stand_behind_those_of_a_line_and_before_its_comment() {
    check(
        "backend web # all\n  server a 1.1.1.1:80 weight 100\t # of b\n\n  server b-cny-1 1.1.1.1:80 weight 100 #x\n",
        Mode::On,
        &[
            "backend web # all",
            "  server a 1.1.1.1:80 weight 100 ... \"web/a node=${HAPROXY_LOCALPEER} base=100\\n\"\t # of b",
            "",
            "  server b-cny-1 1.1.1.1:80 weight 100 ... \"web/b-cny-1 canary node=${HAPROXY_LOCALPEER} base=100\\n\" disabled #x",
        ],
    );
}

#[test]
fn weights_that_are_all_the_same_are_raised_together_where_answers_are_followed() {
    let text = "backend web\n server a 1.1.1.1\n server b 1.1.1.1\n";
    let line = |name: &str, base: &str| {
        format!(" server {name} 1.1.1.1 ... \"web/{name} node=${{HAPROXY_LOCALPEER}} base={base}")
    };
    let (a, b) = (
        line("a", "100\\n\" weight 100"),
        line("b", "100\\n\" weight 100"),
    );
    check(text, Mode::On, &["backend web", &a, &b]);
    let (a, b) = (
        line("a", "1 mode=shadow\\n\""),
        line("b", "1 mode=shadow\\n\""),
    );
    check(text, Mode::Shadow, &["backend web", &a, &b]);
    // Others would change the shares.
    let text = "backend web\n server a 1.1.1.1\n server b 1.1.1.1 weight 7\n";
    let b = format!(
        "{} 1.1.1.1 weight 7 ... \"web/b node=${{HAPROXY_LOCALPEER}} base=7\\n\"",
        " server b"
    );
    check(text, Mode::On, &["backend web", &line("a", "1\\n\""), &b]);
}

#[test]
fn a_file_that_somebody_else_enrolled_is_changed_and_not_doubled() {
    let text = "backend web\n server a-cny-1 1.1.1.1 disabled agent-check weight 100 agent-inter 500ms \
        agent-addr 10.9.9.9 agent-port 1 agent-send \"web/a-cny-1 ci node=$NODE zone=${LB-b}\\n\" maxconn 5\n\
        server b 1.1.1.1 weight 100\n";
    let text = format!("{HEAD}{text}").replace("global\n", "global\n    setenv NODE lb-9\n");
    let mut wish = wish(Mode::Shadow);
    wish.asking = Asking::default();
    wish.backends = [("web".to_owned(), Mode::Shadow)].into();
    let error = try_with(&text, &wish).unwrap_err();
    assert_eq!(error, RenderError::NoAgent("web/b".to_owned()));
    let text = text
        .replace(" server b 1.1.1.1 weight 100\n", "")
        .replace("server b 1.1.1.1 weight 100\n", "");
    let shadow = with(&text, &wish);
    let words = "agent-check agent-addr 10.9.9.9 agent-port 1 agent-inter 500ms agent-send \
        \"web/a-cny-1 ci node=${NODE} zone=${LB-b} base=100 mode=shadow\\n\"";
    let expected = format!(" server a-cny-1 1.1.1.1 weight 100 maxconn 5 {words}\n");
    assert!(shadow.ends_with(&expected), "{shadow}");
    // Nobody would bring it out of maintenance.
    wish.backends = [("web".to_owned(), Mode::Off)].into();
    let off = with(&text, &wish);
    assert!(
        off.ends_with(" server a-cny-1 1.1.1.1 weight 100 maxconn 5\n"),
        "{off}"
    );
    wish.backends = [("web".to_owned(), Mode::On)].into();
    let on = with(&text, &wish);
    let words = words.replace(" mode=shadow", "");
    assert!(
        on.ends_with(&format!(" weight 100 maxconn 5 {words} disabled\n")),
        "{on}"
    );
    assert_eq!(with(&on, &wish), on);
}

#[test]
fn a_weight_that_the_file_had_behind_the_agents_words_stays() {
    let server = |name: &str, rest: &str, tail: &str| {
        format!(" server {name} 1.1.1.1{rest} {WORDS} \"web/{name} node=n base=50\\n\" {tail}\n")
    };
    for (a, b) in [
        (server("a", "", "weight 100"), server("b", "", "weight 50")),
        (
            server("a", " weight 50", "weight 60"),
            server("b", "", "weight 60"),
        ),
        (
            server("a", "", "weight 50"),
            " server b 1.1.1.1 weight 50\n".to_owned(),
        ),
    ] {
        let text = format!("{HEAD}backend web\n{a}{b}");
        let off = with(&text, &wish(Mode::Off));
        let count = |text: &str| text.matches(" weight ").count();
        assert_eq!(count(&off), count(&text), "{off}");
        assert_eq!(with(&with(&off, &wish(Mode::On)), &wish(Mode::Off)), off);
    }
    let (a, b) = (server("a", "", "weight 100"), server("b", "", "weight 50"));
    let on = with(&format!("{HEAD}backend web\n{a}{b}"), &wish(Mode::On));
    assert!(
        on.contains(" weight 100 agent-check") && on.contains(" weight 50 agent-check"),
        "{on}"
    );
}

#[test]
fn a_maintenance_that_no_agent_would_have_ended_stays() {
    let text = format!(
        "{HEAD}backend web\n server a-cny-1 1.1.1.1 {WORDS} \"web/a-cny-1 node=n mode=shadow\\n\" disabled\n"
    );
    let off = with(&text, &wish(Mode::Off));
    assert!(off.ends_with(" server a-cny-1 1.1.1.1 disabled\n"), "{off}");
}

#[test]
fn a_node_or_zone_that_cannot_be_kept_is_asked_for() {
    for (key, other) in [("node=lb-${N-1}", ""), ("zone=b-${N-1}", "node=n ")] {
        let text = format!(
            "{HEAD}backend web\n server a 1.1.1.1 weight 100 {WORDS} \"web/a {other}{key}\\n\"\n"
        );
        let unkept = RenderError::Unkept("web/a".to_owned(), key.to_owned());
        assert_eq!(try_with(&text, &wish(Mode::On)), Err(unkept));
        let mut said = wish(Mode::On);
        said.asking.node = Some("lb-1".parse().unwrap());
        said.asking.zone = Some("b".parse().unwrap());
        let on = with(&text, &said);
        assert!(
            on.contains("\"web/a node=lb-1 zone=b base=100\\n\""),
            "{on}"
        );
    }
}

#[test]
fn what_a_default_server_gives_is_taken_back_on_the_line() {
    let head = HEAD.replace(
        "default-server check",
        "default-server check agent-check disabled",
    );
    let text = format!("{head}backend web\n server a 1.1.1.1 agent-send \"web/a\\n\" weight 100\n");
    let off = try_with(&text, &wish(Mode::Off)).unwrap();
    assert!(
        off.files[0]
            .bytes
            .ends_with(b"server a 1.1.1.1 weight 100 no-agent-check\n")
    );
    let remarks: Vec<_> = off.remarks.iter().map(String::as_str).collect();
    let remark = "web/a is disabled by a.cfg:6, and no agent brings it out of maintenance";
    assert_eq!(remarks, [remark]);
    let off = String::from_utf8(off.files[0].bytes.clone()).unwrap();
    assert_eq!(with(&with(&off, &wish(Mode::On)), &wish(Mode::Off)), off);
}

#[test]
fn the_process_gets_what_is_missing_behind_what_it_replaces() {
    let server =
        "defaults\n option log-health-checks\nbackend web\n server a 1.1.1.1 check weight 100\n";
    for (global, expected) in [
        (
            "",
            "global # by\n    spread-checks 10 # by\n    max-spread-checks 50ms # by\n",
        ),
        (
            "# mine\nglobal\n",
            "# mine\nglobal\n    spread-checks 10 # by\n    max-spread-checks 50ms # by\n",
        ),
        (
            "global\n spread-checks 0\n",
            "global\n spread-checks 0\n    spread-checks 10 # by\n    max-spread-checks 50ms # by\n",
        ),
        (
            "global\nglobal\n max-spread-checks 5s\n spread-checks 2\n",
            "global\nglobal\n max-spread-checks 5s\n    max-spread-checks 50ms # by\n spread-checks 2\n",
        ),
    ] {
        let text = format!("{global}{server}");
        let on = with(&text, &wish(Mode::On));
        let begin = on.split("defaults\n").next().unwrap_or_default();
        let begin = begin.replace(" by tidegate render", " by");
        // Which of the two comes first at one place does not matter.
        assert_eq!(sorted(&begin), sorted(expected), "{global}");
        assert_eq!(with(&on, &wish(Mode::Off)), text);
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn what_cannot_be_told_apart_is_left_and_named() {
    let text = "backend web\n server-template t 1-3 a.b:80\n server \"a\" 1.1.1.1 \"\" weight 100\n server b 1.1.1.1 weight 100\n";
    let rendered = try_with(&format!("{HEAD}{text}"), &wish(Mode::On)).unwrap();
    let remarks: Vec<_> = rendered.remarks.iter().map(String::as_str).collect();
    let [one, two] = remarks[..] else {
        panic!("{remarks:?}")
    };
    assert!(
        one.starts_with("a.cfg:8: web/t is left as it is: all servers of a template"),
        "{one}"
    );
    assert!(
        two.starts_with("a.cfg:9: web/a is left as it is: an empty word"),
        "{two}"
    );
    assert!(with(&format!("{HEAD}{text}"), &wish(Mode::On)).contains("web/b node="));
}

#[test]
fn nothing_is_rendered_that_lint_refuses_or_that_is_not_there() {
    let text = format!("{HEAD}backend web\n server a 1.1.1.1 weight 0\n");
    let Err(RenderError::Lint(errors)) = try_with(&text, &wish(Mode::On)) else {
        panic!("a weight of 0 is refused");
    };
    assert_eq!(
        errors.iter().map(|error| error.rule.id).collect::<Vec<_>>(),
        ["weight-zero"]
    );
    let mut nowhere = wish(Mode::On);
    (nowhere.all, nowhere.backends) = (None, [("api".to_owned(), Mode::On)].into());
    assert_eq!(
        try_with(&text, &nowhere),
        Err(RenderError::NoBackend("api".to_owned()))
    );
    assert_eq!(
        try_with("defaults\n", &wish(Mode::On)),
        Err(RenderError::NoServer)
    );
    let torn = try_with("backend a\n server a 1.1.1.1", &wish(Mode::On));
    assert!(matches!(torn, Err(RenderError::Fault(_))), "{torn:?}");
    let branch = "global\n.if feature(A)\n setenv S a\n.else\n setenv S b\n.endif\nbackend web\n server \"$S\" 1.1.1.1 weight 100\n";
    let ambiguous = try_with(branch, &wish(Mode::On));
    assert_eq!(ambiguous, Err(RenderError::Ambiguous("a.cfg:8".to_owned())));
}

#[test]
fn the_settings_say_which_servers_ask_and_their_groups() {
    let settings = br#"{"rows":[{"server":"web/a","groups":["ci","canary"]}],"nodes":[{"name":"lb-1","zone":"b"}]}"#;
    let (settings, _) = Settings::parse(settings).unwrap();
    let mut wish = wish(Mode::On);
    wish.settings = Some(&settings);
    wish.asking.node = Some("lb-1".parse().unwrap());
    let text = format!("{HEAD}backend web\n server a 1.1.1.1 weight 100\n server b 1.1.1.1\n");
    let on = with(&text, &wish);
    assert!(
        on.contains(
            "\"web/a ci canary node=lb-1 zone=b base=100\\n\" disabled\n server b 1.1.1.1\n"
        ),
        "{on}"
    );
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Off), Just(Mode::Shadow), Just(Mode::On)]
}

prop_compose! {
    /// A server line with some of what files have.
    fn any_server()(
        canary: bool, weight in prop_oneof![Just(None), Just(Some(1)), Just(Some(100u16)), (1u16..=256).prop_map(Some)],
        more in proptest::sample::subsequence(vec!["backup", "check inter 3s", "maxconn 9", "a\\ b", "cookie \"x y\"", "no-agent-check", "disabled", "agent-inter 1s"], 0..4),
        behind in proptest::sample::select(vec!["", " ", "\t# a 'note", "#x", "\r", "\r weight 5", " # agent-check disabled"]),
    ) -> (bool, String) {
        let weight = weight.map_or_else(String::new, |weight| format!(" weight {weight}"));
        let more: String = more.iter().map(|more| format!(" {more}")).collect();
        (canary, format!("127.0.0.1:80{weight}{more}{behind}"))
    }
}

prop_compose! {
    fn any_file()(
        global in proptest::sample::select(vec!["", "global\n", "global\n spread-checks 0\n", "global\n max-spread-checks 9s\n", HEAD]),
        default in proptest::sample::select(vec!["", " default-server check weight 3\n", " default-server agent-inter 9s\n"]),
        backends in proptest::collection::vec(proptest::collection::vec(any_server(), 1..4), 1..4),
    ) -> String {
        let mut text = format!("# a file\n{global}defaults\n option log-health-checks\n default-server check\n{default}");
        for (at, servers) in backends.iter().enumerate() {
            text += &format!("\nbackend b{at} # {at}\n");
            for (at, (canary, rest)) in servers.iter().enumerate() {
                let name = if *canary { "x-cny-" } else { "main" };
                text += &format!("  server {name}{at} {rest}\n");
            }
        }
        text
    }
}

proptest! {
    #[test]
    fn off_gives_back_every_byte_and_twice_is_once(
        text in any_file(), modes in proptest::collection::vec(any_mode(), 1..5), last in any_mode(),
    ) {
        let mut now = text.clone();
        for mode in modes {
            now = with(&now, &wish(mode));
            prop_assert_eq!(&with(&now, &wish(mode)), &now);
        }
        // The way to a mode does not matter.
        prop_assert_eq!(with(&now, &wish(last)), with(&text, &wish(last)));
        prop_assert_eq!(with(&now, &wish(Mode::Off)), text);
    }

    #[test]
    fn any_bytes_are_rendered_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..120), mode in any_mode(),
    ) {
        let begin = b"backend web\n server a 1.1.1.1 ".to_vec();
        for bytes in [bytes.clone(), [begin, bytes, b"\n".to_vec()].concat()] {
            let files = [File { name: "a".to_owned(), bytes }];
            let _ = render(&files, &Setting::default(), &wish(mode));
        }
    }
}
