//! Why a request gets its answer: each place looked at, in order.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::answer::Origin;
use super::name::Name;
use super::request::Request;
use super::snapshot::{About, Place, Placed, Snapshot};

/// Why a request gets its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The request as it was read; the error where it cannot be.
    pub request: String,
    /// The node that counts, from the request or the source address.
    pub node: Option<String>,
    /// The places where a directive may stand, the strongest first.
    pub places: Vec<Explained>,
    /// One sentence.
    pub because: String,
    /// The exact line of the answer, its newline included.
    pub answer: String,
    /// The next moment at which the answer may change by the time alone.
    pub next_change: Option<Timestamp>,
    /// The moment for which this holds.
    pub at: Timestamp,
    /// The store's index of the listing.
    pub index: u64,
}

/// One place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// `server web/a` or `group canary`.
    pub about: String,
    /// `node lb-1`, `zone b` or `fleet`.
    pub level: String,
    /// The key's path below the prefix.
    pub path: String,
    /// What became of it.
    pub outcome: PlaceOutcome,
    /// What stands there, or what is wrong with it.
    pub text: Option<String>,
}

/// What became of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PlaceOutcome {
    /// No key.
    Absent,
    /// Past its end, and lifted there.
    Lifted,
    /// It decides.
    Decides,
    /// It decides, by freezing: it cannot be read, or the guard refuses it.
    Freezes,
    /// Something stronger decides.
    Weaker,
}

impl Explanation {
    /// Explains the answer to a request line from `source` at `now`.
    #[must_use]
    pub fn new(
        snapshot: &Snapshot,
        line: &[u8],
        source: &Name,
        replica: &Name,
        now: Timestamp,
    ) -> Self {
        let origin = Origin {
            index: snapshot.index,
            replica: replica.clone(),
        };
        let read = Request::parse(line);
        let request = match read {
            Ok(request) => request,
            Err(error) => return Self::unreadable(&error.to_string(), &origin, now),
        };
        let node = request.node.unwrap_or(source.as_str());
        let decision = snapshot.decide(&request, node, now);
        let mut decided = false;
        let explain = |place: Place<'_, '_>| {
            let wins = place.placed.is_some_and(|placed| {
                decision
                    .winner
                    .is_some_and(|winner| std::ptr::eq(winner, placed))
            });
            let explained = Explained::new(&place, wins, decided, now);
            decided |= wins;
            explained
        };
        let places = About::of(&request)
            .flat_map(|about| snapshot.places(about, request.zone, node))
            .map(explain)
            .collect::<Vec<_>>();
        let because = because(
            &request,
            &places,
            decision.winner.map(|winner| &*winner.path),
        );
        let line = decision.answer.to_line(&origin);
        Self {
            request: shown(&request),
            node: Some(node.to_owned()),
            places,
            because,
            answer: String::from_utf8_lossy(&line).into_owned(),
            next_change: decision.until,
            at: now,
            index: snapshot.index,
        }
    }

    fn unreadable(error: &str, origin: &Origin, now: Timestamp) -> Self {
        let line = super::answer::Answer::UnknownRequest.to_line(origin);
        Self {
            request: error.to_owned(),
            node: None,
            places: Vec::new(),
            because: "the request cannot be read; HAProxy keeps its state".to_owned(),
            answer: String::from_utf8_lossy(&line).into_owned(),
            next_change: None,
            at: now,
            index: origin.index,
        }
    }
}

impl Explained {
    fn new(place: &Place<'_, '_>, wins: bool, decided: bool, now: Timestamp) -> Self {
        let directive = place.placed.map(|placed| &placed.directive);
        let outcome = match directive {
            None => PlaceOutcome::Absent,
            Some(Ok(_)) if wins => PlaceOutcome::Decides,
            Some(Err(_)) if wins => PlaceOutcome::Freezes,
            Some(Ok(directive)) if !decided && directive.is_lifted(now) => PlaceOutcome::Lifted,
            Some(_) => PlaceOutcome::Weaker,
        };
        let text = place.placed.map(Placed::text);
        Self {
            about: match place.about {
                About::Server(id) => format!("server {id}"),
                About::Group(group) => format!("group {group}"),
            },
            level: place.level.to_string(),
            path: place.path(),
            outcome,
            text,
        }
    }
}

fn because(request: &Request<'_>, places: &[Explained], winner: Option<&str>) -> String {
    if let Some(path) = winner {
        let frozen = places
            .iter()
            .any(|place| place.outcome == PlaceOutcome::Freezes);
        return if frozen {
            format!("{path} decides, and cannot be followed: HAProxy keeps its state")
        } else {
            format!("{path} is the strongest directive that counts")
        };
    }
    let unknown = request.groups().iter().find(|group| {
        let about = format!("group {group}");
        let of_group = |place: &&Explained| place.about == about;
        places
            .iter()
            .filter(of_group)
            .all(|place| place.outcome == PlaceOutcome::Absent)
    });
    match unknown {
        Some(group) => format!(
            "the group {group} has no key for this node: misspelt, or deleted; HAProxy keeps its state"
        ),
        None => "no directive stands for this server: it is ready".to_owned(),
    }
}

