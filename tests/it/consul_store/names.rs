//! What goes over the wire: keys encoded once, tokens in headers, namespaces where they belong.

use tidegate::kv::Kv;

use super::peer::{Peer, forward_unix};
use super::{connect, gprd, set, with};
use crate::harness::consul::Consul;
use crate::harness::folder::Folder;

const ODD: &str = "frontend/gprd/ a b%ü?#&+";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_written_and_read_under_exactly_its_name() {
    let consul = Consul::dev();
    let kv = connect(&consul, &[]);
    kv.transact(&[set(ODD, "small")]).await.unwrap();
    assert_eq!(consul.kv_keys("frontend/"), [ODD]);
    assert_eq!(kv.get(ODD).await.unwrap().unwrap().value, "small");
    // Too large for a transaction: the key stands in a URL now.
    let large = vec![b'x'; tidegate::kv::VALUE_BYTES_MAX];
    kv.transact(&[set(ODD, large.clone())]).await.unwrap();
    assert_eq!(consul.kv_keys("frontend/"), [ODD]);
    assert!(consul.kv_get(ODD).unwrap() == large);
    consul.kv_put(ODD, "by another client");
    assert_eq!(
        kv.get(ODD).await.unwrap().unwrap().value,
        "by another client"
    );
    // What other clients wrote is listed, even where this one refuses to write.
    consul.kv_put("frontend/gprd/folder/", "");
    let listing = kv.list(&gprd()).await.unwrap();
    let paths: Vec<_> = listing.entries.keys().map(String::as_str).collect();
    assert_eq!(paths, [" a b%ü?#&+", "folder/"]);
}

#[tokio::test]
async fn requests_carry_what_the_variables_say() {
    let peer = Peer::answering("404 None", "X-Consul-Index: 7\r\n", "").await;
    let kv = with(&[
        ("CONSUL_HTTP_ADDR", &format!("{}/consul/", peer.url())),
        ("CONSUL_HTTP_TOKEN", "hunter2"),
        ("CONSUL_HTTP_AUTH", "me:secret"),
        ("CONSUL_NAMESPACE", "n s"),
        ("CONSUL_PARTITION", "p&q"),
    ])
    .unwrap();
    assert_eq!(kv.get(ODD).await, Ok(None));
    let wait = std::time::Duration::from_millis(5_500);
    kv.watch(&gprd(), 42, wait).await.unwrap();
    kv.confirm(&gprd()).await.unwrap();
    assert_eq!(kv.table_index(&gprd()).await, Ok(7));

    let requests = peer.requests();
    let contains = |request: &str, parts: &[&str]| {
        for part in parts {
            assert!(request.contains(part), "{part} in {request}");
        }
        assert!(!request.contains("stale"), "{request}");
    };
    for request in &requests {
        contains(request, &["ns=n+s", "partition=p%26q", "consistent"]);
        contains(
            request,
            &[
                "\r\nx-consul-token: hunter2",
                "\r\nauthorization: Basic bWU6c2VjcmV0",
            ],
        );
        contains(request, &[&format!("\r\nhost: {}", peer.address)]);
    }
    contains(
        &requests[0],
        &["GET /consul/v1/kv/frontend/gprd/%20a%20b%25%C3%BC%3F%23&+?"],
    );
    contains(
        &requests[1],
        &[
            "GET /consul/v1/kv/frontend/gprd/?recurse=true",
            "index=42",
            "wait=5500ms",
        ],
    );
    contains(
        &requests[2],
        &["/kv/frontend/gprd/?keys=true&separator=%2F"],
    );
    contains(
        &requests[3],
        &["/kv/frontend/gprd/_epoch_probe_/", "/?recurse=true"],
    );
    assert!(
        !requests[0].contains("recurse"),
        "Consul reads recurse=false as recurse"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_on_a_unix_socket_is_reached() {
    let consul = Consul::dev();
    let folder = Folder::new("consul-unix");
    let socket = folder.join("http.sock");
    forward_unix(&socket, consul.http());
    let address = format!("unix://{}", socket.display());
    let kv = with(&[("CONSUL_HTTP_ADDR", &address)]).unwrap();
    kv.transact(&[set("frontend/gprd/a", "1")]).await.unwrap();
    assert_eq!(kv.list(&gprd()).await.unwrap().entries.len(), 1);
}
