//! Rendered answers of one worker.
//!
//! An answer depends on the request's bytes, and on the source address where no node is named and
//! some directive is for single nodes; as long as one snapshot is in force and the next moment of
//! its decision has not come. What polls from many addresses with one line is one entry.

use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;

use crate::domain::answer::{Answer, Origin};
use crate::domain::fleet::{Asker, Version};
use crate::domain::name::Name;
use crate::domain::request::Request;
use crate::domain::snapshot::Snapshot;
use crate::fleet::Spot;

/// The most identities that a worker remembers. Beyond it the cache starts anew: the fleet of a
/// large site has some ten thousand rows, and a stranger who asks for others costs time only.
const IDENTITIES_MAX: usize = 32_768;

/// The most bytes of identities that a worker remembers: a stranger may write lines of a thousand
/// bytes, HAProxy's have a hundred.
const IDENTITY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Rendered answers under one snapshot.
#[derive(Debug)]
pub(super) struct Cache {
    replica: Name,
    snapshot: Option<Arc<Snapshot>>,
    /// By line; none for a line whose answer depends on where it comes from.
    by_line: HashMap<Box<[u8]>, Option<Rc<Rendered>>>,
    /// By source address and line.
    by_source: HashMap<Box<[u8]>, Rc<Rendered>>,
    /// Bytes of all keys together.
    bytes: usize,
    key: Vec<u8>,
}

/// An answer as bytes.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) line: Box<[u8]>,
    pub(super) answer: Answer,
    /// Who is told so; nobody when the request cannot be read.
    pub(super) asker: Option<Arc<Asker>>,
    /// How new the snapshot is that it comes from.
    pub(super) version: Version,
    /// Where its polls are counted.
    pub(super) spot: Spot,
    until: Option<Timestamp>,
    /// It depends on where the request comes from.
    by_source: bool,
}

impl Rendered {
    fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

impl Cache {
    pub(super) fn new(replica: Name) -> Self {
        Self {
            replica,
            snapshot: None,
            by_line: HashMap::new(),
            by_source: HashMap::new(),
            bytes: 0,
            key: Vec::new(),
        }
    }

    /// The answer to a request line from `source` at `now`.
    pub(super) fn answer(
        &mut self,
        snapshot: &Arc<Snapshot>,
        line: &[u8],
        source: IpAddr,
        now: Timestamp,
    ) -> Rc<Rendered> {
        if !self
            .snapshot
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, snapshot))
        {
            self.forget();
            self.snapshot = Some(Arc::clone(snapshot));
        }
        let known = match self.by_line.get(line) {
            Some(None) => {
                key(source, line, &mut self.key);
                self.by_source.get(self.key.as_slice())
            }
            Some(Some(known)) => Some(known),
            None => None,
        };
        if let Some(known) = known
            && known.holds(now)
        {
            return Rc::clone(known);
        }
        let rendered = Rc::new(self.render(snapshot, line, source, now));
        // Nobody's request is not worth remembering.
        if rendered.asker.is_some() {
            self.remember(line, source, &rendered);
        }
        rendered
    }

    fn remember(&mut self, line: &[u8], source: IpAddr, rendered: &Rc<Rendered>) {
        let entries = self.by_line.len() + self.by_source.len();
        let bytes = 2 * (ADDRESS_BYTES + line.len());
        if entries + 2 > IDENTITIES_MAX || self.bytes + bytes > IDENTITY_BYTES_MAX {
            self.forget();
        }
        let shared = (!rendered.by_source).then(|| Rc::clone(rendered));
        if self.by_line.insert(line.into(), shared).is_none() {
            self.bytes += line.len();
        }
        if rendered.by_source {
            key(source, line, &mut self.key);
            let own = (self.key.as_slice().into(), Rc::clone(rendered));
            if self.by_source.insert(own.0, own.1).is_none() {
                self.bytes += self.key.len();
            }
        }
    }

    fn forget(&mut self) {
        self.by_line.clear();
        self.by_source.clear();
        self.bytes = 0;
    }

    fn render(&self, snapshot: &Snapshot, line: &[u8], source: IpAddr, now: Timestamp) -> Rendered {
        let (answer, until, asker) = match Request::parse(line) {
            Err(_) => (Answer::UnknownRequest, None, None),
            Ok(request) => {
                let asker = Asker::new(&request);
                let node = asker.at(source, Name::from_address).node;
                let decision = snapshot.decide(&request, node.as_str(), now);
                (decision.answer, decision.until, Some(Arc::new(asker)))
            }
        };
        let unnamed = asker.as_ref().is_some_and(|asker| asker.node.is_none());
        let origin = Origin {
            index: snapshot.index,
            replica: self.replica.clone(),
        };
        Rendered {
            line: answer.to_line(&origin).into(),
            answer,
            by_source: unnamed && snapshot.is_by_node(),
            asker,
            version: Version::of(snapshot),
            spot: Spot::default(),
            until,
        }
    }
}

const ADDRESS_BYTES: usize = 16;

