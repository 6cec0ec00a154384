//! `diff` of changes, and the history by selectors.

use super::*;

/// A drain of the canary in one zone, a server, and the canary again by hand.
fn story(place: &Place) -> [String; 3] {
    set_up(place);
    let by = ["--by", "ana"];
    let done = |arguments: &[&str]| id(&place.done(&[arguments, &by].concat()));
    let first = done(&["canary", "--drain", "--reason", "bad\u{1b} deploy"]);
    let second = done(&["set", "drain", "web/a", "-z", "b"]);
    let third = done(&["canary", "--ready"]);
    [first, second, third]
}

#[test]
fn a_change_is_compared_with_what_stands_now_and_with_another_change() {
    for place in [Place::folder(), Place::consul()] {
        let [first, second, third] = &story(&place);
        // Now: the canary is ready again, and the server as it was left.
        let shown = expect(&place.run(&["diff", first]), 10, &[]);
        let value = |key: &str| place.get(key).expect("it stands");
        let at = history(&place, &[third])[0]["at"]
            .as_str()
            .unwrap_or_default()[..19]
            .to_owned();
        let ready = value("canary-state");
        let drained = history(&place, &[first])[0]["changed"][0]["after"].clone();
        let expected = format!(
            "1 keys are no longer as {first} left them\ncanary-state\n  - {}\n  + {ready}\n  \
             by ana at {at}Z, change {third}\n\n",
            drained.as_str().unwrap_or_default()
        );
        assert_eq!(shown, expected);
        expect(&place.run(&["diff", second]), 0, &["0 keys are no longer"]);
        // Between: the server alone, then both.
        let shown = expect(
            &place.run(&["diff", &format!("{first}..{second}")]),
            10,
            &[],
        );
        let server = "zones/z-b/server-overrides/web/a";
        let after = value(server);
        assert!(
            shown.starts_with(&format!(
                "1 keys differ between {first} and {second}\n{server}\n  - (nothing)\n  + {after}\n"
            )),
            "{shown}"
        );
        let json = ["diff", &format!("{first}..{third}"), "--output", "json"];
        let output = place.run(&json);
        assert_eq!((output.code, output.stderr.as_str()), (Some(10), ""));
        let json: Value = serde_json::from_str(&output.stdout).expect("it is JSON");
        assert_eq!(
            (&json["from"], &json["to"]),
            (&Value::from(&first[..]), &Value::from(&third[..]))
        );
        let paths: Vec<_> = json["differences"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(paths.len(), 2, "{json}");
        assert_eq!(paths[0]["path"], "canary-state");
        assert_eq!(paths[0]["by"], "ana");
        assert_eq!(paths[1]["before"], Value::Null);
        // By hand, without a record.
        place.put(server, "maint");
        let texts = [
            "  + maint\n",
            "WARNING: zones/z-b/server-overrides/web/a was written by something",
        ];
        expect(&place.run(&["diff", second]), 10, &texts);
        for (what, text) in [
            (format!("{third}..{first}"), "is the later change"),
            ("01J00000000000000000000000".to_owned(), "no change \"01J"),
            (
                format!("{first}..01J00000000000000000000000"),
                "no change \"01J",
            ),
        ] {
            expect(&place.run(&["diff", &what]), 2, &[text]);
        }
    }
}

#[test]
fn rows_are_compared_with_what_they_were_told() {
    let place = Place::folder();
    set_up(&place);
    let service: Tidegate = place.serve();
    let replica = format!("http://{}", service.http());
    let diff = |more: &[&str]| place.run(&[&["diff", "--replica", &replica], more].concat());
    let line = "web/cny canary node=lb-1 zone=z-b";
    service.await_answer(line, "up ready 100%", PATIENCE);
    let same = "0 of 1 rows differ from what is desired\n\
                HAProxy's own word: nobody (give --prometheus or --stats)\n";
    let output = eventually("the poll is counted", PATIENCE, || {
        let output = diff(&[]);
        check(output.code == Some(0) && output.stdout == same, || {
            format!("{output:?}")
        })
        .map(|()| output)
    });
    assert_eq!(output.stderr, "");
    place.done(&["canary", "--drain", "--by", "ana", "--reason", "bad deploy"]);
    let since = place.json("canary-state")["since"].clone();
    let since = since.as_str().unwrap_or_default();
    let output = eventually("the row was not told", PATIENCE, || {
        let output = diff(&["zone=b"]);
        check(output.code == Some(10), || format!("{output:?}")).map(|()| output)
    });
    assert_eq!(
        output.stdout,
        format!(
            "1 of 1 rows differ from what is desired\n\
             HAProxy's own word: nobody (give --prometheus or --stats)\n\
             SERVER   DESIRED  SERVED      HAPROXY  NODES  WHY\n\
             web/cny  drain    ready 100%  -        lb-1   not told the newest listing, was told \
             ready 100%; canary-state is drain by ana since {since}: bad deploy\n"
        )
    );
    assert_eq!(output.stderr, "");
    let json: Value = serde_json::from_str(&diff(&["--output", "json"]).stdout).expect("JSON");
    assert_eq!(
        (&json["compared"], &json["rows"][0]["node"]),
        (&1.into(), &"lb-1".into())
    );
    service.await_answer(line, "up drain", PATIENCE);
    eventually("it was told", PATIENCE, || {
        let output = diff(&["group=canary"]);
        check(output.code == Some(0), || format!("{output:?}"))
    });
    // Whoever cannot be asked may know better: that is no 0.
    let more = ["--replica", "http://127.0.0.1:1"];
    expect(
        &diff(&more),
        1,
        &[
            "not everything could be compared",
            "127.0.0.1:1: Connection refused",
        ],
    );
}

#[test]
fn the_history_is_searched_by_selectors() {
    let place = Place::folder();
    let [first, second, third] = story(&place);
    let settings = SETTINGS.replace("\"zone\":\"z-b\"", "\"zone\":\"z-b\",\"role\":\"main\"");
    place.put("settings", &settings);
    let fourth = id(&place.done(&["set", "drain", "web/b", "--node", "lb-1"]));
    for (words, expected) in [
        (&["web/a"][..], vec![&second]),
        (&["group=canary"], vec![&third, &first]),
        // The canary's directives are about its servers.
        (&["server=cny"], vec![&third, &first]),
        (&["backend=web", "server=[ab]"], vec![&fourth, &second]),
        (&["group=main"], vec![&fourth, &second]),
        (&["zone=b"], vec![&fourth, &second]),
        (&["node=lb-1"], vec![&fourth]),
        (&["role=main"], vec![&fourth]),
        (&[&first[..]], vec![&first]),
    ] {
        let found = history(&place, words);
        let ids: Vec<_> = found
            .iter()
            .filter_map(|record| record["change"].as_str())
            .collect();
        assert_eq!(ids, expected, "{words:?}");
    }
    for (word, text) in [
        ("web/none", "no change of \"web/none\" is known"),
        ("zone=q", "no change of"),
        ("colour=red", "unknown tag"),
    ] {
        expect(&place.run(&["history", word]), 2, &[text]);
    }
}
