//! Whether the fleet has a change, and who says so.

use jiff::{SignedDuration, Timestamp};

use crate::domain::fleet::{Judge, Merged, Version};
use crate::domain::name::Name;

/// How far a change is with the rows that poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The replica that tells of it; none when none has it that could tell.
    pub tells: Option<Name>,
    /// Nodes that poll.
    pub nodes: usize,
    /// Rows that poll.
    pub rows: usize,
    /// Rows that poll and were not told yet.
    pub rows_left: usize,
    /// Nodes that do not poll: they are not waited for.
    pub nodes_silent: usize,
    /// The last answer that a row was given, and its node.
    pub last: Option<(Timestamp, Name)>,
}

/// For how long the first replica is waited for that has not come to the change. A change reaches
/// all within a second; what another one saw of the first is as old as that.
const FIRST_AWAITED: SignedDuration = SignedDuration::from_secs(10);

/// Judges a change that is in force since `since`.
#[must_use]
pub fn judge(merged: &Merged, version: Version, since: Timestamp, now: Timestamp) -> Delivered {
    // A row is judged against this change: a newer one may be on its way already.
    let judge = Judge {
        newest: Some(version),
        ..merged.judge(now)
    };
    let has_it = |newest: Option<Version>| newest.is_some_and(|newest| newest >= version);
    let mut replicas = merged.replicas.iter();
    let waits = now.duration_since(since) < FIRST_AWAITED;
    let tells = if waits {
        replicas.next().filter(|(_, report)| has_it(report.newest))
    } else {
        replicas.find(|(_, report)| has_it(report.newest))
    };
    let mut delivered = Delivered {
        tells: tells.map(|(name, _)| name.clone()),
        nodes: 0,
        rows: 0,
        rows_left: 0,
        nodes_silent: 0,
        last: None,
    };
    for (name, node) in &merged.nodes {
        if judge.silent_node(node) {
            delivered.nodes_silent += 1;
            continue;
        }
        delivered.nodes += 1;
        for row in node.rows.values().filter(|row| !judge.silent(row)) {
            delivered.rows += 1;
            if judge.behind(&row) {
                delivered.rows_left += 1;
            } else if let Some(told) = row.told
                && told.at >= since
                && delivered.last.as_ref().is_none_or(|(at, _)| *at < told.at)
            {
                delivered.last = Some((told.at, name.clone()));
            }
        }
    }
    delivered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::answer::{Answer, State};
    use crate::domain::fleet::{Node, Report, Row, Told};
    use crate::domain::name::ServerId;
    use crate::domain::sentinel::Generation;
    use std::collections::BTreeMap;
    use std::time::Duration;

    const SINCE: i64 = 1_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn version(index: u64) -> Version {
        let generation = Generation { epoch: 1, r#gen: 1 };
        Version { generation, index }
    }

    /// One row of a node: when it polled last, when it was told which index.
    fn node(last: i64, told: (i64, u64)) -> Node {
        let row = Row {
            polls: 9,
            unanswered: 0,
            first: at(1),
            last: at(last),
            interval: Some(Duration::from_secs(2)),
            address: [127, 0, 0, 1].into(),
            told: Some(Told {
                at: at(told.0),
                version: version(told.1),
                answer: Answer::State(State::Drain),
            }),
        };
        let rows = [(ServerId::parse("web/a").unwrap(), row)]
            .into_iter()
            .collect();
        Node {
            rows,
            ..Node::default()
        }
    }

    fn report(replica: &str, index: u64, nodes: &[(&str, Node)]) -> Report {
        let name = |name: &str| Name::parse(name).unwrap();
        let nodes = nodes
            .iter()
            .map(|(node, rows)| (name(node), rows.clone().into()));
        Report {
            replica: name(replica),
            at: at(SINCE + 1),
            since: at(0),
            poll_interval: Duration::from_secs(2),
            newest: Some(version(index)),
            dropped: 0,
            nodes: nodes.collect::<BTreeMap<_, _>>(),
        }
    }

    #[test]
    fn it_is_delivered_when_every_row_that_polls_was_told_and_the_first_that_has_it_tells() {
        let (told, old) = ((SINCE + 1, 7), (SINCE - 1, 6));
        let polls = SINCE + 1;
        let silent = SINCE - 100;
        for (reports, age, tells, left, last) in [
            // The first one knows that a row is left; the others know it from its report.
            (
                vec![
                    report("a", 7, &[("n1", node(polls, told))]),
                    report("b", 7, &[("n2", node(polls, old))]),
                ],
                2,
                Some("a"),
                1,
                Some("n1"),
            ),
            (
                vec![
                    report("a", 7, &[("n1", node(polls, told))]),
                    report("b", 7, &[("n2", node(polls, (SINCE + 2, 8)))]),
                ],
                2,
                Some("a"),
                0,
                Some("n2"),
            ),
            // A node that is gone is not waited for.
            (
                vec![report(
                    "b",
                    7,
                    &[("n1", node(polls, told)), ("n2", node(silent, old))],
                )],
                2,
                Some("b"),
                0,
                Some("n1"),
            ),
            // The first one has not come to it: it is waited for, and then no more.
            (
                vec![
                    report("a", 6, &[]),
                    report("b", 7, &[("n1", node(polls, told))]),
                ],
                2,
                None,
                0,
                Some("n1"),
            ),
            (
                vec![
                    report("a", 6, &[]),
                    report("b", 7, &[("n1", node(SINCE + 10, told))]),
                ],
                10,
                Some("b"),
                0,
                Some("n1"),
            ),
        ] {
            let merged = Merged::of(reports);
            let delivered = judge(&merged, version(7), at(SINCE), at(SINCE + age));
            assert_eq!(delivered.tells.as_ref().map(Name::as_str), tells);
            assert_eq!(delivered.rows_left, left, "{delivered:?}");
            let node = delivered.last.as_ref().map(|(_, node)| node.as_str());
            assert_eq!(node, last, "{delivered:?}");
        }
    }
}
