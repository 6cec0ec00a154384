//! `tidegate accept`.

mod replicas;
mod rights;
mod view;

use std::time::Duration;

use bytes::Bytes;
use clap::Args;

use self::replicas::Heard;
use self::view::{About, View};
use super::announce::{self, Announcing};
use super::ask::{NO_TERMINAL, confirm, has_terminal, tell};
use super::commit::{Proof, Unwritten, commit};
use super::context::ConfigArgs;
use super::output::{Output, json};
use super::replica::{Replica, ReplicaArgs};
use super::write::{AuthorArgs, DRY_RUN, trace};
use super::{Context, Exit, Failure, print};
use crate::clock;
use crate::config::Flags;
use crate::domain::acceptance::{Effect, next_history, with_sentinel};
use crate::domain::history::{Changed, Value};
use crate::domain::key::{META, Prefix};
use crate::domain::listing::Listing;
use crate::domain::sentinel::{Generation, SentinelError};
use crate::kv::{Expect, Kv, KvError, Operation};

/// How long to wait before a replica is looked at again: less than a light read takes to come.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Believe a store whose history went back (restored, wiped, written to by the past), after showing
/// what that changes.
#[derive(Debug, Args)]
pub(super) struct Accept {
    #[command(flatten)]
    replicas: ReplicaArgs,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Although no replica needs it; with --yes also although no replica can be asked.
    #[arg(long)]
    force: bool,
    /// Show what would change, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// How long the replicas may take to answer again.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    wait: Duration,
    /// How to print what would change.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

/// What is written, and what it rests on.
struct Proposal {
    /// The store as it was shown.
    listing: Listing,
    next: Generation,
    /// The sentinel's value.
    meta: String,
}

impl Accept {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        if !self.yes && !self.dry_run && !has_terminal() {
            return Err(Failure::new(Exit::Usage, NO_TERMINAL));
        }
        let config = self.config.load_for_command(flags)?;
        let replicas = self.replicas.replicas(&config)?;
        let context = Context::new(&config)?;
        let hearing = Heard::of(&replicas, &context.prefix);
        let mut heard = context
            .block_on(hearing)
            .map_err(|text| Failure::new(Exit::Usage, text))?;
        let listing = context.block_on(context.source.list(&context.prefix));
        let listing = listing.map_err(|error| denied_listing(&context, error))?;
        let check = rights::check(&context.source, &context.prefix, &listing, &heard);
        let warning = context.block_on(check)?;
        heard.warnings.extend(warning);
        let stored = stored_generation(&context, &listing)?;
        let need = self.need(&heard, stored)?;
        let proposal = self.proposal(listing, stored, &heard)?;
        self.show(&context, &proposal, &heard, need)?;
        if self.dry_run {
            return self.say(DRY_RUN);
        }
        if !self.yes {
            confirm(&format!(
                "Answer from what {} holds now, as generation {}?",
                context.prefix, proposal.next
            ))?;
        }
        let written = context.block_on(write(&context.source, &context.prefix, &proposal));
        let announcing = self.announce(&context, &proposal, written.as_ref().map(drop));
        let outcome = written
            .map_err(Failure::from)
            .and_then(|()| self.accepted(&context, &proposal, &heard));
        announcing.finish(&context);
        outcome
    }

    fn announce(
        &self,
        context: &Context,
        proposal: &Proposal,
        written: Result<(), &Unwritten>,
    ) -> Announcing {
        let standing = proposal.listing.entries.get(META);
        let changed = Changed {
            path: META.to_owned(),
            before: standing.map(|entry| Value(entry.value.clone())),
            after: Some(Value(proposal.meta.clone().into())),
        };
        let text = format!("History accepted as generation {}", proposal.next);
        announce::event(context, &self.author, &[changed], text, written)
    }

