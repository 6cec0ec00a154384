//! What stands on it.

use std::time::{Duration, Instant};

use super::{await_page, await_words, page, words};
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::trio::Trio;
use crate::harness::wait::{PATIENCE, check, eventually};

const HOSTILE: &str = "\\\"><img src=x onerror=alert(1)> </p><script>alert(2)</script> \\u202egnp";

#[test]
fn it_shows_who_asked_for_what_and_the_commands_for_what_comes_next() {
    let (state, tidegate) = Tidegate::start_drained();
    let canary = r#"{"v":1,"state":"drain","then":{"state":"maint","after":"1h"},
        "since":"SINCE","by":"ana.ops","reason":"error rate","change":"01JDZ3N8"}"#;
    state.put("canary-state", canary.replace("SINCE", &seconds_ago(10)));
    state.put("zones/b/canary-state", "40%");
    let end = seconds_ago(-3_600);
    let lock = format!(r#"{{"active":true,"url":"https://ci.example/1","until":"{end}"}}"#);
    state.put("deploys/cny", lock);
    tidegate.await_answer(
        "web/gke-cny-web canary node=lb-1 zone=b",
        "up ready 40%",
        PATIENCE,
    );
    tidegate.await_answer(
        "web/gke-cny-web canary node=lb-2 zone=c",
        "up drain",
        PATIENCE,
    );
    let shown = words(&await_page(&tidegate, "ana.ops"));
    for text in [
        "drain error rate by ana.ops",
        "change 01JDZ3N8",
        "Becomes maint",
        "Deploy to cny is running",
        "nodes of zone b : ready 40%",
        "tidegate canary --env gprd --slowly --reason WHY",
        "tidegate canary --env gprd --ready --reason WHY",
        "tidegate history --env gprd",
        "a this one current confirmed by the source",
        "Server Asked for b c web/ gke-cny-web canary by node ready 40% ×1 drain ×1",
        "2 nodes, none silent, all told what stands",
        "lb-1 b ",
    ] {
        assert!(shown.contains(text), "{text:?}: {shown}");
    }
    let title = format!("{} · gprd · Tidegate", "drain");
    assert!(shown.starts_with(&title), "{shown}");
}

