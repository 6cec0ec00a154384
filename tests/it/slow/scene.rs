//! A whole environment: Consul, three replicas behind a balancer, HAProxy nodes, a writer, and
//! witnesses that see every answer.

use std::time::{Duration, Instant};

use crate::harness::balancer::Carried;
use crate::harness::consul::ROOT_TOKEN;
use crate::harness::folder::Folder;
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::history::At;
use crate::harness::judge::{Bounds, Findings, judge};
use crate::harness::netns::{Net, Space};
use crate::harness::stats::Row;
use crate::harness::wait::{PATIENCE, check, eventually};
use crate::harness::witness::{NodeWitness, ReplicaWitness};
use crate::harness::writer::{Target, Writer};

mod between;
mod parts;

use self::between::Between;
pub(crate) use self::parts::{REPLICA_TOKEN, give_rights};
use self::parts::{
    Replica, SLOTS, Source, start_consul, start_nodes, start_replicas, watched, written_keys,
};

/// Of the service and of every server: a quarter of production's.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);
/// How long an answer may rest on what was read: three quarters of an interval.
const LEASE: Duration = Duration::from_millis(375);
/// Polls that are under way when the balancer's counters are read: 400 a second take a millisecond
/// each.
const UNDER_WAY_MAX: u64 = 5;

/// How large a scene is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    /// Servers of each node.
    pub(crate) servers: usize,
    pub(crate) consul: Servers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// One agent in development mode, that all replicas ask.
    One,
    /// Three, and a client agent for each replica; a token is needed.
    Three,
}

/// Everything runs until this is dropped, in the order of the fields.
pub(crate) struct Scene {
    name: &'static str,
    begin: Instant,
    pub(crate) bounds: Bounds,
    node_witnesses: Vec<NodeWitness>,
    replica_witnesses: Vec<ReplicaWitness>,
    pub(crate) writer: Option<Writer>,
    pub(crate) balancer: Between,
    pub(crate) nodes: Vec<Haproxy>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) consul: Source,
    pub(crate) consul_space: Space,
    /// Holds the replicas' secret.
    _folder: Folder,
    /// Keep the namespaces of the nodes and the router.
    _spaces: Vec<Space>,
    _net: Net,
}

/// What a scene came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) findings: Findings,
    /// Where it can be counted.
    carried: Option<Carried>,
    name: &'static str,
}

impl Scene {
    /// Starts everything and returns when every server was told its state. The writer rests.
    pub(crate) fn start(name: &'static str, plan: Plan) -> Self {
        Self::start_behind(name, plan, Between::passthrough)
    }

    /// The same with the writer at work, and HAProxy as the balancer.
    pub(crate) fn start_behind_haproxy(name: &'static str, plan: Plan, version: Version) -> Self {
        let between = |net: &Net, replicas: &[Replica]| Between::haproxy(net, replicas, version);
        let scene = Self::start_behind(name, plan, between);
        scene.write();
        scene
    }

    fn start_behind(
        name: &'static str,
        plan: Plan,
        between: impl FnOnce(&Net, &[Replica]) -> Between,
    ) -> Self {
        let begin = Instant::now();
        let net = Net::new();
        let (consul_space, consul) = start_consul(&net, plan.consul);
        let target = Target {
            agents: consul.agents(),
            token: consul.is_cluster().then(|| ROOT_TOKEN.to_owned()),
        };
        let writer = Writer::start(begin, target, &written_keys());
        let folder = Folder::new("secret");
        let replicas = start_replicas(&net, &consul, &folder);
        let balancer = between(&net, &replicas);
        balancer.await_healthy(&[0, 1, 2]);
        let watched: Vec<_> = (1..=plan.servers).map(watched).collect();
        let (nodes, spaces) = start_nodes(&net, plan.nodes, &watched);
        let node_witnesses = nodes
            .iter()
            .map(|node| NodeWitness::start(begin, node.name(), node.socket(), &watched));
        let replica_witnesses = SLOTS.iter().zip(&replicas).map(|(slot, replica)| {
            ReplicaWitness::start(begin, slot, replica.tidegate.agent(), &watched[0])
        });
        let scene = Self {
            name,
            begin,
            bounds: Bounds {
                staleness: LEASE,
                poll_interval: INTERVAL,
                agreed: Vec::new(),
            },
            node_witnesses: node_witnesses.collect(),
            replica_witnesses: replica_witnesses.collect(),
            writer: Some(writer),
            balancer,
            nodes,
            replicas,
            consul,
            consul_space,
            _folder: folder,
            _spaces: spaces,
            _net: net,
        };
        scene.await_all_polled();
        println!("{name}: started in {:.1?}", begin.elapsed());
        scene
    }

    /// The same with the writer at work.
    pub(crate) fn start_written(name: &'static str, plan: Plan) -> Self {
        let scene = Self::start(name, plan);
        scene.write();
        scene
    }

