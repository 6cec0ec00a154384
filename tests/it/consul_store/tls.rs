//! Mutual TLS with the certificates that `consul tls` makes.

use tidegate::kv::{Kv, KvError};

use super::peer::forward;
use super::{gprd, set, with};
use crate::harness::consul::Consul;
use crate::harness::folder::Folder;

type Variable<'a> = (&'static str, &'a str);

/// The text of the error that a read ends with, and a write that must end the same way.
async fn refused(variables: &[Variable<'_>]) -> String {
    let kv = with(variables).unwrap();
    let write = kv.transact(&[set("frontend/gprd/a", "1")]).await;
    assert!(
        matches!(write, Err(KvError::Unreachable(_))),
        "nothing was sent: {write:?}"
    );
    match kv.list(&gprd()).await {
        Err(KvError::Unreachable(text)) => text,
        other => panic!("{other:?}"),
    }
}

async fn works(variables: &[Variable<'_>]) {
    let kv = with(variables).unwrap();
    kv.transact(&[set("frontend/gprd/a", "1")]).await.unwrap();
    assert_eq!(kv.list(&gprd()).await.unwrap().entries.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_show_certificates_and_each_missing_part_is_named() {
    let consul = Consul::dev_with_tls();
    let tls = consul.tls();
    let address = format!("https://{}", tls.https);
    let bare = tls.https.to_string();
    let folder = Folder::new("consul-capath");
    std::fs::copy(&tls.ca, folder.join("ca.pem")).unwrap();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (ca, ca_path) = (text(&tls.ca), text(folder.path()));
    let (cert, key) = (text(&tls.client_cert), text(&tls.client_key));
    let address = ("CONSUL_HTTP_ADDR", address.as_str());
    let ca = ("CONSUL_CACERT", ca.as_str());
    let client = [
        ("CONSUL_CLIENT_CERT", cert.as_str()),
        ("CONSUL_CLIENT_KEY", &key),
    ];

    works(&[address, ca, client[0], client[1]]).await;
    works(&[
        ("CONSUL_HTTP_ADDR", &bare),
        ("CONSUL_HTTP_SSL", "true"),
        ca,
        client[0],
        client[1],
    ])
    .await;
    works(&[address, ("CONSUL_CAPATH", &ca_path), client[0], client[1]]).await;
    works(&[
        address,
        ("CONSUL_HTTP_SSL_VERIFY", "false"),
        client[0],
        client[1],
    ])
    .await;

    let error = refused(&[address, ca]).await;
    assert!(error.contains("CONSUL_CLIENT_CERT"), "{error}");
    let error = refused(&[address, ("CONSUL_CACERT", &cert), client[0], client[1]]).await;
    assert!(error.contains("CONSUL_CACERT"), "{error}");
    let plain = format!("https://{}", consul.http());
    let error = refused(&[("CONSUL_HTTP_ADDR", &plain), ca, client[0], client[1]]).await;
    assert!(error.contains("does not speak TLS"), "{error}");

    let kv = with(&[("CONSUL_HTTP_ADDR", &bare)]).unwrap();
    let error = kv.list(&gprd()).await.unwrap_err();
    assert!(error.to_string().contains("HTTPS server"), "{error}");
}

/// The agent is reached at an address that its certificate does not name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_is_checked_for_the_server_name_that_is_set() {
    let consul = Consul::dev_with_tls();
    let tls = consul.tls();
    let address = format!("https://{}", forward(tls.https).await);
    let paths = [&tls.ca, &tls.client_cert, &tls.client_key].map(|p| p.to_str().unwrap());
    let variables = [
        ("CONSUL_HTTP_ADDR", address.as_str()),
        ("CONSUL_CACERT", paths[0]),
        ("CONSUL_CLIENT_CERT", paths[1]),
        ("CONSUL_CLIENT_KEY", paths[2]),
    ];
    let named = |name| {
        let mut variables = variables.to_vec();
        variables.push(("CONSUL_TLS_SERVER_NAME", name));
        variables
    };
    let error = refused(&variables).await;
    assert!(error.contains("CONSUL_TLS_SERVER_NAME"), "{error}");
    works(&named("server.dc1.consul")).await;
    let error = refused(&named("server.dc2.consul")).await;
    assert!(error.contains("CONSUL_TLS_SERVER_NAME"), "{error}");
}

#[test]
fn files_that_cannot_be_used_are_named_with_their_variables() {
    let folder = Folder::new("consul-files");
    let empty = folder.write("empty.pem", "");
    let empty = empty.to_str().unwrap();
    let errors = with(&[
        ("CONSUL_CACERT", empty),
        ("CONSUL_CLIENT_CERT", empty),
        ("CONSUL_CLIENT_KEY", empty),
    ])
    .unwrap_err();
    let text = errors.to_string();
    for variable in ["CONSUL_CACERT", "CONSUL_CLIENT_CERT"] {
        assert!(
            text.contains(&format!("{variable}: {empty}: holds no PEM certificate")),
            "{text}"
        );
    }
    let errors = with(&[("CONSUL_CAPATH", "/nowhere")]).unwrap_err();
    assert!(
        errors.to_string().starts_with("CONSUL_CAPATH: /nowhere: "),
        "{errors}"
    );
}
