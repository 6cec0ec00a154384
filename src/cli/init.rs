//! `tidegate init`.

use std::fs;

use bytes::Bytes;
use clap::Args;

use super::announce;
use super::commit::{Proof, commit};
use super::context::ConfigArgs;
use super::write::{AuthorArgs, DRY_RUN, trace};
use super::{Context, Exit, Failure, print};
use crate::clock;
use crate::config::{Flags, KvSource};
use crate::domain::answer::Percent;
use crate::domain::directive::Desired;
use crate::domain::history::{Changed, Value};
use crate::domain::key::{CANARY_STATE, META, Prefix};
use crate::domain::listing::Listing;
use crate::domain::sentinel::{Generation, SentinelError};
use crate::kv::{Expect, Kv as _, Operation};

/// Set up a new environment.
#[derive(Debug, Args)]
pub(super) struct Init {
    #[command(flatten)]
    author: AuthorArgs,
    /// Show what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Init {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let config = self.config.load_for_command(flags)?;
        if let KvSource::Directory(path) = &config.kv {
            if self.dry_run && !path.exists() {
                let (operations, _) = self.operations(&config.prefix, &Listing::default())?;
                return print(&format!("{}{DRY_RUN}", keys(&operations)));
            }
            fs::create_dir_all(path).map_err(|error| {
                Failure::new(Exit::Failed, format!("{}: {error}", path.display()))
            })?;
        }
        self.write(&Context::new(&config)?)
    }

    fn write(&self, context: &Context) -> Result<(), Failure> {
        let prefix = &context.prefix;
        let listing = context.block_on(context.source.list(prefix))?;
        let (operations, sentinel) = self.operations(prefix, &listing)?;
        let text = keys(&operations);
        if self.dry_run {
            return print(&format!("{text}{DRY_RUN}"));
        }
        let Sentinel { generation, meta } = sentinel;
        let proof = Proof {
            key: prefix.key(META),
            value: meta.into(),
        };
        let written = context.block_on(commit(&context.source, &operations, &proof));
        let changed: Vec<_> = operations.iter().map(|it| changed(prefix, it)).collect();
        let said = "Environment set up".to_owned();
        let told = written.as_ref().map(drop);
        let announcing = announce::event(context, &self.author, &changed, said, told);
        announcing.finish(context);
        written?;
        print(&format!(
            "{text}{} is set up, generation {generation}\n",
            context.environment
        ))
    }

    /// What is written, and the sentinel in it.
    fn operations(
        &self,
        prefix: &Prefix,
        listing: &Listing,
    ) -> Result<(Vec<Operation>, Sentinel), Failure> {
        match Generation::read(listing) {
            Err(SentinelError::Empty | SentinelError::Missing(_)) => {}
            Ok(generation) => {
                let text = format!("{prefix} is set up already, generation {generation}");
                return Err(Failure::new(Exit::Refused, text));
            }
            Err(error @ (SentinelError::Unreadable(_) | SentinelError::Schema(_))) => {
                return Err(Failure::new(Exit::Refused, error.to_string()));
            }
        }
        let now = clock::now();
        let epoch = u64::try_from(now.as_second()).unwrap_or(0).max(1);
        let generation = Generation { epoch, r#gen: 1 };
        let meta = generation.to_json(now, &self.author.name(), trace().as_deref());
        let set = |path: &str, value: String| Operation::Set {
            key: prefix.key(path),
            value: Bytes::from(value),
            expect: Expect::Missing,
        };
        let mut operations = vec![set(META, meta.clone())];
        if !listing.entries.contains_key(CANARY_STATE) {
            let ready = Desired::Ready {
                weight: Percent::FULL,
                ramp: None,
            };
            operations.push(set(CANARY_STATE, self.author.directive(ready).to_json()));
        }
        Ok((operations, Sentinel { generation, meta }))
    }
}

/// The sentinel as it is written.
struct Sentinel {
    generation: Generation,
    meta: String,
}

/// For whoever is told of it: nothing stood there before.
fn changed(prefix: &Prefix, operation: &Operation) -> Changed {
    let key = operation.key();
    let after = match operation {
        Operation::Set { value, .. } => Some(Value(value.clone())),
        Operation::Delete { .. } => None,
    };
    Changed {
        path: key.strip_prefix(prefix.as_str()).unwrap_or(key).to_owned(),
        before: None,
        after,
    }
}

fn keys(operations: &[Operation]) -> String {
    let keys = operations.iter().map(Operation::key);
    keys.map(|key| format!("{key}\n")).collect()
}