    fn accepted(
        &self,
        context: &Context,
        proposal: &Proposal,
        heard: &Heard,
    ) -> Result<(), Failure> {
        self.say(&format!(
            "accepted: {} is generation {}\n",
            context.prefix, proposal.next
        ))?;
        context.block_on(self.wait_for(&heard.replicas, proposal.next.epoch))
    }

    /// Whether an epoch ends anything; gives a warning to show, and refuses where it does not.
    fn need(&self, heard: &Heard, stored: Option<Generation>) -> Result<Option<String>, Failure> {
        let refused = |text: String| Err(Failure::new(Exit::Refused, text));
        let lines = || {
            let line = |b: &replicas::Belief| {
                format!("{} ({}) is {}: {}", b.replica, b.url, b.authority, b.reason)
            };
            heard
                .beliefs
                .iter()
                .map(line)
                .collect::<Vec<_>>()
                .join("\n")
        };
        if heard.beliefs.is_empty() {
            let text = "no replica can be asked: what is believed is not known, all that is in the \
                        store is shown";
            if self.yes && !self.force && !self.dry_run {
                let why = heard.warnings.join("\n");
                return refused(format!(
                    "{why}\n{text}. Nothing was written; --force does it without asking all the same"
                ));
            }
            return Ok(Some(text.to_owned()));
        }
        if stored.is_none() || heard.beliefs.iter().any(|belief| belief.broken) {
            return Ok(None);
        }
        let held = heard.beliefs.iter().any(|b| b.authority == "held");
        if held {
            return refused(format!(
                "{}\nNo new epoch ends that: do what it says there. Nothing was written",
                lines()
            ));
        }
        if !self.force {
            return refused(format!(
                "{}\nNothing needs to be accepted, and nothing was written; --force does it all the \
                 same",
                lines()
            ));
        }
        Ok(Some("no replica needs it: --force was given".to_owned()))
    }

    fn proposal(
        &self,
        listing: Listing,
        stored: Option<Generation>,
        heard: &Heard,
    ) -> Result<Proposal, Failure> {
        let now = clock::now();
        let known = heard.beliefs.iter().map(|belief| belief.highest);
        let next = next_history(now, known.chain(stored)).ok_or_else(|| {
            let text = format!(
                "an epoch of {} is known, and nothing is above it: stop all replicas, remove what \
                 they keep in data_dir, and write a _meta with a smaller one",
                u64::MAX
            );
            Failure::new(Exit::Refused, text)
        })?;
        let meta = next.to_json(now, &self.author.name(), trace().as_deref());
        Ok(Proposal {
            listing,
            next,
            meta,
        })
    }

    fn show(
        &self,
        context: &Context,
        proposal: &Proposal,
        heard: &Heard,
        need: Option<String>,
    ) -> Result<(), Failure> {
        let accepted = with_sentinel(&proposal.listing, &proposal.meta);
        let effect = Effect::new(heard.furthest(), &accepted, &heard.polled, clock::now());
        let about = About {
            prefix: context.prefix.as_str().to_owned(),
            index: proposal.listing.index,
            keys_stored: proposal.listing.entries.len(),
            next: proposal.next,
        };
        let warnings = heard.warnings.iter().cloned().chain(need).collect();
        let view = View::new(about, &heard.beliefs, warnings, effect);
        match self.output {
            Output::Table => print(&view.to_string()),
            Output::Json => print(&json(&view)),
        }
    }

    /// Waits until every replica that was asked answers by the new history.
    async fn wait_for(&self, replicas: &[Replica], epoch: u64) -> Result<(), Failure> {
        let begin = clock::moment();
        for replica in replicas {
            while let Err(why) = replicas::answers(replica, epoch).await {
                if clock::moment().since(begin) >= self.wait {
                    let text = format!(
                        "it is written, and {} does not answer by it yet: {why}",
                        replica.url
                    );
                    return Err(Failure::new(Exit::NotConverged, text));
                }
                tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            }
            self.say(&format!("{} answers\n", replica.url))?;
        }
        Ok(())
    }

