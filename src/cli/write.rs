//! Writing directives: looked at, judged by the rails, shown, asked about, written in
//! check-and-set transactions with the sentinel and a record of the history, and read back.

mod checks;
mod files;
mod plan;
mod scope;
mod sockets;
mod standing;
mod ttl;
mod wait;
mod writing;

use std::collections::BTreeSet;
use std::env;
use std::time::Duration;

use clap::Args;
use tracing::Span;

use self::checks::{Overrides, check_guard, differing, overrides};
use self::files::FilesArgs;
pub(super) use self::plan::shown as listed;
pub(super) use self::scope::ScopeArgs;
use self::sockets::Sockets;
pub(super) use self::standing::Standing;
pub(super) use self::ttl::{TtlArgs, span};
pub(super) use self::writing::Writing;
use super::announce;
use super::ask::has_terminal;
use super::commit::{About, EDIT_OPERATIONS_MAX, trim};
use super::look::Look;
use super::{Exit, Failure, print};
use crate::clock;
use crate::domain::change::{Edit, applied, parts};
use crate::domain::directive::{Author, Desired, Directive};
use crate::domain::key::DirectiveKey;
use crate::domain::listing::Listing;
use crate::domain::migration::SocketChange;
use crate::domain::rails::{self, Consent, Flag, Rail, Verdict, evaluate};
use crate::domain::sentinel::Generation;
use crate::domain::snapshot::Snapshot;
use crate::domain::topology::Topology;
use crate::telemetry;

/// Who writes, and why.
#[derive(Debug, Args)]
pub(super) struct AuthorArgs {
    /// Why; kept with the change.
    #[arg(long, value_name = "TEXT", value_parser = said)]
    reason: Option<String>,
    /// Who; by default the CI job's user, or the one who is logged in.
    #[arg(long, value_name = "NAME", value_parser = said)]
    by: Option<String>,
}

/// The heading of the flags that override a refusal, in the help.
const PAST_A_RAIL: &str = "Past a refusal";

/// What every command takes that changes directives.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one flag each, all independent"
)]
pub(super) struct WriteArgs {
    #[command(flatten)]
    author: AuthorArgs,
    /// Show what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask. Without a terminal nobody is asked, and set, clear and undo need it.
    #[arg(long, short)]
    yes: bool,
    /// Wait until every node that polls an affected server was told; so long unless TIME says
    /// otherwise: 60s. Exit code 7 after it.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "60s", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
    #[command(flatten)]
    files: FilesArgs,
    /// Although fewer servers than their floor could serve; needs --reason.
    #[arg(long, requires = "reason", help_heading = PAST_A_RAIL)]
    below_floor: bool,
    /// Although the canary alone would take the traffic of a node; needs --reason.
    #[arg(long, requires = "reason", help_heading = PAST_A_RAIL)]
    canary_alone: bool,
    /// Although all servers of a second zone would be out; needs --reason.
    #[arg(long, requires = "reason", help_heading = PAST_A_RAIL)]
    second_zone: bool,
    /// Although a deploy is running.
    #[arg(long, help_heading = PAST_A_RAIL)]
    ignore_deployment_check: bool,
    /// Maintenance at once, without a drain before it: cuts what is running.
    #[arg(long, help_heading = PAST_A_RAIL)]
    now: bool,
    /// Knowingly against the guard of the settings, or while they cannot be read whole; needs
    /// --reason.
    #[arg(long, requires = "reason", help_heading = PAST_A_RAIL)]
    force: bool,
    /// What stands for single servers, zones or nodes and counts before a drain is lifted with it.
    #[arg(long, conflicts_with = "keep_overrides", help_heading = PAST_A_RAIL)]
    lift_overrides: bool,
    /// What stands for single servers, zones or nodes and counts before a drain stays.
    #[arg(long, help_heading = PAST_A_RAIL)]
    keep_overrides: bool,
}

/// What a command demands beside its edits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manner {
    /// Whether a person is asked before it is written.
    pub(super) asks: bool,
}

