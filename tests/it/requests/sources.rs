//! Without `node=` the source address is the node.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::{check_answer, state};
use crate::harness::consul::loopback;
use crate::harness::dial::connect_from;
use crate::harness::tidegate::Tidegate;

#[test]
fn the_source_address_is_the_node_unless_the_request_names_one() {
    let state = state();
    let tidegate = Tidegate::start_on_all_addresses(&["--kv", &state.kv()]);
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    for (source, request, words) in [
        (loopback(1), "web/cny canary\n", "up drain"),
        (loopback(7), "web/cny canary\n", "up maint"),
        (loopback(7), "web/cny canary zone=us-east1-b\n", "up maint"),
        (loopback(7), "web/cny canary node=lb-1\n", "up ready 100%"),
        (loopback(8), "web/cny canary node=127.0.0.7\n", "up maint"),
        (v6, "web/cny canary\n", "up ready 30%"),
        (v6, "web/cny canary node=127.0.0.7\n", "up maint"),
    ] {
        let case = format!("{source}: {request}");
        let port = tidegate.agent().port();
        let target = match source {
            IpAddr::V4(_) => SocketAddr::new(loopback(1), port),
            IpAddr::V6(_) => SocketAddr::new(v6, port),
        };
        // Twice: the second answer is a remembered one.
        for _ in 0..2 {
            let mut stream = connect_from(source, target)
                .unwrap_or_else(|error| panic!("{case}: cannot connect: {error}"));
            stream
                .write_all(request.as_bytes())
                .expect("the service takes it");
            stream
                .shutdown(std::net::Shutdown::Write)
                .expect("it is connected");
            check_answer(&case, &tidegate.read_to_end(&mut stream), words);
        }
    }
}
