use super::*;
use crate::domain::name::ServerId;
use crate::domain::settings::Settings;
use crate::domain::topology::Topology;
use proptest::prelude::*;

const SETTINGS: &str = r#"{"rows":[
    {"server":"web/gke-b","zone":"us-east1-b","groups":["main"]},
    {"server":"web/gke-c","zone":"us-east1-c","groups":["main"]},
    {"server":"web/gke-cny-web","groups":["canary"],"roles":["main"]},
    {"server":"main_web/gke-b","zone":"us-east1-b","groups":["main"],"roles":["main"]},
    {"server":"https_git/git-10","zone":"us-east1-b","groups":["main","git"],"roles":["main","ci"]}],
    "nodes":[{"name":"main-1","zone":"us-east1-b","role":"main"},
             {"name":"main-2","zone":"us-east1-c","role":"main"},
             {"name":"ci-1","zone":"us-east1-b","role":"ci"}]}"#;

fn topology() -> Topology {
    let (settings, _) = Settings::parse(SETTINGS.as_bytes()).unwrap();
    Topology::from_settings(&settings, None)
}

/// The keys that a selector leads to, without the part that all have.
fn keys(text: &str) -> Result<Vec<String>, String> {
    let selector = Selector::parse(text).map_err(|error| error.to_string())?;
    let selection = Selection::new(&selector, &topology()).map_err(|error| error.to_string())?;
    let key =
        |key: &crate::domain::key::DirectiveKey| key.to_string().replace("server-overrides/", "");
    Ok(selection.keys().iter().map(key).collect())
}

fn check(text: &str, expected: &[&str]) {
    assert_eq!(keys(text).unwrap(), expected, "{text}");
}

fn check_refused(text: &str, expected: &str) {
    match keys(text) {
        Err(error) if error.contains(expected) => {}
        got => panic!("{text}: expected {expected:?}, got {got:?}"),
    }
}

#[test]
fn a_bare_word_is_a_part_of_backend_and_server() {
    check("git-10", &["https_git/git-10"]);
    check("b/gke-b", &["main_web/gke-b", "web/gke-b"]);
    check("cny,git-10", &["https_git/git-10", "web/gke-cny-web"]);
    check(" web/gke-c  web/gke-b", &["web/gke-b", "web/gke-c"]);
}

#[test]
fn a_whole_name_of_a_row_means_that_row_alone() {
    check("web/gke-b", &["web/gke-b"]);
    check("web/gke-c", &["web/gke-c"]);
}

#[test]
fn an_expression_matches_the_whole_value() {
    check_refused("backend=we", "no server matches \"backend=we\"");
    check("backend=web server=gke-[bc]", &["web/gke-b", "web/gke-c"]);
    check("backend=web,server=gke-.{1,1}", &["web/gke-b", "web/gke-c"]);
    check(
        "backend=main_web|https_git",
        &["https_git/git-10", "main_web/gke-b"],
    );
    check("server=gke-b backend=web", &["web/gke-b"]);
    check("group=git", &["https_git/git-10"]);
    check("group=main gke-c", &["web/gke-c"]);
    check_refused("group=mai", "no server matches");
}

#[test]
fn a_zone_is_the_lb_nodes_and_may_be_its_last_part() {
    check("zone=us-east1-b cny", &["zones/us-east1-b/web/gke-cny-web"]);
    check("zone=b cny", &["zones/us-east1-b/web/gke-cny-web"]);
    let both = [
        "zones/us-east1-b/web/gke-cny-web",
        "zones/us-east1-c/web/gke-cny-web",
    ];
    check("zone=[bc] cny", &both);
    check("zone=us-.* cny", &both);
    check_refused("zone=e", "known are us-east1-b, us-east1-c");
    check_refused("zone=us", "no LB node");
    check_refused("zone=c git-10 zone=b", "no LB node");
}

#[test]
fn nodes_and_roles_lead_to_keys_of_nodes_unless_all_are_meant() {
    check(
        "node=main-.* cny",
        &[
            "nodes/main-1/web/gke-cny-web",
            "nodes/main-2/web/gke-cny-web",
        ],
    );
    check("role=main cny", &["web/gke-cny-web"]);
    check("role=ci git-10", &["nodes/ci-1/https_git/git-10"]);
    check("role=main zone=b web/gke-b", &["nodes/main-1/web/gke-b"]);
    check_refused(
        "role=ci cny",
        "no LB node that has one of the servers matches",
    );
}