    /// A line beside the view, which is alone on standard output when it is JSON.
    fn say(&self, text: &str) -> Result<(), Failure> {
        match self.output {
            Output::Table => print(text),
            Output::Json => {
                tell(text);
                Ok(())
            }
        }
    }
}

/// The sentinel that stands there, if any; an empty prefix and a broken sentinel are refused.
fn stored_generation(context: &Context, listing: &Listing) -> Result<Option<Generation>, Failure> {
    let prefix = &context.prefix;
    let text = match Generation::read(listing) {
        Ok(generation) => return Ok(Some(generation)),
        Err(SentinelError::Missing(_)) => return Ok(None),
        Err(SentinelError::Empty) => format!(
            "no key under {prefix}: there is nothing to accept. Restore it, or begin anew with \
             `tidegate init`"
        ),
        Err(error @ SentinelError::Unreadable(_)) => format!(
            "{error}. Put back what stood at {}, or delete that key and run `tidegate accept` again",
            prefix.key(META)
        ),
        Err(error @ SentinelError::Schema(_)) => error.to_string(),
    };
    Err(Failure::new(Exit::Refused, text))
}

fn denied_listing(context: &Context, error: KvError) -> Failure {
    match error {
        KvError::Denied(text) => rights::denied(&context.prefix, context.prefix.as_str(), &text),
        error @ (KvError::Unreachable(_)
        | KvError::BadAnswer(_)
        | KvError::BadRequest(_)
        | KvError::ReadOnly(_)
        | KvError::OutcomeUnknown(_)) => error.into(),
    }
}

/// Writes the sentinel, if the store is still as it was shown.
async fn write<K: Kv>(kv: &K, prefix: &Prefix, proposal: &Proposal) -> Result<(), Unwritten> {
    let known = |failure: Failure| Unwritten::new(failure, false);
    let now = kv.list(prefix).await.map_err(|error| known(error.into()))?;
    if !now.same_contents(&proposal.listing) {
        let text = "somebody else wrote meanwhile; nothing was written: look again";
        return Err(known(Failure::new(Exit::Conflict, text)));
    }
    let standing = now.entries.get(META);
    let sentinel = Operation::Set {
        key: prefix.key(META),
        value: Bytes::copy_from_slice(proposal.meta.as_bytes()),
        expect: standing.map_or(Expect::Missing, |entry| Expect::Index(entry.modify_index)),
    };
    let proof = Proof {
        key: prefix.key(META),
        value: proposal.meta.clone().into(),
    };
    commit(kv, &[sentinel], &proof).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::memory::MemoryKv;

    fn proposal(listing: Listing) -> Proposal {
        let next = Generation { epoch: 9, r#gen: 2 };
        let meta = next.to_json(jiff::Timestamp::UNIX_EPOCH, "me", None);
        Proposal {
            listing,
            next,
            meta,
        }
    }

    #[tokio::test]
    async fn what_was_written_since_it_was_shown_is_a_conflict() {
        let kv = MemoryKv::new();
        let prefix = Prefix::new("frontend", "gprd").unwrap();
        let (meta, canary) = (prefix.key(META), prefix.key("canary-state"));
        kv.put(&canary, "drain");
        let shown = proposal(kv.list(&prefix).await.unwrap());
        // Another key, written by a program that does not count generations.
        kv.put(&canary, "ready");
        let unwritten = write(&kv, &prefix, &shown).await.unwrap_err();
        assert_eq!(unwritten.failure.exit, Exit::Conflict);
        assert_eq!(kv.get(&meta).await.unwrap(), None);
        let shown = proposal(kv.list(&prefix).await.unwrap());
        write(&kv, &prefix, &shown).await.unwrap();
        let written = kv.get(&meta).await.unwrap().unwrap();
        assert_eq!(written.value, shown.meta);
        // And twice.
        let unwritten = write(&kv, &prefix, &shown).await.unwrap_err();
        assert_eq!(unwritten.failure.exit, Exit::Conflict);
    }
}
