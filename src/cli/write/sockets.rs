//! Writing the rows that do not follow the KV to the stats sockets of their nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Proposal, Standing, plan};
use crate::cli::look::{Look, SOCKETS_AT_ONCE_MAX};
use crate::cli::{Exit, Failure, print};
use crate::config::Config;
use crate::domain::change::applied;
use crate::domain::migration::{Left, Mode, Plan, ServerState, SocketChange, Wanted, Write};
use crate::domain::name::{Name, ServerId};
use crate::domain::rails::PlanRow;
use crate::domain::sentinel::Generation;
use crate::domain::snapshot::Snapshot;
use crate::domain::topology::Topology;
use crate::haproxy::socket::{SocketError, StatsAddress};

/// The most rows of one change: they stand in its record, 150 bytes each at most, and Consul takes
/// 512 KiB. A large site has 919 canary rows.
const ROWS_MAX: usize = 2_000;
/// How many rows an error names.
const NAMED_MAX: usize = 20;

/// What is written to sockets, and what is not.
pub(super) struct Sockets {
    plan: Plan,
    /// Whether what is left is an error, and not a choice.
    writes: bool,
}

/// What became of a row.
type Outcome = (Name, ServerId, Result<String, String>);

/// What the servers of each socket were set to. Of another environment nothing is asked: a row of
/// its name may stand on these nodes.
pub(super) async fn servers_states(
    config: &Config,
) -> BTreeMap<Name, Result<BTreeMap<ServerId, ServerState>, String>> {
    let elsewhere = config
        .migration
        .as_ref()
        .is_some_and(|name| *name != config.environment);
    if elsewhere {
        return BTreeMap::new();
    }
    let nodes = config.observe.stats.clone();
    on_all(nodes, async |_, address| {
        let states = address.servers_state().await;
        states.map_err(|error| error.to_string())
    })
    .await
    .into_iter()
    .collect()
}

impl Sockets {
    /// Which rows become what.
    pub(super) fn plan(
        look: &Look,
        standing: &Standing,
        proposal: &Proposal,
    ) -> Result<Self, Failure> {
        let refused = |error| Failure::new(Exit::Refused, error);
        let after = Snapshot::build(&applied(&standing.listing, &proposal.edits));
        let after = after.map_err(|error| refused(error.to_string()))?;
        let writes = look.config.migration.as_ref() == Some(&look.config.environment);
        let plan = standing.old.plan(&Wanted {
            keys: &proposal.keys,
            undone: &proposal.undone,
            after: &after,
            topology: &standing.topology,
            now: standing.now,
            writes,
        });
        if plan.writes.len() > ROWS_MAX {
            let count = plan.writes.len();
            return Err(refused(format!(
                "{count} rows would be written to stats sockets, {ROWS_MAX} are allowed at once: \
                 name fewer; nothing was written"
            )));
        }
        Ok(Self { plan, writes })
    }

    /// Whether no socket is written.
    pub(super) const fn is_empty(&self) -> bool {
        self.plan.writes.is_empty()
    }

    /// For the history.
    pub(super) fn changes(&self) -> Vec<SocketChange> {
        self.changed().cloned().collect()
    }

    fn changed(&self) -> impl Iterator<Item = &SocketChange> {
        self.plan.writes.iter().map(|write| &write.change)
    }

