//! Who is told of a change, and that a change does not depend on it.

use std::fs;
use std::time::{Duration, Instant};

use super::*;
use crate::harness::folder::Folder;
use crate::harness::receiver::{Answer, Receiver, Sent};

const TOKEN: &str = "a-token-that-nobody-may-see";

/// Runs a command that tells of it, and gives what was sent besides what it printed.
fn told(place: &Place, receiver: &Receiver, arguments: &[&str]) -> (Output, Vec<Sent>) {
    let url = format!("events={}", receiver.url("/changes"));
    let output = place.run(&[arguments, &["--announce-url", &url]].concat());
    (output, receiver.take())
}

#[test]
fn every_command_that_writes_tells_of_it_once_and_a_dry_run_of_nothing() {
    let receiver = Receiver::start(Answer::Status(204));
    for place in [Place::folder(), Place::consul()] {
        let check = |arguments: &[&str], text: &str| {
            if arguments != ["accept", "--yes", "--force"] {
                let dry = [arguments, &["--dry-run"]].concat();
                let (output, sent) = told(&place, &receiver, &dry);
                assert_eq!(
                    (output.code, sent.len()),
                    (Some(0), 0),
                    "{dry:?} {output:?}"
                );
            }
            let (output, sent) = told(&place, &receiver, arguments);
            assert_eq!(output.stderr, "", "{arguments:?}");
            assert_eq!(sent.len(), 1, "{arguments:?} {output:?}");
            assert_eq!(sent[0].body["text"], text, "{arguments:?}");
            assert_eq!(sent[0].body["outcome"], "written");
            assert_eq!(sent[0].path, "/changes");
            (output, sent[0].body.clone())
        };
        check(&["init"], "Environment set up");
        place.put("settings", SETTINGS);
        place.put("group-states/main", "ready");
        let drain = ["canary", "--drain", "--by", "ana", "--reason", "bad deploy"];
        let (output, body) = check(&drain, "Canary set to drain");
        let change = id(&output.stdout);
        expect_drain(&place, &body, &change);
        // Nothing to change is nothing to tell.
        let (output, sent) = told(&place, &receiver, &drain);
        assert_eq!((output.code, sent.len()), (Some(0), 0), "{output:?}");
        check(&["undo", &change], "Canary set to ready");
        check(
            &["set", "drain", "web/a", "-z", "b"],
            "web/a set to drain on the nodes of zone z-b",
        );
        check(
            &["clear", "web/a", "-z", "b"],
            "web/a cleared on the nodes of zone z-b",
        );
        check(&["deploy", "start", "cny"], "Deploy of cny started");
        check(&["deploy", "finish", "cny"], "Deploy of cny finished");
        let accept = ["accept", "--yes", "--force"];
        let url = format!("events={}", receiver.url("/changes"));
        let dead = ["--announce-url", &url, "--replica", "http://127.0.0.1:1"];
        expect(
            &place.run(&[&accept[..], &dead].concat()),
            0,
            &["accepted: "],
        );
        let sent = receiver.take();
        let text = sent[0].body["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("History accepted as generation"), "{text}");
    }
}

/// Who, when, why, what, and how to take it back.
fn expect_drain(place: &Place, body: &Value, change: &str) {
    for (field, value) in [
        ("by", "ana"),
        ("reason", "bad deploy"),
        ("environment", "gprd"),
        ("change", change),
        ("undo", &format!("tidegate undo {change} --env gprd")),
    ] {
        assert_eq!(body[field], value, "{body}");
    }
    let at = body["at"]
        .as_str()
        .and_then(|at| at.parse::<jiff::Timestamp>().ok());
    assert!(at.is_some(), "{body}");
    let command = body["command"].as_str().unwrap_or_default();
    assert!(command.starts_with("tidegate canary --drain"), "{body}");
    let keys = body["keys"].as_array().expect("it has keys");
    assert_eq!(keys.len(), 1, "{body}");
    assert_eq!(keys[0]["path"], "canary-state");
    let after = keys[0]["after"].as_str().unwrap_or_default();
    assert_eq!(Some(after), place.get("canary-state").as_deref());
    let rows = body["rows"].as_array().expect("it has rows");
    assert_eq!(rows[0]["server"], "web/cny", "{body}");
    assert_eq!(rows[0]["before"], "ready 100%");
    assert_eq!(rows[0]["after"], "drain");
}

#[test]
fn a_receiver_that_fails_is_a_note_and_the_change_stands() {
    let place = Place::folder();
    set_up(&place);
    let redirect = Receiver::start(Answer::Redirect);
    let tls = Receiver::start(Answer::Status(200));
    for (number, (url, note)) in [
        (
            Receiver::start(Answer::Status(500)).url("/"),
            "events: it answers 500",
        ),
        (redirect.url("/"), "redirects are not followed"),
        (
            "http://127.0.0.1:1/".to_owned(),
            "events: Connection refused",
        ),
        (format!("https://{}/", tls.address()), "events: "),
        (
            Receiver::start(Answer::Never).url("/"),
            "events: no answer within 3s",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let state = ["--drain", "--ready"][number % 2];
        let begin = Instant::now();
        let url = format!("events={url}");
        let output = place.run(&["canary", state, "--announce-url", &url]);
        assert_eq!(output.code, Some(0), "{url}: {output:?}");
        let note = format!("note: the change was not announced to {note}");
        let named = output.stderr.contains(&note) || note.contains("redirects");
        assert!(
            named && output.stderr.contains("note: "),
            "{url}: {output:?}"
        );
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{:?}",
            begin.elapsed()
        );
        assert_eq!(place.json("canary-state")["state"], state[2..], "{url}");
    }
    assert_eq!(redirect.take().len(), 1, "it was not followed");
    assert!(tls.take().is_empty(), "nothing was said in clear");
    // A body without an end is not waited for.
    let endless = Receiver::start(Answer::EndlessBody);
    let (output, sent) = told(&place, &endless, &["canary", "--ready"]);
    assert_eq!(
        (output.code, output.stderr.as_str(), sent.len()),
        (Some(0), "", 1)
    );
}

#[test]
fn each_receiver_has_its_own_token_and_form_and_no_secret_is_shown() {
    let place = Place::folder();
    set_up(&place);
    let folder = Folder::new("secrets");
    let (events, chat) = (
        Receiver::start(Answer::Status(200)),
        Receiver::start(Answer::Status(200)),
    );
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("the folder takes files");
        path.display().to_string()
    };
    let token = write("token", &format!("{TOKEN}\n"));
    let hook = write("hook", &format!("{}\n", chat.url("/hook/secret-path")));
    let config = write(
        "tidegate.toml",
        &format!(
            "[announce]\nchat = [\"chat\"]\n[announce.urls]\nevents = \"{}\"\nchat = \"file:{hook}\"\n\
             gone = \"file:/nowhere\"\n[announce.token_files]\nevents = \"{token}\"\n",
            events.url("/")
        ),
    );
    let arguments = ["canary", "--drain", "--config", &config, "--by", "ana"];
    let output = place.run(&arguments);
    let shown = expect(&output, 0, &["gone: /nowhere: No such file"]);
    let events = events.take();
    assert_eq!(events[0].authorization, Some(format!("Bearer {TOKEN}")));
    let chat = chat.take();
    assert_eq!(chat[0].path, "/hook/secret-path");
    assert_eq!(chat[0].authorization, None);
    let text = chat[0].body["text"].as_str().unwrap_or_default();
    assert!(
        text.starts_with("gprd: Canary set to drain, by ana (to take it back: "),
        "{text}"
    );
    assert_eq!(chat[0].body.as_object().map(serde_json::Map::len), Some(1));
    // And of a chat's hook that is away.
    write("hook", "http://127.0.0.1:1/hook/secret-path");
    let output = place.run(&["canary", "--ready", "--config", &config]);
    let shown = shown + &expect(&output, 0, &["announced to chat: Connection refused"]);
    assert!(
        !shown.contains(TOKEN) && !shown.contains("secret-path"),
        "{shown}"
    );
    write("token", "two\nlines");
    let output = place.run(&["canary", "--drain", "--config", &config]);
    let shown = expect(&output, 0, &["no token that fits a header"]);
    assert!(!shown.contains("two"), "{shown}");
}

#[test]
fn a_slip_in_who_is_told_is_said_before_anything_is_written() {
    let place = Place::folder();
    set_up(&place);
    for (arguments, text) in [
        (
            ["--announce-url", "https://events.example.org"],
            "is no pair",
        ),
        (
            ["--announce-url", "events=ftp://events"],
            "begins with neither",
        ),
        (
            ["--announce-url", "events=https://me:secret@events"],
            "has more than a host",
        ),
        (["--announce-url", "events=file:"], "the path is missing"),
        (["--announce-chat", "chat"], "chat is none of announce.urls"),
        (
            ["--announce-token-file", "events=/x"],
            "events is none of announce.urls",
        ),
    ] {
        let output = place.run(&[&["canary", "--drain"], &arguments[..]].concat());
        let shown = expect(&output, 2, &[text]);
        assert!(!shown.contains("secret"), "{shown}");
    }
    assert_eq!(place.json("canary-state")["state"], "ready");
}