/// One key, and what shall stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) key: DirectiveKey,
    /// `None`: nothing.
    pub(super) directive: Option<Directive>,
}

/// What is judged, asked about and written.
#[derive(Clone, Copy)]
struct Asked<'a> {
    standing: &'a Standing,
    all: &'a [Vec<Edit>],
    sockets: &'a Sockets,
}

/// What is to be written.
#[derive(Default)]
pub(super) struct Proposal {
    pub(super) edits: Vec<Edit>,
    /// The directives that it is about, whether they change or not: rows that do not follow the
    /// KV are made to follow them.
    pub(super) keys: Vec<DirectiveKey>,
    /// What an undone change has set by stats sockets.
    pub(super) undone: Vec<SocketChange>,
    /// The id of the change, when its directives have one already.
    pub(super) change: Option<String>,
}

impl Change {
    fn wanted(&self) -> Option<(&DirectiveKey, &Directive)> {
        self.directive
            .as_ref()
            .map(|directive| (&self.key, directive))
    }
}

/// The longest command line that the history keeps, in characters.
const COMMAND_CHARS_MAX: usize = 1_024;

/// The longest reason or name, in characters: it stands in every directive of a change, twice in
/// its record, and in a line of the status.
const SAID_CHARS_MAX: usize = 1_024;

/// The last line of a dry run.
pub(super) const DRY_RUN: &str = "dry run: nothing was written\n";

/// Where the author's name is looked for: a CI job says who started it.
const AUTHOR_VARIABLES: [&str; 3] = ["GITLAB_USER_LOGIN", "USER", "LOGNAME"];

impl AuthorArgs {
    /// Who writes.
    pub(super) fn name(&self) -> String {
        let variable = |name: &&str| env::var(name).ok().filter(|value| !value.is_empty());
        let found = self
            .by
            .clone()
            .or_else(|| AUTHOR_VARIABLES.iter().find_map(variable));
        found.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
    }

    /// A directive with its author and a change id of its own, counted from now.
    pub(super) fn directive(&self, desired: Desired) -> Directive {
        Directive {
            since: Some(clock::now()),
            author: Author {
                by: Some(self.name()),
                reason: self.reason.clone(),
                change: Some(ulid::Ulid::generate().to_string()),
                trace: trace(),
            },
            ..Directive::bare(desired)
        }
    }

    /// Why, when somebody said.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

impl WriteArgs {
    /// A directive with its author and a change id of its own, counted from now.
    pub(super) fn directive(&self, desired: Desired) -> Directive {
        Directive {
            force: self.force,
            ..self.author.directive(desired)
        }
    }

    /// Who writes.
    pub(super) fn author_name(&self) -> String {
        self.author.name()
    }

    /// Writes what these changes differ in from what stands.
    pub(super) fn apply_changes(
        &self,
        look: &Look,
        manner: Manner,
        changes: impl Fn(&Standing) -> Result<Vec<Change>, Failure>,
    ) -> Result<(), Failure> {
        self.apply(look, manner, |standing| {
            let changes = changes(standing)?.into_iter();
            let mut changes: Vec<_> = changes.map(|change| going_on(change, standing)).collect();
            let wanted = changes.iter().filter_map(Change::wanted);
            check_guard(&standing.snapshot, wanted)?;
            let lifted = overrides(&standing.snapshot, &changes, self.overrides(), standing.now)?;
            changes.extend(lifted);
            let mut ids = changes.iter().filter_map(|change| {
                let directive = change.directive.as_ref()?;
                directive.author.change.clone()
            });
            let change = ids.next();
            Ok(Proposal {
                edits: differing(&standing.listing, &changes),
                keys: changes.iter().map(|change| change.key.clone()).collect(),
                change,
                ..Proposal::default()
            })
        })
    }