#[test]
fn the_last_part_of_two_zones_is_refused() {
    let settings = SETTINGS.replace(
        "\"ci-1\",\"zone\":\"us-east1-b\"",
        "\"ci-1\",\"zone\":\"us-west1-b\"",
    );
    let (settings, _) = Settings::parse(settings.as_bytes()).unwrap();
    let topology = Topology::from_settings(&settings, None);
    let selector = Selector::parse("zone=b server=.*").unwrap();
    let error = Selection::new(&selector, &topology)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "zone=b may be us-east1-b or us-west1-b: write the whole name"
    );
}

#[test]
fn what_is_no_selector_says_why() {
    check_refused("", "to select all write server=.*");
    check_refused(" , ", "to select all write server=.*");
    check_refused(
        "backnd=web",
        "unknown tag \"backnd\": known are backend, server, group, zone, node, role; did you mean backend?",
    );
    check_refused(
        "colour=red",
        "known are backend, server, group, zone, node, role",
    );
    check_refused("backend=", "backend= has no value");
    check_refused("backend=web(", "unclosed group");
    check_refused("server=a)|(b", "unopened group");
    check_refused("server=.{1000}{1000}", "size limit");
    check_refused(&"a".repeat(4_097), "longer than 4096 bytes");
}

#[test]
fn a_bad_expression_is_shown_with_the_place() {
    let error = keys("backend=web[").unwrap_err();
    assert!(error.contains("web[\n") && error.contains('^'), "{error}");
}

#[test]
fn nothing_known_is_never_everything() {
    let selector = Selector::parse("server=.*").unwrap();
    let error = Selection::new(&selector, &Topology::default()).unwrap_err();
    assert_eq!(error, SelectionError::NothingKnown);
}

#[test]
fn the_counts_are_told_in_one_line() {
    let selector = Selector::parse("server=gke-.*").unwrap();
    let counts = Selection::new(&selector, &topology()).unwrap().counts;
    assert_eq!(
        counts.to_string(),
        "4 servers on 3 nodes; backends: main_web 1, web 3; groups: canary 1, main 3; \
         zones of the nodes: us-east1-b 6, us-east1-c 4"
    );
    let selector = Selector::parse("git-10 node=ci-1").unwrap();
    let counts = Selection::new(&selector, &topology()).unwrap().counts;
    assert!(
        counts.to_string().starts_with("1 server on 1 node;"),
        "{counts}"
    );
}

#[test]
fn a_row_on_a_node_is_matched_as_the_selection_does() {
    let topology = topology();
    let server = ServerId::parse("web/gke-b").unwrap();
    let matches = |text: &str, node: Option<&str>| {
        let selector = Selector::parse(text).unwrap();
        let zones = topology.zones();
        let matcher = Matcher::new(&selector, &zones, |_| false).unwrap();
        let node = node.and_then(|name| topology.nodes().get_key_value(name));
        let on_node = node.map_or(!selector.is_about_nodes(), |(name, node)| {
            matcher.matches_node(&CandidateNode {
                name,
                zone: node.zone.as_ref(),
                role: node.role.as_ref(),
            })
        });
        on_node && matcher.matches_server(&server, &topology.rows()[&server].groups)
    };
    assert!(matches("backend=web zone=us-east1-b role=ci", Some("ci-1")));
    assert!(!matches("backend=web zone=us-east1-c", Some("ci-1")));
    assert!(!matches("zone=us-east1-b", None), "no node is known");
    assert!(matches("gke-b", None));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z=,. (|)\\[*{}^$]{0,40}") {
        let _ = keys(&text);
    }

    #[test]
    fn no_selection_is_empty(text in "(backend|server|group|zone|node|role)=[a-z.*]{1,4}( [a-z]{1,3})?") {
        if let Ok(keys) = keys(&text) {
            prop_assert!(!keys.is_empty());
        }
    }
}
