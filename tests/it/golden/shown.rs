//! What is read, as a table, as JSON and for chat, of a node of each version; and help that the
//! page of the command line leaves out.

use super::Transcript;
use crate::harness::tidegate::tidegate;
use crate::read_paths::Fleet;

#[test]
fn what_the_reading_commands_print_is_as_kept() {
    let fleet = Fleet::start();
    let sockets = fleet.sockets();
    let mut transcript = Transcript::default();
    for command in [
        &["status"][..],
        &["status", "canary_web", "--output", "json"],
        &["status", "--output", "chatops"],
        &["status", "nobody"],
        &["canary"],
        &["get"],
        &["get", "canary_web", "--output", "json"],
        &["precheck", "--stage", "cny"],
        &["precheck", "--stage", "cny", "--output", "json"],
        &["precheck", "--stage", "main"],
        &["gate"],
        &["gate", "--output", "json"],
    ] {
        transcript.add(command, &fleet.run(command, &sockets));
    }
    for command in [
        &["explain", "web/gke-cny-web canary node=lb-1"][..],
        &[
            "explain",
            "web/gke-cny-web canary node=lb-1",
            "--output",
            "json",
        ],
        &["explain", "web/gke-cny-web canry"],
    ] {
        let kv = fleet.kv();
        let store = ["--env", "gprd", "--kv", &kv];
        transcript.add(command, &tidegate(&[command, &store].concat(), &[]));
    }
    transcript.expect_kept("shown");
}

#[test]
fn help_is_as_kept() {
    let mut transcript = Transcript::default();
    // As wide as where nobody says; a shell may.
    let environment = [("COLUMNS".to_owned(), "100".to_owned())];
    for command in [
        &["set", "-h"][..],
        &["deploy", "--help"],
        &["deploy", "start", "--help"],
        &["deploy", "finish", "--help"],
        &["help", "gate"],
        &[],
        &["frobnicate"],
        &["canary", "--drian"],
        &["canary", "--drain", "--ready"],
        &["precheck"],
    ] {
        transcript.add(command, &tidegate(command, &environment));
    }
    transcript.expect_kept("help");
}
