//! Real outputs of both versions, as they are and damaged.

use tidegate::domain::observed::{Class, Part};
use tidegate::haproxy::stats;

use super::Fleet;
use crate::harness::haproxy::Haproxy;

#[test]
fn what_both_versions_say_is_read_as_it_stands() {
    let fleet = Fleet::start();
    for node in &fleet.nodes {
        let text = node.haproxy.stats("show stat");
        let read = stats::read(text.as_bytes(), tidegate::clock::now()).unwrap();
        let rows = node.haproxy.show_stat();
        let servers: Vec<_> = rows.iter().filter(|row| row.field("type") == "2").collect();
        assert_eq!(read.servers.len(), servers.len());
        for row in servers {
            let id = format!("{}/{}", row.field("pxname"), row.field("svname"));
            let found = &read.servers[id.as_str()];
            assert_eq!(found.status, row.status(), "{id}");
            assert_eq!(found.weight, Some(row.weight()), "{id}");
            assert_eq!(found.part, Some(Part::Active), "{id}");
            assert_eq!(
                found.last_agt.as_deref().unwrap_or_default(),
                row.last_agt()
            );
        }
        assert_eq!(read.servers["web/gke-cny-web"].class, Class::Drain);
        assert_eq!(read.servers["web/gke-b"].class, Class::NoCheck);
        let up: Vec<_> = read
            .backends
            .iter()
            .map(|(name, b)| (name.as_str(), b.up))
            .collect();
        assert_eq!(up, [("canary_web", false), ("web", true)]);
    }
}

/// Damage at random, from a seed that a failure prints.
#[test]
fn damaged_outputs_are_read_or_refused_and_never_end_the_program() {
    let fleet = Fleet::start();
    let texts: Vec<_> = fleet
        .nodes
        .iter()
        .map(|node| show_stat(&node.haproxy))
        .collect();
    let now = tidegate::clock::now();
    for seed in 1..2_000_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random >> 33).expect("31 bits fit") % below
        };
        let mut bytes = texts[next(2)].clone();
        for _ in 0..=next(4) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = [b'"', b',', b'\n', 0xff][next(4)],
                2 => bytes.insert(at, [b'"', b',', b'\n', 0xff][next(4)]),
                _ => drop(bytes.remove(at)),
            }
            if bytes.is_empty() {
                break;
            }
        }
        let read =
            std::panic::catch_unwind(|| stats::read(&bytes, now).map(|node| node.servers.len()));
        let read = read.unwrap_or_else(|_| panic!("seed {seed} ends the program"));
        assert!(
            read.is_err() || read.is_ok_and(|servers| servers <= 4),
            "seed {seed}"
        );
    }
}

fn show_stat(node: &Haproxy) -> Vec<u8> {
    node.stats("show stat").into_bytes()
}
