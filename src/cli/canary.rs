//! `tidegate canary`.

mod ramp;
mod verify;

use std::time::Duration;

use clap::{Args, value_parser};

use self::ramp::Spec;
use super::history::Records;
use super::look::{Look, LookArgs};
use super::status::something;
use super::write::{Change, Manner, ScopeArgs, Standing, TtlArgs, WriteArgs};
use super::{Exit, Failure, print};
use crate::config::Flags;
use crate::domain::answer::{Percent, State};
use crate::domain::directive::{Desired, Directive, Plan};
use crate::domain::key::{CANARY, DirectiveKey, Target};
use crate::domain::name::Name;
use crate::domain::ramp::Ramp;
use crate::domain::view::chatops;

/// How long `--disable` drains before maintenance.
const DISABLE_AFTER: Duration = Duration::from_mins(1);

/// Set the state of the canary group. Without a state: show it.
#[derive(Debug, Args)]
pub(super) struct Canary {
    #[command(flatten)]
    wanted: Wanted,
    /// Come back step by step instead of at once: by=nodes,steps=5,25,50,every=2m.
    /// On a ramp with the same steps nothing changes; --ready ends one at full weight, --drain at
    /// any moment takes the canary out. After --ready there is nothing to come back from, after
    /// --drain it begins anew. A ramp that has got further than the first step stays: --resume.
    #[arg(long)]
    slowly: bool,
    /// The same with steps of your own: by=nodes|weight,steps=5,25,50,every=2m.
    #[arg(long, value_name = "SPEC", value_parser = ramp::parse, conflicts_with = "slowly")]
    ramp: Option<Spec>,
    /// Before anything is written, this URL must answer well that many times in a row
    /// (--verify-times).
    #[arg(long, value_name = "URL")]
    verify: Option<String>,
    /// How often --verify must pass.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, requires = "verify",
        value_parser = value_parser!(u32).range(1..=100))]
    verify_times: u32,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    ttl: TtlArgs,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    look: LookArgs,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one flag each, at most one of them given"
)]
struct Wanted {
    /// Takes traffic, at full weight at once, a running ramp or not.
    #[arg(long)]
    ready: bool,
    /// The same as --ready.
    #[arg(long)]
    enable: bool,
    /// Finishes what it has, gets nothing new. Ends a running ramp.
    #[arg(long)]
    drain: bool,
    /// Out of service, at once.
    #[arg(long)]
    maint: bool,
    /// Drain, and maintenance after 60 s. It is a plan in the KV: no client has to stay alive.
    #[arg(long)]
    disable: bool,
    /// Stop a running ramp at the step that it has reached.
    #[arg(long)]
    hold: bool,
    /// Go on with a held ramp: its steps that are left, from now.
    #[arg(long)]
    resume: bool,
    /// Take the directive of --zone or --node away again: its nodes follow the fleet's.
    #[arg(long)]
    clear: bool,
}