    /// Judges, shows, asks about, writes and reads back what differs. When somebody else writes
    /// meanwhile, it is all proposed and judged anew.
    pub(super) fn apply(
        &self,
        look: &Look,
        manner: Manner,
        proposal: impl Fn(&Standing) -> Result<Proposal, Failure>,
    ) -> Result<(), Failure> {
        let context = &look.context;
        let standing = Standing::of(look, &self.files)?;
        let first = proposal(&standing)?;
        let sockets = Sockets::plan(look, &standing, &first)?;
        let Proposal { edits, change, .. } = first;
        if edits.is_empty() && sockets.is_empty() {
            print("nothing to change: it is already so\n")?;
            sockets.outcome(None)?;
            return self.wait_again(look, &standing.listing);
        }
        let mut all = parts(edits, EDIT_OPERATIONS_MAX);
        if all.is_empty() {
            // What is written to sockets alone has its record as well.
            all.push(Vec::new());
        }
        let mut writing = Writing::new(self, look, manner, all, sockets);
        writing.agree(&standing)?;
        if self.dry_run {
            return print(DRY_RUN);
        }
        let about = self.about(change);
        sign(&about, context.environment.as_str());
        let span = telemetry::kv_write();
        let written = span.in_scope(|| writing.write(standing, &about, &proposal));
        match &written {
            Ok(generation) => {
                telemetry::note(&span, "generation", generation);
                // Who finds the command finds by it what the replicas made of the change.
                telemetry::note(&Span::current(), "generation", generation);
            }
            Err(unwritten) => telemetry::failed(&span, &unwritten.failure.text),
        }
        drop(span);
        let by_socket = match &written {
            Ok(generation) => writing.write_sockets(*generation),
            Err(_) => Ok(()),
        };
        let announcing = announce::change(context, &about, &writing, (&written, by_socket.is_ok()));
        let outcome = written
            .map_err(Failure::from)
            .and_then(|generation| self.finish(look, &writing, &about, (generation, by_socket)));
        announcing.finish(context);
        outcome
    }

    /// What stands already may not be applied yet: a command that is repeated goes on waiting.
    fn wait_again(&self, look: &Look, listing: &Listing) -> Result<(), Failure> {
        let Some(limit) = self.wait.filter(|_| !self.dry_run) else {
            return Ok(());
        };
        let generation = Generation::read(listing)
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        wait::converged(look, &[], generation, limit)
    }