/// The address is of one length, so that none runs into the line behind it.
fn key(source: IpAddr, line: &[u8], key: &mut Vec<u8>) {
    key.clear();
    let address = match source {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    key.extend_from_slice(&address.octets());
    key.extend_from_slice(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::listing::Listing;

    /// A snapshot in which one node has a directive of its own.
    fn snapshot(index: u64, canary: &str) -> Arc<Snapshot> {
        built(
            index,
            &[
                ("canary-state", canary),
                ("nodes/10.0.0.2/canary-state", "maint"),
            ],
        )
    }

    fn built(index: u64, entries: &[(&str, &str)]) -> Arc<Snapshot> {
        Arc::new(Snapshot::build(&Listing::with_sentinel(index, entries)).unwrap())
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ask(
        cache: &mut Cache,
        snapshot: &Arc<Snapshot>,
        line: &str,
        source: &str,
        second: i64,
    ) -> String {
        let source = source.parse().unwrap();
        let rendered = cache.answer(snapshot, line.as_bytes(), source, at(second));
        String::from_utf8(rendered.line.to_vec()).unwrap()
    }

    #[test]
    fn an_answer_is_remembered_for_its_snapshot_source_and_time() {
        let mut cache = Cache::new(Name::parse("a").unwrap());
        let ramp = r#"{"state":"ready","ramp":{"by":"weight","steps":[5],"every":"10s"},"since":"1970-01-01T00:01:40Z"}"#;
        let first = snapshot(1, ramp);
        let line = "web/cny canary\n";
        assert_eq!(
            ask(&mut cache, &first, line, "10.0.0.1", 100),
            "up ready 5% # i=1 r=a\n"
        );
        assert_eq!(
            ask(&mut cache, &first, line, "10.0.0.2", 100),
            "up maint # i=1 r=a\n"
        );
        assert_eq!(
            ask(&mut cache, &first, line, "::ffff:10.0.0.2", 100),
            "up maint # i=1 r=a\n"
        );
        assert_eq!((cache.by_line.len(), cache.by_source.len()), (1, 2));
        assert_eq!(
            ask(&mut cache, &first, line, "10.0.0.1", 109),
            "up ready 5% # i=1 r=a\n"
        );
        assert_eq!(
            ask(&mut cache, &first, line, "10.0.0.1", 110),
            "up ready 100% # i=1 r=a\n"
        );
        let second = snapshot(2, "drain");
        assert_eq!(
            ask(&mut cache, &second, line, "10.0.0.1", 110),
            "up drain # i=2 r=a\n"
        );
        assert_eq!((cache.by_line.len(), cache.by_source.len()), (1, 1));
    }

    #[test]
    fn one_line_from_many_addresses_is_one_answer_unless_it_is_about_their_node() {
        let named = "web/cny canary node=lb-1\n";
        let unnamed = "web/cny canary\n";
        let ramp = r#"{"state":"ready","ramp":{"by":"nodes","steps":[50]},"since":"1970-01-01T00:01:40Z"}"#;
        for (entries, line, by_line, by_source) in [
            (&[("canary-state", "drain")][..], unnamed, 1, 0),
            (
                &[("canary-state", "drain"), ("nodes/x/canary-state", "ready")],
                named,
                1,
                0,
            ),
            (
                &[("canary-state", "drain"), ("nodes/x/canary-state", "ready")],
                unnamed,
                1,
                2,
            ),
            (&[("canary-state", ramp)], named, 1, 0),
            (&[("canary-state", ramp)], unnamed, 1, 2),
        ] {
            let mut cache = Cache::new(Name::parse("a").unwrap());
            let snapshot = built(1, entries);
            for source in ["10.0.0.1", "10.0.0.2", "10.0.0.1"] {
                ask(&mut cache, &snapshot, line, source, 0);
            }
            let seen = (cache.by_line.len(), cache.by_source.len());
            assert_eq!(seen, (by_line, by_source), "{entries:?} {line}");
        }
    }

    #[test]
    fn what_nobody_may_ask_is_not_remembered() {
        let mut cache = Cache::new(Name::parse("a").unwrap());
        let line = "GET / HTTP/1.1\r\n";
        let got = ask(&mut cache, &snapshot(1, "ready"), line, "10.0.0.1", 0);
        assert_eq!(got, "unknown-request\n");
        assert!(cache.by_line.is_empty() && cache.by_source.is_empty());
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut cache = Cache::new(Name::parse("a").unwrap());
        let snapshot = snapshot(1, "ready");
        for i in 0..IDENTITIES_MAX / 2 + 10 {
            ask(&mut cache, &snapshot, &format!("web/s{i}\n"), "10.0.0.1", 0);
        }
        assert_eq!((cache.by_line.len(), cache.by_source.len()), (10, 10));
    }

    #[test]
    fn long_lines_do_not_outgrow_the_cache() {
        let mut cache = Cache::new(Name::parse("a").unwrap());
        let snapshot = snapshot(1, "ready");
        let padding = " ".repeat(1_000);
        for i in 0..20_000 {
            let line = format!("web/s{i}{padding}\n");
            ask(&mut cache, &snapshot, &line, "10.0.0.1", 0);
            // The same once more counts once.
            ask(&mut cache, &snapshot, &line, "10.0.0.1", 0);
        }
        let keys = cache.by_line.keys().chain(cache.by_source.keys());
        let bytes: usize = keys.map(|key| key.len()).sum();
        assert_eq!(bytes, cache.bytes);
        assert!(bytes <= IDENTITY_BYTES_MAX && bytes > 0, "{bytes}");
    }

    #[test]
    fn an_address_does_not_run_into_the_line() {
        let mut cache = Cache::new(Name::parse("a").unwrap());
        let snapshot = snapshot(1, "drain");
        // The last twelve bytes of this address are `aaaaaaaaaaaa`.
        let address = "a00:1:6161:6161:6161:6161:6161:6161";
        let got = ask(&mut cache, &snapshot, "web/a canary\n", address, 0);
        assert_eq!(got, "up drain # i=1 r=a\n");
        let line = "aaaaaaaaaaaaweb/a\n";
        ask(&mut cache, &snapshot, line, "10.0.0.1", 0);
        let line = "aaaaaaaaaaaaweb/a canary\n";
        ask(&mut cache, &snapshot, line, "10.0.0.1", 0);
        assert_eq!((cache.by_line.len(), cache.by_source.len()), (3, 3));
    }
}