#[test]
fn a_ramp_is_a_picture_of_its_steps_and_nodes() {
    let (state, tidegate) = Tidegate::start_drained();
    let ramp = r#"{"v":1,"state":"ready","since":"SINCE","by":"ana","ramp":{"by":"nodes",
        "steps":[25,50],"every":"1h","nodes":["lb-1","lb-2","lb-3","lb-4"]}}"#;
    let ramp = ramp.replace("SINCE", &seconds_ago(5_400));
    state.put("canary-state", &ramp);
    let line = |node: u8| format!("web/gke-cny-web canary node=lb-{node}");
    for (node, answer) in [
        (1, "up ready 100%"),
        (2, "up ready 100%"),
        (3, "up drain"),
        (4, "up drain"),
    ] {
        tidegate.await_answer(&line(node), answer, PATIENCE);
    }
    let html = await_words(&tidegate, "2 of 4 nodes have it");
    let shown = words(&html);
    for text in [
        "ramp 50% of the nodes",
        "25% done 50% now 100% ahead",
        "Next step 100%",
        "2 of 4 nodes have it; 2 still have what was before.",
        "In: lb-1, lb-2 Out: lb-3, lb-4",
        "tidegate canary --env gprd --hold",
    ] {
        assert!(shown.contains(text), "{text:?}: {shown}");
    }
    // Half of the step is over.
    let gone = html.split("id=\"gone\"").nth(1).expect("the step is drawn");
    let width = gone
        .split("width=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let width: u16 = width
        .and_then(|width| width.parse().ok())
        .expect("a number");
    assert!((500..=520).contains(&width), "{width}");
    assert_eq!(html.matches("class=\"dot in\"").count(), 2);

    state.put("canary-state", ramp.replace(r#","every":"1h""#, ""));
    let shown = words(&await_page(&tidegate, "held at 25%"));
    for text in [
        "Held.",
        "1 of 4 nodes",
        "tidegate canary --env gprd --resume",
    ] {
        assert!(shown.contains(text), "{text:?}: {shown}");
    }
}

#[test]
fn problems_say_what_to_do() {
    let (state, tidegate) = Tidegate::start_drained();
    state.put("server-overrides/web/a", "draim");
    state.put("zones/b/canary-state", "dran");
    state.put("settings", r#"{"guard":{"rows_max":1},"what":1}"#);
    let overdue = format!(r#"{{"state":"maint","until":"{}"}}"#, seconds_ago(60));
    state.put("server-overrides/web/b", overdue);
    tidegate.await_answer("web/a", "unknown-directive", PATIENCE);
    tidegate.ask("web/c misspelt node=lb-9\n");
    let shown = words(&await_page(&tidegate, "names an unknown group"));
    for text in [
        "A key cannot be read server-overrides/web/a: \"draim\" is none of",
        "$ tidegate clear --env gprd web/a".trim_start_matches("$ "),
        "tidegate canary --env gprd --clear -z b",
        "The settings hold a mistake",
        "A change is past its end server-overrides/web/b",
        "1 row names an unknown group lb-9",
    ] {
        assert!(shown.contains(text), "{text:?}: {shown}");
    }
    // The heaviest first.
    let at = |text: &str| shown.find(text).expect(text);
    assert!(at("A key cannot be read") < at("A change is past its end"));

    state.remove("_meta");
    let shown = words(&await_page(&tidegate, "This replica answers nothing"));
    for text in [
        "a held",
        "HAProxy keeps its state",
        "_meta is missing",
        "tidegate accept --env gprd --dry-run",
    ] {
        assert!(shown.contains(text), "{text:?}: {shown}");
    }
}

#[test]
fn hostile_names_and_reasons_are_text() {
    let (state, tidegate) = Tidegate::start_drained();
    let canary = format!(
        r#"{{"v":1,"state":"drain","by":"{HOSTILE}","reason":"{HOSTILE}","change":"{HOSTILE}"}}"#
    );
    state.put("canary-state", canary);
    let deploy = r#"{"active":true,"by":"<b>","url":"javascript:alert(1)"}"#;
    state.put("deploys/cny", deploy);
    state.put("group-states/<b onclick=alert(3)>", "ready");
    state.put("server-overrides/web/a", "<i>draim</i>");
    let html = await_page(&tidegate, "unknown key");
    for forbidden in ["<img", "<script>", "<b onclick", "<i>draim", "\u{202e}"] {
        assert!(!html.contains(forbidden), "{forbidden}: {html}");
    }
    assert!(html.contains("<bdi>&lt;b&gt;</bdi>"), "{html}");
    assert!(!html.contains("href=\"javascript"), "a link to a script");
    let shown = words(&html);
    assert!(
        shown.contains("\"><img src=x onerror=alert(1)> </p><script>alert(2)"),
        "{shown}"
    );
    assert!(shown.contains("\\u{202e}gnp"), "{shown}");
}

/// No request to elsewhere, nothing inline: what the policy forbids is not there either.
#[test]
fn everything_on_it_comes_from_this_service() {
    let (_state, tidegate) = Tidegate::start_drained();
    let answer = page(&tidegate);
    let policy = answer.header("content-security-policy").expect("a policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let html = answer.text();
    assert!(!html.contains("style="), "inline style");
    assert!(!html.contains("<style"), "inline style");
    for handler in [" onclick=", " onload=", " onerror=", " onchange="] {
        assert!(!html.contains(handler), "{handler}");
    }
    assert!(html.contains("<script src=\"/assets/"), "{html}");
    assert_eq!(html.matches("<script").count(), 1);
    let mut files = 0;
    for attribute in ["href=\"", "src=\"", "action=\""] {
        for value in html.split(attribute).skip(1) {
            let value = value.split('"').next().expect("a value");
            let own =
                value.starts_with('#') || (value.starts_with('/') && !value.starts_with("//"));
            assert!(own, "{attribute}{value}");
            files +=
                usize::from(value.starts_with("/assets/") && is_kept_for_ever(&tidegate, value));
        }
    }
    assert_eq!(files, 3, "style, script and icon");
    assert_eq!(
        tidegate.get("/assets/page-0000000000000000.css").status,
        404
    );
}

fn is_kept_for_ever(tidegate: &Tidegate, path: &str) -> bool {
    let answer = tidegate.get(path);
    assert_eq!(answer.status, 200, "{path}");
    for elsewhere in ["http:", "https:", "//", "@import", "url("] {
        // A comment of the script, and the name space of an icon, are no requests.
        let text = answer.text().replace("http://www.w3.org/2000/svg", "");
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let mut lines = lines.map(|line| line.split(" // ").next().unwrap_or(line));
        assert!(
            !lines.any(|line| line.contains(elsewhere)),
            "{path}: {elsewhere}"
        );
    }
    answer.header("cache-control") == Some("public, max-age=31536000, immutable")
}

#[test]
fn it_shows_all_replicas_and_names_the_one_that_is_gone() {
    let mut trio = Trio::start();
    trio.replicas[1].ask("web/gke-cny-web canary node=lb-1\n");
    // Asked at another replica.
    await_page(&trio.replicas[0], "node-lb-1");
    for peer in ["b", "c"] {
        trio.replicas[0].await_counted(peer, "current");
        await_page(&trio.replicas[0], &format!("<b>{peer}</b>"));
    }
    trio.replicas[2].kill();
    eventually("the dead one is named", PATIENCE, || {
        let shown = words(&page(&trio.replicas[0]).text());
        let named = ["c dead", "A replica has not reported c:"];
        check(named.iter().all(|text| shown.contains(text)), || shown)
    });
}

#[test]
fn four_thousand_rows_are_a_page_that_can_be_read() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let rows = (0..100).flat_map(|node| (0..40).map(move |server| (node, server)));
    for (node, server) in rows {
        let group = if server < 8 { " canary" } else { "" };
        let zone = node % 3;
        let mark = if server < 8 { "cny" } else { "main" };
        tidegate.ask(format!(
            "web_{server}/gke-{mark}-{server}{group} node=haproxy-main-{node} zone=us-east1-{zone}\n"
        ));
    }
    let html = await_page(&tidegate, "4000 rows");
    assert!(html.len() < 256 << 10, "{} bytes", html.len());
    let begun = Instant::now();
    for _ in 0..5 {
        page(&tidegate);
        assert_eq!(tidegate.ask_line("web/gke-cny-web canary"), "up drain");
    }
    let each = begun.elapsed() / 5;
    assert!(each < Duration::from_secs(1), "{each:?}");
}

/// A moment as directives write it.
fn seconds_ago(seconds: i64) -> String {
    let now = tidegate::clock::now();
    let at = now - jiff::SignedDuration::from_secs(seconds);
    at.strftime("%FT%TZ").to_string()
}
