//! The precheck and the gate.

use super::*;

fn check_precheck(view: &View, stage: Stage, passes: bool, texts: &[&str]) {
    let found = Precheck::new(view, stage, MAX_AGE);
    let shown = found.to_string();
    assert_eq!(found.passes, passes, "{shown}");
    for text in texts {
        assert!(shown.contains(text), "no {text:?} in\n{shown}");
    }
}

/// One row of a main server with this word, and what the precheck makes of it.
fn check_status(change: impl Fn(&mut Observed), passes: bool, text: &str) {
    let mut states = seen(&[("lb-1", "web/gke-b", "UP")]);
    let node = states.nodes.get_mut("lb-1").unwrap();
    change(node.servers.values_mut().next().unwrap());
    let polls = fleet(&POLLS[..1], 7);
    let view = view(&ENTRIES, Some(&polls), states);
    check_precheck(&view, Stage::Main, passes, &[text, "1 of 1 rows known"]);
}

#[test]
fn the_precheck_takes_up_and_maint_and_nothing_else() {
    for (status, passes) in [
        ("UP", true),
        ("UP 1/2", true),
        ("no check", true),
        ("", true),
        ("MAINT", true),
        ("MAINT (via x/y)", true),
        ("DRAIN", false),
        ("DRAIN (agent)", false),
        ("DOWN", false),
        ("DOWN (agent)", false),
        ("NOLB", false),
    ] {
        let set = |observed: &mut Observed| {
            status.clone_into(&mut observed.status);
            observed.class = Class::of(status);
        };
        let text = if passes { "passes: stage main" } else { status };
        check_status(set, passes, text);
    }
    let weightless = |observed: &mut Observed| observed.weight = Some(0);
    check_status(
        weightless,
        true,
        "note    web/gke-b is UP at weight 0: it gets no traffic",
    );
    let old = |observed: &mut Observed| observed.at = before(61);
    check_status(old, false, "was UP 61 s ago, which is too old to know");
    let just = |observed: &mut Observed| observed.at = before(60);
    check_status(just, true, "passes");
    let up_or_not = |class| {
        move |observed: &mut Observed| {
            observed.exactness = Exactness::UpOrNot;
            observed.class = class;
        }
    };
    check_status(up_or_not(Class::Up), true, "passes");
    check_status(
        up_or_not(Class::Down),
        false,
        "is down or in maintenance: there is no",
    );
}

#[test]
fn an_up_that_may_be_a_drain_blocks_unless_ready_is_desired() {
    let mut states = seen(&[("lb-1", "canary_web/gke-cny-web", "UP")]);
    let node = states.nodes.get_mut("lb-1").unwrap();
    for observed in node.servers.values_mut() {
        observed.exactness = Exactness::UpOrNot;
    }
    let of = |state| view(&[("canary-state", state)], None, states.clone());
    check_precheck(&of("drain"), Stage::Cny, false, &["may be draining"]);
    check_precheck(&of("ready"), Stage::Cny, true, &[]);
}

#[test]
fn the_precheck_names_row_node_author_reason_and_since() {
    let found = [
        "note    canary_web/gke-cny-web is not known; its node last polled 41 s ago, on lb-3",
        "blocks  canary_web/gke-cny-web is DRAIN (agent), on lb-1; canary-state is drain by alice \
         since 2026-11-30T09:00:00Z: bad release\n",
        "blocked: stage cny, 4 of 5 rows known\n",
    ];
    check_precheck(&whole(), Stage::Cny, false, &found);
    let passes = "passes: stage main, 2 of 2 rows known\n";
    check_precheck(&whole(), Stage::Main, true, &[passes]);
}

#[test]
fn what_the_precheck_does_not_know_blocks() {
    let polls = fleet(&POLLS, 7);
    let nobody = view(&ENTRIES, Some(&polls), Observation::default());
    let text = [
        "nobody was asked",
        "0 of 2 rows are known",
        "web/gke-b is not known, on lb-1, lb-2",
    ];
    check_precheck(&nobody, Stage::Main, false, &text);
    let mut broken = seen(&STATES);
    broken.missing.push(Missing {
        what: "stats of lb-9".to_owned(),
        why: "refused".to_owned(),
    });
    let broken = view(&ENTRIES, Some(&polls), broken);
    check_precheck(
        &broken,
        Stage::Main,
        false,
        &["blocks  stats of lb-9: refused"],
    );
    // A node that polls, and that nobody has seen.
    let one = view(&ENTRIES, Some(&polls), seen(&STATES[..1]));
    check_precheck(
        &one,
        Stage::Main,
        false,
        &["web/gke-b is not known, on lb-2"],
    );
    // Nodes that were there lately: one asks no agent, one polls no longer.
    let mut gone = seen(&STATES);
    let lately = ["lb-7.example.org", "lb-3.example.org", "lb-1.example.org"];
    gone.gone = lately.map(name).into();
    let gone = view(&ENTRIES, Some(&polls), gone);
    let text = "blocks  node lb-7.example.org: was seen a short while ago, and is not now";
    check_precheck(&gone, Stage::Main, false, &[text]);
    assert_eq!(gone.unseen, 1);
    check_gate(&gone, false, &text[8..]);
    let empty = view(&[], None, seen(&[]));
    check_precheck(&empty, Stage::Main, false, &["0 of 0 rows are known"]);
    let nowhere = view(&ENTRIES, None, seen(&STATES[1..3]));
    check_precheck(
        &nowhere,
        Stage::Cny,
        false,
        &["no node is known to have web/gke-b"],
    );
}

fn check_gate(view: &View, up: bool, text: &str) {
    let gate = Gate::new(view, MAX_AGE);
    assert_eq!(gate.up, up, "{gate}");
    assert!(gate.to_string().contains(text), "no {text:?} in\n{gate}");
}

#[test]
fn the_gate_is_open_when_every_canary_backend_is_up() {
    let (cny, web) = ("canary_web/gke-cny-web", "web/gke-b");
    let with = |states: &[_]| view(&ENTRIES, None, seen(states));
    let up = with(&[
        ("lb-1", cny, "UP"),
        ("lb-2", cny, "UP"),
        ("lb-1", web, "DOWN"),
    ]);
    check_gate(&up, true, "canary is up: 2 canary backends");
    let drained = with(&[("lb-1", cny, "UP"), ("lb-2", cny, "DRAIN")]);
    let why = "canary_web is down on lb-2; canary-state is drain by alice";
    check_gate(&drained, false, why);
    // Called otherwise, and all its servers are canary ones.
    let other = with(&[("lb-1", "shop/gke-cny-shop", "DOWN"), ("lb-1", cny, "UP")]);
    check_gate(&other, false, "shop is down on lb-1");
}

#[test]
fn what_the_gate_does_not_know_means_no() {
    let up = [("lb-1", "canary_web/gke-cny-web", "UP")];
    check_gate(
        &view(&[], None, Observation::default()),
        false,
        "nobody was asked",
    );
    check_gate(
        &view(&[], None, seen(&STATES[..1])),
        false,
        "no canary backend is known",
    );
    let mut broken = seen(&up);
    broken.missing.push(Missing {
        what: "prometheus http://p:9090".to_owned(),
        why: "refused".to_owned(),
    });
    check_gate(
        &view(&[], None, broken),
        false,
        "prometheus http://p:9090: refused",
    );
    let mut old = seen(&up);
    for node in old.nodes.values_mut() {
        for backend in node.backends.values_mut() {
            backend.at = before(61);
        }
    }
    check_gate(
        &view(&[], None, old),
        false,
        "was last seen 61 s ago: too old",
    );
}
