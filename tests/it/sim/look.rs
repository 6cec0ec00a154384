//! What each replica does at one moment.

use std::sync::Arc;

use tidegate::domain::authority::{Answers, AuthorityName};
use tidegate::domain::memory::Memory;
use tokio::time::Instant;

use super::consul::{Consul, NARROWED, Rights};
use super::replica::moment_of;
use super::world::World;

/// One replica at one moment.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) number: usize,
    pub(super) name: AuthorityName,
    pub(super) answer: Option<Answered>,
    pub(super) reason: String,
    pub(super) memory: Option<Arc<Memory>>,
    pub(super) born: Instant,
    pub(super) saw_it: Option<Instant>,
    /// Whether its token hides keys.
    pub(super) narrowed: bool,
    pub(super) clock_error: i64,
    pub(super) clock_since: Instant,
}

/// What it answers from.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub(super) seq: u64,
    pub(super) replaced: Option<Instant>,
    /// Some keys are missing that this version has.
    pub(super) cut: bool,
    /// Of the keys that a narrowed token hides, those that it has.
    pub(super) has: [bool; NARROWED.len()],
    /// And those that it lacks and this version has.
    pub(super) lacks: [bool; NARROWED.len()],
    pub(super) epoch: u64,
    /// From what was agreed on before.
    pub(super) deferred: bool,
}

impl Look {
    pub(super) fn broken(&self) -> u64 {
        let memory = self.memory.as_ref();
        memory
            .and_then(|memory| memory.broken.as_ref())
            .map_or(0, |broken| broken.0)
    }

    /// Whether what it knows shows that Consul's present state is an older one.
    pub(super) fn proves(&self, consul: &Consul) -> bool {
        let (now, Some(memory)) = (consul.now(), &self.memory) else {
            return false;
        };
        let lower_table = now.table_index < memory.evidence.table_index;
        now.generation.map_or(lower_table, |generation| {
            let listing = now.view(Rights::Full);
            let against = memory.evidence.against(&listing, generation).is_some();
            against || (generation.epoch == memory.evidence.highest.epoch && lower_table)
        })
    }

    pub(super) fn text(&self) -> String {
        let answer = self.answer.as_ref().map_or_else(String::new, |answer| {
            let cut = if answer.cut { " cut" } else { "" };
            format!(" seq {}{cut}", answer.seq)
        });
        let reason = match self.name {
            AuthorityName::CutOff | AuthorityName::Held => self.reason.as_str(),
            AuthorityName::Current
            | AuthorityName::Relayed
            | AuthorityName::Agreed
            | AuthorityName::Starting => "",
        };
        format!("r{}:{}{answer} {reason}", self.number, self.name.as_str())
    }
}

pub(super) fn texts(looks: &[Look]) -> String {
    looks.iter().map(Look::text).collect::<Vec<_>>().join(", ")
}

/// Every process as it is now.
pub(super) fn look(world: &World) -> Vec<Look> {
    let state = world.state();
    let mut looks = Vec::new();
    for (number, replica) in state.replicas.iter().enumerate() {
        let Some(store) = replica
            .store
            .as_ref()
            .filter(|_| replica.up && !replica.suspended)
        else {
            continue;
        };
        let (published, now) = (store.load(), moment_of(world, number));
        let answer = published.answering(now).map(|snapshot| {
            let has = |path: &str| snapshot.placed().any(|placed| placed.path == path);
            let rights = if NARROWED.into_iter().any(has) {
                Rights::Full
            } else {
                Rights::Subset
            };
            let version = state.consul.of(snapshot.generation, snapshot.index, rights);
            let has = NARROWED.map(has);
            let exists = NARROWED.map(|path| version.entries.contains_key(path));
            let lacks = std::array::from_fn(|key| exists[key] && !has[key]);
            Answered {
                seq: version.seq,
                replaced: version.replaced,
                cut: lacks.contains(&true),
                has,
                lacks,
                epoch: snapshot.generation.epoch,
                deferred: published.standing.answers(now) == Answers::WhatWasAgreed,
            }
        });
        looks.push(Look {
            number,
            name: published.standing.name(now),
            answer,
            reason: published.standing.verdict(now).reason,
            memory: published
                .memory
                .as_ref()
                .map(|(_, memory)| Arc::clone(memory)),
            born: replica.born,
            saw_it: replica.saw_it,
            narrowed: replica.rights != Rights::Full,
            clock_error: replica.clock_error,
            clock_since: replica.clock_since,
        });
    }
    looks
}
