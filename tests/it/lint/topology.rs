//! The rails reckon with the servers that HAProxy's files say a node has.

use crate::harness::folder::Folder;
use crate::harness::process::Output;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::tidegate;

const FILE: &str = "global\n setenv LB_ZONE us-east1-b\nbackend web\n \
    server a 127.0.0.1:8001 weight 100 agent-check agent-port 1 agent-send \"web/a zone=$LB_ZONE base=100\\n\"\n \
    server b 127.0.0.1:8002 weight 100 backup disabled agent-check agent-port 1 agent-send \"web/b base=100\\n\"\n";

fn drain(state: &StateFolder, file: Option<&str>) -> Output {
    let kv = state.kv();
    let mut arguments = vec!["set", "--env", "gprd", "--kv", &kv, "drain", "server=[ab]"];
    arguments.extend([
        "--reason",
        "a test",
        "--yes",
        "--replica",
        "http://127.0.0.1:1",
    ]);
    arguments.extend(file.iter().flat_map(|file| ["--haproxy-files", file]));
    tidegate(&arguments, &[])
}

#[test]
fn a_floor_counts_the_servers_of_a_nodes_files() {
    let state = StateFolder::new();
    state.put("settings", r#"{"rails":{"floors":{"default":1}}}"#);
    let folder = Folder::new("lint-topology");
    let path = folder.write("haproxy.cfg", FILE).display().to_string();

    let unknown = drain(&state, None);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    let refused = drain(&state, Some(&format!("lb-1={path}")));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let said = refused.stdout.clone() + &refused.stderr;
    for text in ["HAProxy files as of 2", "web", "us-east1-b"] {
        assert!(said.contains(text), "no {text:?} in {refused:?}");
    }
}

#[test]
fn files_that_cannot_be_read_stop_the_command() {
    let state = StateFolder::new();
    let folder = Folder::new("lint-topology");
    let path = folder
        .write("haproxy.cfg", "global\n log 'a\n")
        .display()
        .to_string();
    let refused = drain(&state, Some(&format!("lb-1={path}")));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("haproxy.cfg:2: a quote is not closed"),
        "{refused:?}"
    );
}
