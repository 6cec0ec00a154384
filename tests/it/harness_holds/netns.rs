//! Namespaces: parts reach each other unless they are cut, and nothing of them is left.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::harness::netns::{Net, ROUTER, Space, Way};

const PORT: u16 = 8080;
const A: Ipv4Addr = Ipv4Addr::new(10, 77, 9, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 77, 9, 2);
/// Many times what a packet needs inside one machine.
const CONNECT_MAX: Duration = Duration::from_millis(300);

/// Runs `act` with a thread of its own in that namespace.
fn inside<T: Send>(space: &Space, act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            space.enter();
            act()
        });
        there.join().expect("the thread did not panic")
    })
}

/// The kernel accepts by itself: nobody has to.
fn listen(space: &Space) -> TcpListener {
    inside(space, || TcpListener::bind((space.address(), PORT))).expect("the address is its own")
}

fn connects(to: Ipv4Addr) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((to, PORT)), CONNECT_MAX).is_ok()
}

/// TCP segments that came up to the part's sockets: a dropped packet does not.
fn segments_received(space: &Space) -> u64 {
    let text = inside(space, || {
        std::fs::read_to_string("/proc/thread-self/net/snmp")
    });
    let text = text.expect("Linux counts segments");
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let mut words = || lines.next().unwrap_or_default().split(' ');
    let (names, values) = (words(), words());
    let mut pairs = names.zip(values);
    let found = pairs.find(|(name, _)| *name == "InSegs");
    let (_, value) = found.expect("Linux counts segments");
    value.parse().expect("a counter is a number")
}

#[test]
fn parts_reach_each_other_until_one_is_cut_and_again_when_it_is_healed() {
    let net = Net::new();
    let (a, b) = (net.add("a", &[A]), net.add("b", &[B]));
    let _listeners = [listen(&a), listen(&b)];
    let reached = || {
        let from_a = inside(&a, || connects(B));
        (from_a, inside(&b, || connects(A)), connects(A), connects(B))
    };
    assert_eq!(reached(), (true, true, true, true));

    a.cut(B, Way::Both);
    assert_eq!(reached(), (false, false, true, true), "cut from one peer");
    a.heal();
    assert_eq!(reached(), (true, true, true, true));

    a.cut("10.77.0.0/16", Way::In);
    assert_eq!(reached(), (false, false, false, true), "it hears nothing");
    a.heal();
    a.cut(ROUTER, Way::Out);
    assert_eq!(
        reached(),
        (true, true, false, true),
        "the router does not hear it"
    );
    b.cut_off();
    assert_eq!(reached(), (false, false, false, false));
    assert!(inside(&b, || TcpListener::bind("127.0.0.1:0").is_ok()));
}

#[test]
fn a_one_way_cut_lets_packets_through_in_the_other_direction() {
    let net = Net::new();
    let (a, b) = (net.add("a", &[A]), net.add("b", &[B]));
    let _listener = listen(&b);
    a.cut(B, Way::In);
    let before = [segments_received(&a), segments_received(&b)];
    assert!(!inside(&a, || connects(B)));
    let after = [segments_received(&a), segments_received(&b)];
    assert_eq!(after[0], before[0], "nothing comes to the part that is cut");
    assert!(after[1] > before[1], "what it sends arrives");
}

#[test]
fn a_namespace_ends_with_its_test() {
    let net = Net::new();
    let [_, file] = &net.add("a", &[A]).launcher()[..] else {
        panic!("nsenter and its file")
    };
    let file = file
        .split('=')
        .nth(1)
        .expect("an option with its value")
        .to_owned();
    assert!(!Path::new(&file).exists());
}