fn shown(request: &Request<'_>) -> String {
    let mut text = request.server.to_owned();
    for group in request.groups() {
        text += &format!(" {group}");
    }
    let keys = [("node", request.node), ("zone", request.zone)];
    for (key, value) in keys
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
    {
        text += &format!(" {key}={value}");
    }
    if let Some(base) = request.base {
        text += &format!(" base={base}");
    }
    if request.shadow {
        text += " mode=shadow";
    }
    text
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "request  {}", self.request)?;
        writeln!(f, "index    {} at {}", self.index, self.at)?;
        let width = self
            .places
            .iter()
            .map(|place| place.path.len())
            .max()
            .unwrap_or(0);
        for place in &self.places {
            let outcome = place.outcome.as_str();
            let text = place.text.as_deref().unwrap_or_default();
            let line = format!("{outcome:<8} {:<width$}  {text}", place.path);
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f, "because  {}", self.because)?;
        writeln!(f, "answer   {:?}", self.answer)?;
        match self.next_change {
            Some(moment) => writeln!(f, "changes  {moment} at the earliest"),
            None => writeln!(f, "changes  when the KV does"),
        }
    }
}

impl PlaceOutcome {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Lifted => "lifted",
            Self::Decides => "decides",
            Self::Freezes => "freezes",
            Self::Weaker => "weaker",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::listing::Listing;

    fn check(entries: &[(&str, &str)], request: &str, expected: &str) {
        let snapshot = Snapshot::build(&Listing::with_sentinel(7, entries)).unwrap();
        let name = |text| Name::parse(text).unwrap();
        let now = "2026-11-30T10:00:00Z".parse().unwrap();
        let (source, replica) = (name("10.0.0.9"), name("a"));
        let explanation = Explanation::new(&snapshot, request.as_bytes(), &source, &replica, now);
        assert_eq!(explanation.to_string(), expected);
    }

    #[test]
    fn every_place_is_shown_with_what_became_of_it() {
        let lifted = r#"{"state":"maint","until":"2026-11-30T09:00:00Z","on_expiry":"lift"}"#;
        check(
            &[
                ("nodes/lb-1/server-overrides/web/cny", lifted),
                ("zones/b/canary-state", "drain"),
                ("canary-state", "ready"),
            ],
            "web/cny canary node=lb-1 zone=b base=100\n",
            "request  web/cny canary node=lb-1 zone=b base=100\n\
             index    7 at 2026-11-30T10:00:00Z\n\
             lifted   nodes/lb-1/server-overrides/web/cny  {\"v\":1,\"state\":\"maint\",\"until\":\"2026-11-30T09:00:00Z\",\"on_expiry\":\"lift\"}\n\
             absent   zones/b/server-overrides/web/cny\n\
             absent   server-overrides/web/cny\n\
             absent   nodes/lb-1/canary-state\n\
             decides  zones/b/canary-state                 {\"v\":1,\"state\":\"drain\"}\n\
             weaker   canary-state                         {\"v\":1,\"state\":\"ready\",\"weight\":100}\n\
             because  zones/b/canary-state is the strongest directive that counts\n\
             answer   \"up drain # i=7 r=a\\n\"\n\
             changes  when the KV does\n",
        );
    }

    #[test]
    fn a_freeze_says_what_to_mend() {
        check(
            &[("canary-state", "dran")],
            "web/cny canary",
            "request  web/cny canary\n\
             index    7 at 2026-11-30T10:00:00Z\n\
             absent   nodes/10.0.0.9/server-overrides/web/cny\n\
             absent   server-overrides/web/cny\n\
             absent   nodes/10.0.0.9/canary-state\n\
             freezes  canary-state                             \"dran\" is none of ready, drain, maint, or a percentage of 1% to 100%\n\
             because  canary-state decides, and cannot be followed: HAProxy keeps its state\n\
             answer   \"unknown-directive\\n\"\n\
             changes  when the KV does\n",
        );
        check(
            &[],
            "web/cny typo",
            "request  web/cny typo\n\
             index    7 at 2026-11-30T10:00:00Z\n\
             absent   nodes/10.0.0.9/server-overrides/web/cny\n\
             absent   server-overrides/web/cny\n\
             absent   nodes/10.0.0.9/group-states/typo\n\
             absent   group-states/typo\n\
             because  the group typo has no key for this node: misspelt, or deleted; HAProxy keeps its state\n\
             answer   \"unknown-group\\n\"\n\
             changes  when the KV does\n",
        );
        check(
            &[],
            "web/cny node=",
            "request  the key \"node\" has no value: is the environment variable set where HAProxy starts?\n\
             index    7 at 2026-11-30T10:00:00Z\n\
             because  the request cannot be read; HAProxy keeps its state\n\
             answer   \"unknown-request\\n\"\n\
             changes  when the KV does\n",
        );
    }

    #[test]
    fn a_ramp_says_when_it_goes_on() {
        let ramp = r#"{"state":"ready","ramp":{"by":"weight","steps":[5],"every":"1h"},"since":"2026-11-30T09:30:00Z"}"#;
        check(
            &[("group-states/ci", ramp)],
            "web/a ci zone=b mode=shadow",
            "request  web/a ci zone=b mode=shadow\n\
             index    7 at 2026-11-30T10:00:00Z\n\
             absent   nodes/10.0.0.9/server-overrides/web/a\n\
             absent   zones/b/server-overrides/web/a\n\
             absent   server-overrides/web/a\n\
             absent   nodes/10.0.0.9/group-states/ci\n\
             absent   zones/b/group-states/ci\n\
             decides  group-states/ci                        {\"v\":1,\"state\":\"ready\",\"weight\":100,\"ramp\":{\"by\":\"weight\",\"steps\":[5],\"every\":\"1h\"},\"since\":\"2026-11-30T09:30:00Z\"}\n\
             because  group-states/ci is the strongest directive that counts\n\
             answer   \"shadow-ready-5\\n\"\n\
             changes  2026-11-30T10:30:00Z at the earliest\n",
        );
    }
}