    /// What a person should know before it is written.
    pub(super) fn notes(&self) -> Vec<String> {
        let left = self.plan.left.iter();
        let mut notes: Vec<_> = left
            .take(NAMED_MAX)
            .map(|left| format!("not written: {}", named(left)))
            .collect();
        let more = self.plan.left.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            notes.push(format!("not written: {more} more rows"));
        }
        if self.plan.changes_later {
            let text = "what changes by itself later (a ramp, a plan, an end) does not reach the \
                        rows by stats socket: repeat the command then";
            notes.push(text.to_owned());
        }
        notes
    }

    /// The fleet between the KV and the end: before any socket is written, and when those are
    /// written that take traffic away.
    pub(super) fn on_the_way(&self, topology: &Topology) -> Vec<Topology> {
        if self.plan.writes.is_empty() {
            return Vec::new();
        }
        vec![
            topology.clone(),
            self.written(topology, SocketChange::closes),
        ]
    }

    /// The fleet when all sockets are written.
    pub(super) fn done(&self, topology: &Topology) -> Topology {
        self.written(topology, |_| true)
    }

    fn written(&self, topology: &Topology, which: impl Fn(&SocketChange) -> bool) -> Topology {
        let writes = self.plan.writes.iter().filter(|write| which(&write.change));
        topology.with_held(writes.map(|write| {
            let SocketChange {
                node,
                server,
                after,
                ..
            } = &write.change;
            (node, server, write.seen.answer(*after))
        }))
    }

    /// Writes them, and shows what became of every row, of the others too.
    pub(super) fn write(
        &self,
        look: &Look,
        rows: &[PlanRow],
        generation: Generation,
    ) -> Result<(), Failure> {
        if self.plan.writes.is_empty() && self.plan.left.is_empty() {
            return Ok(());
        }
        let mut by_node: BTreeMap<Name, Vec<Write>> = BTreeMap::new();
        for write in &self.plan.writes {
            let of_node = by_node.entry(write.change.node.clone()).or_default();
            of_node.push(write.clone());
        }
        let addresses = look.config.observe.stats.clone();
        let mine = addresses.into_iter().filter_map(|(node, address)| {
            let writes = by_node.remove(&node)?;
            Some((node, (address, writes)))
        });
        let writing = on_all(mine.collect(), async |_, (address, writes)| {
            write_node(&address, writes).await
        });
        let done = look.context.block_on(writing);
        let outcomes: Vec<_> = done
            .into_iter()
            .flat_map(|(_, outcomes)| outcomes)
            .collect();
        print(&self.table(rows, generation, &outcomes))?;
        self.outcome(Some(&outcomes))
    }

    /// One line for each row of a node: failures first, then the sockets, then the KV.
    fn table(&self, rows: &[PlanRow], generation: Generation, outcomes: &[Outcome]) -> String {
        let line = |node: &Name, server: &ServerId, via: &str, result: &str| {
            [
                node.to_string(),
                server.to_string(),
                via.to_owned(),
                result.to_owned(),
            ]
        };
        let mut lines: Vec<_> = outcomes
            .iter()
            .map(|(node, server, result)| match result {
                Ok(text) => (1, line(node, server, "socket", text)),
                Err(text) => (0, line(node, server, "socket", &format!("FAILED: {text}"))),
            })
            .collect();
        let left = self.plan.left.iter();
        lines.extend(left.map(|left| (0, line(&left.node, &left.server, "-", &left.why))));
        let in_the_kv = format!("in the KV, generation {generation}");
        for row in rows.iter().filter(|row| !row.by_socket) {
            let nodes = row.nodes.iter();
            let told = nodes.filter(|node| !self.is_left(node, &row.server));
            lines.extend(told.map(|node| (2, line(node, &row.server, "kv", &in_the_kv))));
        }
        lines.sort();
        let lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
        plan::shown(["NODE", "ROW", "VIA", "RESULT"], &lines)
    }

    fn is_left(&self, node: &Name, server: &ServerId) -> bool {
        let mut left = self.plan.left.iter();
        left.any(|left| left.node == *node && left.server == *server)
    }

    /// What is not written is an error, unless it was switched off.
    pub(super) fn outcome(&self, outcomes: Option<&[Outcome]>) -> Result<(), Failure> {
        let failed = outcomes.unwrap_or_default().iter();
        let failed = failed.filter_map(|(node, server, result)| {
            let why = result.as_ref().err()?;
            Some(format!("{server} on {node}: {why}"))
        });
        let left = self.plan.left.iter().filter(|_| self.writes);
        let failed: Vec<_> = failed.chain(left.map(named)).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let more = match failed.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!("\nand {more} more"),
        };
        let shown: Vec<_> = failed.iter().take(NAMED_MAX).map(String::as_str).collect();
        let text = format!(
            "{} rows that do not follow the KV are not as they should be:\n{}{more}\n\
             everything else is written: mend it, and repeat the command",
            failed.len(),
            shown.join("\n")
        );
        Err(Failure::new(Exit::Failed, text))
    }
}

