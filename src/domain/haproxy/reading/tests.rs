use super::*;

fn read<'a>(files: &'a [File], setting: &Setting) -> Result<Reading<'a>, Unknown> {
    Reading::of(files, setting)
}

fn file(text: &str) -> File {
    File {
        name: "a.cfg".to_owned(),
        bytes: text.as_bytes().to_vec(),
    }
}

/// The lines that count, each with a blank between its words.
fn counting(text: &str, setting: &Setting) -> Vec<String> {
    let files = [file(text)];
    let reading = read(&files, setting).unwrap();
    assert_eq!(reading.faults, [], "{text}");
    let counting = reading.lines.iter().filter(|line| line.counts);
    let joined = counting.map(|line| {
        let words: Vec<_> = line
            .arguments()
            .iter()
            .map(|word| word.text.as_str())
            .collect();
        words.join(" ")
    });
    joined.collect()
}

fn check_fault(text: &str, place: &str, what: &str) {
    let files = [file(text)];
    let reading = read(&files, &Setting::default()).unwrap();
    let found: Vec<_> = reading
        .faults
        .iter()
        .map(|fault| (reading.place(fault.line), fault.what.clone()))
        .collect();
    assert!(
        matches!(&found[..], [(at, why)] if at == place && why.contains(what)),
        "{text}: {found:?}"
    );
}

#[test]
fn branches_that_do_not_hold_are_left_out() {
    let text = "global\n.if 0\n log a\n .if 1\n log b\n .else\n log c\n .endif\n.elif 1\n log d\n\
                .elif 1\n log e\n.else\n log f\n.endif\n.notice \"so so\"\n log g\n";
    assert_eq!(
        counting(text, &Setting::default()),
        ["global", "log d", "log g"]
    );
}

#[test]
fn the_environment_is_followed_line_by_line() {
    let text = "global\n setenv A 1\n presetenv A 2\n presetenv B 3\n log \"$A$B$C\"\n unsetenv A\n\
                log \"$A$B\"\n resetenv C\n log \"$B$C\"\nbackend \"$C\"\n log \"${.SECTION}${.LINE}\"\n";
    let setting = Setting {
        environment: BTreeMap::from([("C".to_owned(), "c".to_owned())]),
        ..Setting::default()
    };
    let lines = counting(text, &setting);
    let logs: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("log"))
        .collect();
    assert_eq!(logs, ["log 13c", "log 3", "log c", "log c11"]);
}

#[test]
fn a_question_that_nobody_answers_is_told() {
    let files = [file("global\n.if feature(QUIC)\n log a\n.endif\n")];
    let unknown = read(&files, &Setting::default()).unwrap_err();
    assert_eq!(unknown.to_string(), "feature(QUIC)");
    let mut setting = Setting::default();
    setting.supposed.insert(unknown.0, true);
    let reading = read(&files, &setting).unwrap();
    assert!(reading.lines[2].counts);
}

#[test]
fn what_haproxy_refuses_is_told_with_its_line() {
    check_fault("global\n log 'a\n", "a.cfg:2", "quote");
    check_fault("global\n log a", "a.cfg:2", "no line end");
    check_fault("log a\n", "a.cfg:1", "no section");
    check_fault("global\n.if 1\n", "a.cfg:2", "without .endif");
    check_fault("global\n.endif\n", "a.cfg:2", ".endif without .if");
    check_fault(
        "global\n.if 1\n.else\n.else\n.endif\n",
        "a.cfg:4",
        "behind .else",
    );
    check_fault(
        "global\n.if 1\n.else\n.elif 1\n.endif\n",
        "a.cfg:4",
        "behind .else",
    );
    check_fault(
        "global\n.if foo(1)\n.endif\n",
        "a.cfg:2",
        "no condition begins",
    );
    check_fault("global\n.if 0\n log 'a\n.endif\n", "a.cfg:3", "quote");
    check_fault("global\n.alert \"not here\"\n", "a.cfg:2", "not here");
    check_fault("global\n.foo\n", "a.cfg:2", "unknown directive");
    check_fault("global\n log a\0b\n", "a.cfg:2", "zero byte");
    let deep = format!("global\n{}{}", ".if 1\n".repeat(16), ".endif\n".repeat(15));
    check_fault(&deep, "a.cfg:17", "more than 15 .if");
}

#[test]
fn a_line_says_where_its_bytes_are() {
    let files = [file("global # one\n\tlog \"a b\" # two\n")];
    let reading = read(&files, &Setting::default()).unwrap();
    let line = &reading.lines[1];
    assert_eq!(reading.bytes(line), b"\tlog \"a b\" # two");
    let comment = line.comment.clone().unwrap();
    assert_eq!(&files[0].bytes[comment], b"# two");
    assert_eq!(&reading.bytes(line)[line.words[1].span.clone()], b"\"a b\"");
    assert_eq!(reading.shown(line), "log \"a b\" # two");
    assert_eq!(reading.place(1), "a.cfg:2");
}