impl Canary {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        if !self.wanted.any() && !self.ramps() {
            return self.show(flags);
        }
        self.check()?;
        let look = self.look.open(flags)?;
        if let Some(url) = &self.verify {
            look.context
                .block_on(verify::passes(url, self.verify_times))?;
        }
        let manner = Manner::default();
        let records = self.wanted.resume.then(|| Records::of(&look.context));
        let records = records.transpose()?;
        self.write.apply_changes(&look, manner, |standing| {
            let target = Target::Group(Name::parse(CANARY).expect("the canary's name is a name"));
            let scope = self.scope.within(standing)?;
            let key = DirectiveKey { scope, target };
            if self.wanted.clear {
                let directive = None;
                return Ok(vec![Change { key, directive }]);
            }
            let wanted = self.directive(standing, &key, records.as_ref())?;
            let change = wanted.map(|directive| Change {
                key,
                directive: Some(directive),
            });
            Ok(change.into_iter().collect())
        })
    }

    /// What is wrong is said before anything is asked.
    fn check(&self) -> Result<(), Failure> {
        let usage = |text: &str| Err(Failure::new(Exit::Usage, text));
        self.scope.check()?;
        if self.wanted.clear && self.scope.is_fleet() {
            return usage(
                "--clear needs --zone or --node: without its own key the group would freeze",
            );
        }
        let otherwise = self.wanted.any() && !(self.wanted.ready || self.wanted.enable);
        if self.ramps() && otherwise {
            return usage("--slowly and --ramp are ways to come back: only --ready goes with them");
        }
        let comes_back = self.ramps() || !otherwise || self.wanted.resume;
        if self.verify.is_some() && !comes_back {
            return usage(
                "--verify is asked before the canary comes back: nothing else waits for it",
            );
        }
        Ok(())
    }

    fn ramps(&self) -> bool {
        self.slowly || self.ramp.is_some()
    }

    /// What shall stand there; `None`: it is already more than that.
    fn directive(
        &self,
        standing: &Standing,
        key: &DirectiveKey,
        records: Option<&Records>,
    ) -> Result<Option<Directive>, Failure> {
        let refused =
            |text: String| Failure::new(Exit::Refused, format!("{text}; nothing was written"));
        let placed = standing.snapshot.placed().find(|placed| placed.key == *key);
        let now = placed.and_then(|placed| placed.directive.as_ref().ok());
        let ready = |weight, ramp: Ramp| Desired::Ready {
            weight,
            ramp: Some(ramp),
        };
        // A hold and a resume leave the weight and the end as they are.
        let same = |standing: &Directive, ramp| {
            let desired = ready(weight_of(standing), ramp);
            self.ttl.on(Directive {
                expiry: standing.expiry,
                ..self.write.directive(desired)
            })
        };
        if self.wanted.hold {
            let standing_ramp = now.ok_or_else(|| refused("no ramp is running".to_owned()))?;
            let ramp = ramp::held(standing_ramp, standing.now).map_err(refused)?;
            return same(standing_ramp, ramp).map(Some);
        }
        if self.wanted.resume {
            let ramp_held = now.and_then(|now| Some((now, ramp_of(now)?)));
            let (standing_ramp, held) =
                ramp_held.ok_or_else(|| refused("no ramp is held".to_owned()))?;
            let before = records.and_then(|records| before_hold(records, now, key));
            let ramp = ramp::resumed(held, before.as_ref().and_then(ramp_of)).map_err(refused)?;
            return same(standing_ramp, ramp).map(Some);
        }
        if self.ramps() {
            if now.is_some_and(|now| is_whole(now, standing.now)) {
                print("it is ready at full weight: there is nothing to come back from\n")?;
                return Ok(None);
            }
            let usual = ramp::parse(ramp::SLOWLY).expect("the usual ramp is one");
            let spec = self.ramp.as_ref().unwrap_or(&usual);
            if let Some(now) = now.filter(|now| !now.is_lifted(standing.now)) {
                spec.check_after(now, standing.now).map_err(refused)?;
            }
            let mut directive = self.write.directive(Desired::Drain);
            let seed = directive.author.change.as_ref();
            directive.desired = ready(
                Percent::FULL,
                spec.on(now, &standing.topology, seed, standing.now),
            );
            return self.ttl.on(directive).map(Some);
        }
        self.ttl.on(self.wanted.directive(&self.write)).map(Some)
    }

    /// The block for chat, and how to go on.
    fn show(&self, flags: &Flags) -> Result<(), Failure> {
        let look: Look = self.look.open(flags)?;
        let view = look.view();
        something(&view)?;
        print(&chatops(view.rows.iter().filter(|row| row.canary)))?;
        print("to change it: --ready, --drain, --maint, --disable, --slowly\n")
    }
}

/// Whether it takes all traffic, and no ramp is still on its way.
fn is_whole(directive: &Directive, now: jiff::Timestamp) -> bool {
    let ready = matches!(
        directive.state(now, "", ""),
        State::Ready(percent) if percent == Percent::FULL
    );
    ready && !directive.is_lifted(now) && directive.ramp_step(now).is_none()
}

fn weight_of(directive: &Directive) -> Percent {
    match directive.desired {
        Desired::Ready { weight, .. } => weight,
        Desired::Drain | Desired::Maint => Percent::FULL,
    }
}

fn ramp_of(directive: &Directive) -> Option<&Ramp> {
    match &directive.desired {
        Desired::Ready { ramp, .. } => ramp.as_ref(),
        Desired::Drain | Desired::Maint => None,
    }
}

/// The ramp that stood there before it was held, as the history tells it.
fn before_hold(
    records: &Records,
    held: Option<&Directive>,
    key: &DirectiveKey,
) -> Option<Directive> {
    let id = held?.author.change.as_ref()?;
    let parts = records.of_change(id).ok()?;
    let path = key.to_string();
    let mut changed = parts.iter().flat_map(|part| &part.changed);
    let before = changed
        .find(|changed| changed.path == path)?
        .before
        .as_ref()?;
    Directive::parse(&before.0).ok()
}

impl Wanted {
    const fn any(&self) -> bool {
        self.ready
            || self.enable
            || self.drain
            || self.maint
            || self.disable
            || self.hold
            || self.resume
            || self.clear
    }

    fn directive(&self, write: &WriteArgs) -> Directive {
        let desired = if self.ready || self.enable {
            Desired::Ready {
                weight: Percent::FULL,
                ramp: None,
            }
        } else if self.maint {
            Desired::Maint
        } else {
            Desired::Drain
        };
        let then = self.disable.then_some(Plan {
            state: State::Maint,
            after: DISABLE_AFTER,
        });
        Directive {
            then,
            ..write.directive(desired)
        }
    }
}