    fn write(&self) {
        self.writer().go_on();
        self.writer().await_writes(2);
    }

    pub(crate) fn writer(&self) -> &Writer {
        self.writer.as_ref().expect("it writes until the end")
    }

    /// Time since the beginning.
    pub(crate) fn now(&self) -> At {
        self.begin.elapsed()
    }

    /// Consul was gone for all since `begin`, and every replica sees it again now: meanwhile each
    /// answered what was agreed upon, and noticed one by one that there is more.
    pub(crate) fn was_agreed_since(&mut self, begin: At) {
        self.await_all(200, "current");
        let end = self.now();
        self.bounds.agreed.push((begin, end));
    }

    /// Waits until each replica says on `/readyz` that it is `authority`.
    pub(crate) fn await_all(&self, status: u16, authority: &str) {
        for replica in &self.replicas {
            replica.tidegate.await_readyz(status, authority, PATIENCE);
        }
    }

    /// Waits until the last agent check of every server was answered.
    pub(crate) fn await_all_polled(&self) {
        for node in &self.nodes {
            eventually("every server of a node is answered", PATIENCE, || {
                let rows = node.show_stat();
                let mut servers = rows.iter().filter(|row| row.field("type") == "2");
                let open = servers.find(|row| row.agent_status() != "L7OK");
                check(open.is_none(), || format!("{:?}", open.map(Row::last_agt)))
            });
        }
    }

    /// Waits until every server was told the newest version; the writer rests.
    pub(crate) fn await_all_told(&self) {
        let newest = format!("i={} ", self.writer().index());
        for node in &self.nodes {
            eventually("every server is told the newest version", PATIENCE, || {
                let rows = node.show_stat();
                let mut servers = rows.iter().filter(|row| row.field("type") == "2");
                let old = servers.find(|row| !row.last_agt().contains(&newest));
                check(old.is_none(), || {
                    format!("{:?}, not {newest}", old.map(Row::last_agt))
                })
            });
        }
    }

    /// Ends everything and judges what was seen; prints the line of figures.
    pub(crate) fn finish(mut self) -> Outcome {
        let carried = self.balancer.carried();
        let looked = self.node_witnesses.drain(..).map(NodeWitness::finish);
        let (slots, blind): (Vec<_>, Vec<_>) = looked.unzip();
        let replicas: Vec<_> = self
            .replica_witnesses
            .drain(..)
            .map(ReplicaWitness::finish)
            .collect();
        let history = self.writer.take().expect("finished once").finish();
        let mut findings = judge(&history, &self.bounds, &slots.concat(), &replicas);
        findings.blind = blind.into_iter().max().unwrap_or_default();
        let asked: usize = replicas.iter().map(|replica| replica.polls.len()).sum();
        println!(
            "FIGURES {}: {} polls{}, {} lost, {} wrong, {} flaps, longest silence \
             {:.2?}, longest difference {:.2?}; {} writes, {asked} direct polls, longest gap between \
             looks {:.2?}, {:.1?} in all",
            self.name,
            self.balancer.polls(),
            carried.map_or_else(String::new, |all| format!(" ({} answered)", all.answers)),
            findings.lost,
            findings.wrong.len(),
            findings.flaps.len(),
            findings.silence,
            findings.difference,
            history.len(),
            findings.blind,
            self.now(),
        );
        Outcome {
            findings,
            carried,
            name: self.name,
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for replica in &mut self.replicas {
            // An orderly end would wait for balancers.
            replica.tidegate.end();
        }
    }
}

impl Outcome {
    /// No server was ever told anything wrong, or old after new.
    pub(crate) fn assert_right(&self) -> &Self {
        let Findings { wrong, flaps, .. } = &self.findings;
        let some = |list: &[String]| list[..list.len().min(10)].join("\n");
        assert!(
            wrong.is_empty() && flaps.is_empty(),
            "{}: {} wrong:\n{}\n{} flaps:\n{}",
            self.name,
            wrong.len(),
            some(wrong),
            flaps.len(),
            some(flaps)
        );
        self
    }

    /// Every poll of HAProxy had an answer.
    pub(crate) fn assert_none_lost(&self) {
        let Self {
            findings,
            carried,
            name,
        } = self;
        assert_eq!(findings.lost, 0, "{name}: polls were lost");
        // Both say the same: every poll's outcome was looked at, and the balancer carried it.
        assert!(
            findings.blind < INTERVAL,
            "{name}: {:?} between two looks",
            findings.blind
        );
        let unanswered = carried.map_or(0, |all| all.polls.saturating_sub(all.answers));
        assert!(unanswered <= UNDER_WAY_MAX, "{name}: {carried:?}");
    }

    /// No server was longer without an answer.
    pub(crate) fn assert_silent_for_at_most(&self, limit: Duration) {
        let silence = self.findings.silence;
        assert!(
            silence <= limit,
            "{}: {silence:?} without an answer",
            self.name
        );
    }
}
