//! A collector that speaks TLS, and asks who we are.

use std::path::PathBuf;

use super::*;
use crate::harness::certificates::Certificates;

const CLIENT: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
const KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
const AUTHORITY: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";

/// Starts a replica with these variables beside the collector's address.
fn launch(collector: &Collector, files: &[(&str, PathBuf)]) -> (StateFolder, Tidegate) {
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let mut replica = Tidegate::launch(&["--kv", &state.kv()], &variables(collector, files));
    replica.await_ready();
    (state, replica)
}

fn variables(collector: &Collector, files: &[(&str, PathBuf)]) -> Vec<(String, String)> {
    let files = files
        .iter()
        .map(|(name, file)| ((*name).to_owned(), file.display().to_string()));
    collector.environment().into_iter().chain(files).collect()
}

#[test]
fn a_collector_is_trusted_by_its_authority_and_shown_our_certificate() {
    let certificates = Certificates::make();
    let nowhere = || PathBuf::from("/nowhere/ca.pem");
    for authority in [
        vec![(AUTHORITY, certificates.authority())],
        // What is for traces alone counts first.
        vec![
            (AUTHORITY, nowhere()),
            (
                "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
                certificates.authority(),
            ),
        ],
        // The system's authorities, which this variable moves.
        vec![("SSL_CERT_FILE", certificates.authority())],
    ] {
        let collector = Collector::start_with_tls(&certificates);
        let own = [
            (CLIENT, certificates.client()),
            (KEY, certificates.client_key()),
        ];
        let files = [&own[..], &authority].concat();
        let (state, _replica) = launch(&collector, &files);
        collector.await_named("authority.change", 1, PATIENCE);
        let kv = state.kv();
        let drain = ["canary", "--drain", "--env", "gprd", "--kv", &kv];
        let output = tidegate(&drain, &variables(&collector, &files));
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        assert_eq!(collector.named("tidegate canary").len(), 1);
    }
}

#[test]
fn a_collector_that_is_not_trusted_or_does_not_trust_us_costs_the_traces_alone() {
    let certificates = Certificates::make();
    let own = [
        (CLIENT, certificates.client()),
        (KEY, certificates.client_key()),
    ];
    let others = Certificates::make();
    for (files, why) in [
        (
            [&own[..], &[(AUTHORITY, others.authority())]].concat(),
            "UnknownIssuer",
        ),
        (
            vec![(AUTHORITY, certificates.authority())],
            // TLS 1.3 refuses who has written already: which end of the connection is seen first,
            // the collector's word, the close, a reset or a broken pipe, is a race.
            "transport error",
        ),
    ] {
        let collector = Collector::start_with_tls(&certificates);
        let (_state, mut replica) = launch(&collector, &files);
        replica
            .process()
            .await_log("traces cannot be sent", PATIENCE);
        let log = replica.process().log_text();
        assert!(log.contains(why), "{log}");
        assert_eq!(replica.ask_line("web/a canary"), "up ready 100%");
        assert_eq!(collector.all().len(), 0);
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let certificates = Certificates::make();
    let collector = Collector::start_with_tls(&certificates);
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let nowhere = || PathBuf::from("/nowhere/ca.pem");
    let client = || (CLIENT, certificates.client());
    for (files, why) in [
        (
            vec![(AUTHORITY, nowhere())],
            "CERTIFICATE: /nowhere/ca.pem: No such file",
        ),
        (
            vec![(AUTHORITY, certificates.client_key())],
            "client-consul-0-key.pem: holds no PEM certificate",
        ),
        (
            vec![client()],
            "CLIENT_CERTIFICATE is set without OTEL_EXPORTER_OTLP_CLIENT_KEY",
        ),
        (
            vec![client(), (KEY, nowhere())],
            "CLIENT_KEY: /nowhere/ca.pem",
        ),
        (vec![client(), (KEY, certificates.client())], "CLIENT_KEY: "),
        (
            vec![client(), (KEY, certificates.server_key())],
            "KeyMismatch",
        ),
    ] {
        let kv = state.kv();
        let drain = ["canary", "--drain", "--env", "gprd", "--kv", &kv];
        let output = tidegate(&drain, &variables(&collector, &files));
        assert_eq!(output.code, Some(0), "{output:?}");
        let note = "note: this command is not traced: ";
        assert!(output.stderr.contains(note), "{output:?}");
        assert!(output.stderr.contains(why), "{why}: {output:?}");
    }
}