    /// What comes after the writing: it is read back, old history goes, and it is waited for.
    fn finish(
        &self,
        look: &Look,
        writing: &Writing<'_>,
        about: &About,
        (generation, by_socket): (Generation, Result<(), Failure>),
    ) -> Result<(), Failure> {
        let context = &look.context;
        let id = &about.change;
        print(&format!(
            "written to {} as generation {generation}; to take it back: tidegate undo {id}\n",
            context.environment
        ))?;
        by_socket?;
        let keep = &writing.read_back()?.rails.history;
        if let Err(error) = context.block_on(trim(&context.source, &context.history, keep)) {
            super::ask::tell(&format!("note: old history was not taken away: {error}\n"));
        }
        let rows = writing.rows();
        let by_kv: Vec<_> = rows.iter().filter(|row| !row.by_socket).cloned().collect();
        match self.wait {
            // Without a row that is known to change, all that poll are waited for.
            Some(limit) if !by_kv.is_empty() || rows.is_empty() => {
                telemetry::wait().in_scope(|| wait::converged(look, &by_kv, generation, limit))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Every state that readers may see is judged: between two parts, between the KV and the
    /// sockets, and at the end.
    fn judge(&self, asked: &Asked<'_>, typed: Option<&str>) -> Result<Verdict, Failure> {
        let standing = asked.standing;
        let deploys = standing.deploys();
        let consent = if has_terminal() && !self.yes {
            Consent::Terminal(typed)
        } else {
            Consent::Unattended { yes: self.yes }
        };
        let context = rails::Context {
            now: standing.now,
            deploys: &deploys,
            flags: self.flags(),
            reason: self.author.reason(),
            consent,
        };
        let mut between = Vec::new();
        let mut judged = |written: usize, topology: &Topology| {
            let listing = applied(&standing.listing, asked.all[..written].iter().flatten());
            let after = Snapshot::build(&listing)
                .map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
            let verdict = evaluate(&standing.snapshot, &after, topology, &context);
            // How many rows there are, and why, is asked of the whole.
            let serves = |refusal: &&rails::Refusal| {
                matches!(
                    refusal.rail,
                    Rail::Floor | Rail::CanaryAlone | Rail::SecondZone
                )
            };
            between.extend(verdict.refusals.iter().filter(serves).cloned());
            Ok::<_, Failure>(verdict)
        };
        for written in 1..asked.all.len() {
            judged(written, &standing.topology)?;
        }
        for topology in asked.sockets.on_the_way(&standing.topology) {
            judged(asked.all.len(), &topology)?;
        }
        let mut last = judged(asked.all.len(), &asked.sockets.done(&standing.topology))?;
        for refusal in between {
            if !last.refusals.iter().any(|known| known.rail == refusal.rail) {
                last.refusals.push(refusal);
            }
        }
        Ok(last)
    }

    const fn overrides(&self) -> Overrides {
        if self.lift_overrides {
            Overrides::Lift
        } else if self.keep_overrides {
            Overrides::Keep
        } else {
            Overrides::Ask
        }
    }

    fn flags(&self) -> BTreeSet<Flag> {
        let given = [
            (self.below_floor, Flag::BelowFloor),
            (self.canary_alone, Flag::CanaryAlone),
            (self.second_zone, Flag::SecondZone),
            (self.now, Flag::Now),
            (self.force, Flag::Force),
            (self.ignore_deployment_check, Flag::IgnoreDeploymentCheck),
        ];
        given
            .into_iter()
            .filter(|(given, _)| *given)
            .map(|(_, flag)| flag)
            .collect()
    }

    fn about(&self, change: Option<String>) -> About {
        About {
            change: change.unwrap_or_else(|| ulid::Ulid::generate().to_string()),
            by: self.author.name(),
            reason: self.author.reason.clone(),
            command: command_line(),
            trace: trace(),
            sockets: Vec::new(),
        }
    }
}

/// The change without a restart of what stands and only gets another end.
fn going_on(change: Change, standing: &Standing) -> Change {
    let mut placed = standing.snapshot.placed();
    let placed = placed.find(|placed| placed.key == change.key);
    let Some(Ok(stands)) = placed.map(|placed| &placed.directive) else {
        return change;
    };
    let directive = change.directive;
    Change {
        directive: directive.map(|directive| directive.going_on(stands, standing.now)),
        ..change
    }
}

/// The command as it was called, for the history. No flag takes a secret.
pub(super) fn command_line() -> String {
    let mut words = env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    let line = std::iter::once(program)
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ");
    line.chars().take(COMMAND_CHARS_MAX).collect()
}

/// A text that says something, and is bounded.
fn said(text: &str) -> Result<String, String> {
    let seen = |c: char| !c.is_whitespace() && !c.is_control();
    if !text.contains(seen) {
        return Err("it says nothing".to_owned());
    }
    if text.chars().count() > SAID_CHARS_MAX {
        return Err(format!("more than {SAID_CHARS_MAX} characters"));
    }
    Ok(text.to_owned())
}

/// W3C trace context of this command, or of who called it where traces are off.
pub(super) fn trace() -> Option<String> {
    telemetry::trace_parent().map(|parent| parent.to_string())
}

/// The command's span says who asked for what, and why.
fn sign(about: &About, environment: &str) {
    let span = Span::current();
    telemetry::note(&span, "by", &about.by);
    telemetry::note(
        &span,
        "reason",
        &about.reason.as_deref().unwrap_or_default(),
    );
    telemetry::note(&span, "change", &about.change);
    telemetry::note(&span, "command", &about.command);
    telemetry::note(&span, "environment", &environment);
}