fn named(left: &Left) -> String {
    format!("{} on {}: {}", left.server, left.node, left.why)
}

/// Does the same for every node, at most so many at once.
async fn on_all<I, O, W>(
    nodes: BTreeMap<Name, I>,
    work: impl Fn(Name, I) -> W + Clone + Send + 'static,
) -> Vec<(Name, O)>
where
    I: Send + 'static,
    O: Send + 'static,
    W: Future<Output = O> + Send,
{
    let permits = Arc::new(Semaphore::new(SOCKETS_AT_ONCE_MAX));
    let mut tasks = JoinSet::new();
    for (node, of_node) in nodes {
        let (permits, work) = (Arc::clone(&permits), work.clone());
        tasks.spawn(async move {
            // It is closed by nobody.
            let _permit = permits.acquire_owned().await;
            (node.clone(), work(node, of_node).await)
        });
    }
    let mut done = tasks.join_all().await;
    done.sort_by(|(one, _), (other, _)| one.cmp(other));
    done
}

/// Writes the rows of one node: what takes traffic away first. What somebody has changed since it
/// was looked at, and what follows the KV by now, is not written; after an error nothing is.
async fn write_node(address: &StatsAddress, mut writes: Vec<Write>) -> Vec<Outcome> {
    writes.sort_by_key(|write| !write.change.closes());
    let mut stopped: Option<String> = None;
    let fresh = match address.servers_state().await {
        Ok(fresh) => fresh,
        Err(error) => {
            stopped = Some(error.to_string());
            BTreeMap::new()
        }
    };
    let mut results = Vec::new();
    for write in &writes {
        let result = match &stopped {
            Some(why) => Err(format!("not tried: {why}")),
            None => change(address, write, fresh.get(&write.change.server)).await,
        };
        if let (Err(why), None) = (&result, &stopped) {
            stopped = Some(format!("{} failed before: {why}", write.change.server));
        }
        results.push(result);
    }
    let now = address.servers_state().await;
    let outcome = |(write, result): (&Write, Result<(), String>)| {
        let SocketChange {
            node,
            server,
            after,
            ..
        } = &write.change;
        let result = result.and_then(|()| match &now {
            Ok(now) => match now.get(server).map(|state| state.now) {
                Some(now) if now.is_as(*after) => Ok(format!("{after}, read back")),
                Some(now) => Err(format!("it was set to {after}, and is {now}")),
                None => Err("it was set, and is gone".to_owned()),
            },
            Err(error) => Err(format!("it was set to {after}, and not read back: {error}")),
        });
        (node.clone(), server.clone(), result)
    };
    writes.iter().zip(results).map(outcome).collect()
}

/// Sets one row that is still as it was looked at.
async fn change(
    address: &StatsAddress,
    write: &Write,
    fresh: Option<&ServerState>,
) -> Result<(), String> {
    let SocketChange {
        server,
        before,
        after,
        ..
    } = &write.change;
    let fresh = fresh.ok_or("HAProxy has no such server any more")?;
    if fresh.agent && !write.seen.agent {
        return Err("it asks an agent by now, and follows the KV: repeat the command".to_owned());
    }
    if fresh.now.is_as(*after) {
        return Ok(());
    }
    if fresh.now != *before {
        let now = fresh.now;
        return Err(format!(
            "somebody has changed it meanwhile: it was {before}, and is {now}"
        ));
    }
    let set = async {
        // Never open at an old weight.
        if after.weight != before.weight && after.state == Mode::Ready {
            address.set_weight(server, after.weight).await?;
        }
        if after.state != before.state {
            address.set_state(server, after.state).await?;
        }
        Ok(())
    };
    set.await.map_err(|error: SocketError| error.to_string())
}
