//! Rendered answers of one worker.
//!
//! An answer depends on the source address and the request's bytes, as long as one snapshot is in
//! force and the next moment of its decision has not come.

use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;

use crate::domain::answer::{Answer, Origin};
use crate::domain::fleet::{Identity, Version};
use crate::domain::name::Name;
use crate::domain::request::Request;
use crate::domain::snapshot::Snapshot;
use crate::fleet::Spot;

/// The most identities that a worker remembers. Beyond it the cache starts anew: the fleet of a
/// large site has some ten thousand rows, and a stranger who asks for others costs time only.
const IDENTITIES_MAX: usize = 65_536;

/// The most bytes of identities that a worker remembers: a stranger may write lines of a thousand
/// bytes, HAProxy's have a hundred.
const IDENTITY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Rendered answers under one snapshot.
#[derive(Debug)]
pub(super) struct Cache {
    replica: Name,
    snapshot: Option<Arc<Snapshot>>,
    answers: HashMap<Box<[u8]>, Rc<Rendered>>,
    /// Bytes of all identities together.
    bytes: usize,
    key: Vec<u8>,
}

/// An answer as bytes.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) line: Box<[u8]>,
    pub(super) answer: Answer,
    /// Who is told so; nobody when the request cannot be read.
    pub(super) identity: Option<Arc<Identity>>,
    /// How new the snapshot is that it comes from.
    pub(super) version: Version,
    /// Where its polls are counted.
    pub(super) spot: Spot,
    until: Option<Timestamp>,
}

impl Cache {
    pub(super) fn new(replica: Name) -> Self {
        Self {
            replica,
            snapshot: None,
            answers: HashMap::new(),
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
        self.key.clear();
        // Of one length, so that no address runs into the line behind it.
        let address = match source {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        self.key.extend_from_slice(&address.octets());
        self.key.extend_from_slice(line);
        if let Some(known) = self.answers.get(self.key.as_slice())
            && known.until.is_none_or(|until| now < until)
        {
            return Rc::clone(known);
        }
        let (rendered, lasting) = self.render(snapshot, line, source, now);
        let rendered = Rc::new(rendered);
        if lasting {
            if self.answers.len() >= IDENTITIES_MAX
                || self.bytes + self.key.len() > IDENTITY_BYTES_MAX
            {
                self.forget();
            }
            let before = self
                .answers
                .insert(self.key.as_slice().into(), Rc::clone(&rendered));
            if before.is_none() {
                self.bytes += self.key.len();
            }
        }
        rendered
    }

    fn forget(&mut self) {
        self.answers.clear();
        self.bytes = 0;
    }

    /// Renders an answer, and says whether it is worth remembering: nobody's request is not.
    fn render(
        &self,
        snapshot: &Snapshot,
        line: &[u8],
        source: IpAddr,
        now: Timestamp,
    ) -> (Rendered, bool) {
        let (answer, until, identity) = match Request::parse(line) {
            Err(_) => (Answer::UnknownRequest, None, None),
            Ok(request) => {
                let identity = Identity::new(&request, source);
                let decision = snapshot.decide(&request, identity.node.as_str(), now);
                (decision.answer, decision.until, Some(Arc::new(identity)))
            }
        };
        let lasting = identity.is_some();
        let origin = Origin {
            index: snapshot.index,
            replica: self.replica.clone(),
        };
        (
            Rendered {
                line: answer.to_line(&origin).into(),
                answer,
                identity,
                version: Version::of(snapshot),
                spot: Spot::default(),
                until,
            },
            lasting,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::listing::Listing;

    fn snapshot(index: u64, canary: &str) -> Arc<Snapshot> {
        let entries = [
            ("canary-state", canary),
            ("nodes/10.0.0.2/canary-state", "maint"),
        ];
        Arc::new(Snapshot::build(&Listing::with_sentinel(index, &entries)).unwrap())
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
        assert_eq!(cache.answers.len(), 2);
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
        assert_eq!(cache.answers.len(), 1);
    }

    #[test]
    fn what_nobody_may_ask_is_not_remembered() {
        let mut cache = Cache::new(Name::parse("a").unwrap());
        let line = "GET / HTTP/1.1\r\n";
        let got = ask(&mut cache, &snapshot(1, "ready"), line, "10.0.0.1", 0);
        assert_eq!(got, "unknown-request\n");
        assert!(cache.answers.is_empty());
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut cache = Cache::new(Name::parse("a").unwrap());
        let snapshot = snapshot(1, "ready");
        for i in 0..IDENTITIES_MAX + 10 {
            ask(&mut cache, &snapshot, &format!("web/s{i}\n"), "10.0.0.1", 0);
        }
        assert_eq!(cache.answers.len(), 10);
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
        let bytes: usize = cache.answers.keys().map(|key| key.len()).sum();
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
        assert_eq!(cache.answers.len(), 3);
    }
}
