//! `tidegate deploy`: the deploy lock, which `canary` reads.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::look::LookArgs;
use super::write::{Manner, Proposal, WriteArgs, span};
use super::{Exit, Failure, print};
use crate::clock;
use crate::config::Flags;
use crate::domain::change::Edit;
use crate::domain::deploy::Deploy as Lock;
use crate::domain::name::Name;

/// Say that a deploy is running: meanwhile nobody drains what it deploys to.
#[derive(Debug, Args)]
pub(super) struct Deploy {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A deploy begins.
    Start(Start),
    /// It is over.
    Finish(Finish),
}

#[derive(Debug, Args)]
pub(super) struct Start {
    /// The stage, such as cny or main.
    #[arg(value_name = "STAGE")]
    stage: String,
    /// Where it can be looked at.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// After that it counts as over, whatever became of the pipeline.
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = span)]
    ttl: Duration,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    look: LookArgs,
}

#[derive(Debug, Args)]
pub(super) struct Finish {
    /// The stage.
    #[arg(value_name = "STAGE")]
    stage: String,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    look: LookArgs,
}

impl Deploy {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        match &self.what {
            What::Start(start) => {
                let until = clock::now().checked_add(start.ttl);
                let until =
                    until.map_err(|error| Failure::new(Exit::Usage, format!("--ttl: {error}")))?;
                let lock = Lock {
                    active: true,
                    url: start.url.clone(),
                    until: Some(until),
                    by: Some(start.write.author_name()),
                };
                write(&start.stage, &lock, &start.write, &start.look, flags)
            }
            What::Finish(finish) => {
                let lock = Lock {
                    active: false,
                    url: None,
                    until: None,
                    by: Some(finish.write.author_name()),
                };
                write(&finish.stage, &lock, &finish.write, &finish.look, flags)
            }
        }
    }
}

fn write(
    stage: &str,
    deploy: &Lock,
    write: &WriteArgs,
    looks: &LookArgs,
    flags: &Flags,
) -> Result<(), Failure> {
    let stage = Name::parse(stage)
        .map_err(|error| Failure::new(Exit::Usage, format!("{stage:?} is no stage: {error}")))?;
    // What could not be read back would lock nobody, or everybody.
    Lock::parse(deploy.to_json().as_bytes()).map_err(|text| Failure::new(Exit::Usage, text))?;
    let look = looks.open(flags)?;
    write.apply(&look, Manner::default(), |standing| {
        let stages = &standing.snapshot.settings.rails.stages;
        if deploy.active && !stages.contains_key(&stage) {
            let known: Vec<_> = stages.keys().map(Name::as_str).collect();
            print(&format!(
                "note: this locks nothing: rails.stages of the settings know {}, and no {stage}\n",
                known.join(", ")
            ))?;
        }
        let path = format!("deploys/{stage}");
        let edit = Edit::of(&standing.listing, path, Some(deploy.to_json().into()));
        Ok(Proposal {
            edits: edit.into_iter().collect(),
            ..Proposal::default()
        })
    })
}
