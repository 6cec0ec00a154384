//! A change on its way into the store: agreed to, written, and judged anew when somebody else
//! writes meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt as _;

use super::checks::check_guard;
use super::plan;
use super::{Asked, Manner, Proposal, Sockets, Standing, WriteArgs};
use crate::cli::ask::{NO_TERMINAL, ask, confirm, has_terminal, tell};
use crate::cli::commit::{About, Places, Progress, Unwritten, write};
use crate::cli::look::Look;
use crate::cli::{Exit, Failure, print};
use crate::clock;
use crate::domain::change::Edit;
use crate::domain::listing::{Entry, Listing};
use crate::domain::migration::SocketChange;
use crate::domain::rails::{Capacity, Override, PlanRow, Refusal, Verdict};
use crate::domain::sentinel::Generation;
use crate::domain::settings::Settings;
use crate::domain::snapshot::Snapshot;
use crate::kv::Kv as _;

/// For how long a change is written anew that only meets changes of other keys. All writers share
/// the sentinel; one of them wins each time.
const ANEW_TIME_MAX: Duration = Duration::from_secs(15);
/// The longest pause before that, in milliseconds: drawn, so that the same writers do not meet
/// again.
const ANEW_PAUSE_MS_MAX: u64 = 100;

/// A change on its way into the store.
pub(in crate::cli) struct Writing<'a> {
    args: &'a WriteArgs,
    look: &'a Look,
    manner: Manner,
    progress: Progress,
    /// What is written to stats sockets.
    sockets: Sockets,
    agreed: Agreed,
    /// Every row that a plan showed.
    rows: Vec<PlanRow>,
}

/// What somebody has seen, and agreed to.
#[derive(Default)]
struct Agreed {
    plan: Option<(Vec<PlanRow>, Vec<Capacity>)>,
    /// The sentence that a refusal asked for.
    typed: Option<String>,
}

impl<'a> Writing<'a> {
    pub(super) fn new(
        args: &'a WriteArgs,
        look: &'a Look,
        manner: Manner,
        parts: Vec<Vec<Edit>>,
        sockets: Sockets,
    ) -> Self {
        Self {
            args,
            look,
            manner,
            progress: Progress::new(parts),
            sockets,
            agreed: Agreed::default(),
            rows: Vec::new(),
        }
    }

    /// The rows that are told something else by it.
    pub(in crate::cli) fn rows(&self) -> &[PlanRow] {
        &self.rows
    }

    /// How far it is written.
    pub(in crate::cli) const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What is written to stats sockets.
    pub(in crate::cli) fn socket_changes(&self) -> Vec<SocketChange> {
        self.sockets.changes()
    }

    /// Writes what does not follow the KV, after that is written.
    pub(super) fn write_sockets(&self, generation: Generation) -> Result<(), Failure> {
        self.sockets.write(self.look, self.rows(), generation)
    }

    fn asked<'b>(&'b self, standing: &'b Standing) -> Asked<'b> {
        Asked {
            standing,
            all: self.progress.left(),
            sockets: &self.sockets,
        }
    }

    /// Judges, shows and asks about what is left to write. A plan that was agreed to already is
    /// not shown again.
    pub(super) fn agree(&mut self, standing: &Standing) -> Result<(), Failure> {
        let left = self.progress.left();
        let wanted: Vec<_> = left.iter().flatten().filter_map(Edit::directive).collect();
        check_guard(&standing.snapshot, wanted.iter().map(|(key, d)| (key, d)))?;
        let typed = self.agreed.typed.as_deref();
        let mut verdict = self.args.judge(&self.asked(standing), typed)?;
        verdict.warnings.extend(standing.missing.iter().cloned());
        verdict.warnings.extend(self.sockets.notes());
        let plan = Some((verdict.rows.clone(), verdict.capacities.clone()));
        if plan == self.agreed.plan && verdict.refusals.is_empty() {
            return Ok(());
        }
        self.agreed.plan = plan;
        let rows = verdict.rows.iter().cloned();
        let new: Vec<_> = rows.filter(|row| !self.rows.contains(row)).collect();
        self.rows.extend(new);
        let plan = plan::table(&verdict, &standing.topology);
        let prefix = &self.look.context.prefix;
        let keys: String = left.iter().map(|part| plan::keys(prefix, part)).collect();
        print(&format!("{plan}{keys}"))?;
        self.consent(standing, verdict)?;
        let args = self.args;
        if !self.manner.asks || args.yes || args.dry_run {
            return Ok(());
        }
        if !has_terminal() {
            return Err(Failure::new(Exit::Usage, NO_TERMINAL));
        }
        confirm("Write this?")
    }

    /// Has the sentence typed that a refusal asks for, and fails with what is still refused.
    fn consent(&mut self, standing: &Standing, mut verdict: Verdict) -> Result<(), Failure> {
        let sentence = |refusal: &Refusal| match &refusal.overridden_by {
            Some(Override::Sentence(sentence)) => Some(sentence.clone()),
            Some(Override::Flag(_)) | None => None,
        };
        let wanted: Option<Vec<_>> = verdict.refusals.iter().map(sentence).collect();
        let wanted = wanted.filter(|sentences| !sentences.is_empty());
        if let Some(sentence) = wanted.and_then(|sentences| sentences.into_iter().next())
            && has_terminal()
            && !self.args.yes
            && !self.args.dry_run
        {
            let typed = ask(&format!("To do it all the same, type: {sentence}\n> "))?;
            verdict = self.args.judge(&self.asked(standing), Some(&typed))?;
            self.agreed.typed = Some(typed);
        }
        if verdict.refusals.is_empty() {
            return Ok(());
        }
        let text = plan::refusals(&verdict.refusals);
        Err(Failure::new(Exit::Refused, text))
    }

    /// Writes it. What is refused, or touched by somebody else, ends it where it stands.
    pub(super) fn write(
        &mut self,
        standing: Standing,
        about: &About,
        proposal: &dyn Fn(&Standing) -> Result<Proposal, Failure>,
    ) -> Result<Generation, Unwritten> {
        let written = self.write_parts(standing, about, proposal);
        written.map_err(|unwritten| self.progress.partly(unwritten, &about.change))
    }

    fn write_parts(
        &mut self,
        mut standing: Standing,
        about: &About,
        proposal: &dyn Fn(&Standing) -> Result<Proposal, Failure>,
    ) -> Result<Generation, Unwritten> {
        let context = &self.look.context;
        let places = Places {
            prefix: &context.prefix,
            history: &context.history,
        };
        let begin = clock::moment();
        loop {
            let (source, listing) = (&context.source, &standing.listing);
            let about = About {
                sockets: self.socket_changes(),
                ..about.clone()
            };
            let writing = write(source, &places, listing, &mut self.progress, &about);
            match context.block_on(writing) {
                Err(unwritten) if unwritten.failure.exit == Exit::Conflict => {
                    if clock::moment().since(begin) >= ANEW_TIME_MAX {
                        return Err(unwritten);
                    }
                }
                done => return done,
            }
            let pause = rand::rng().random_range(1..=ANEW_PAUSE_MS_MAX);
            self.look.wait(Duration::from_millis(pause));
            standing = self
                .look_again(proposal)
                .map_err(|failure| Unwritten::new(failure, false))?;
        }
    }

    /// What stands now, for which what is left is agreed to as well.
    fn look_again(
        &mut self,
        proposal: &dyn Fn(&Standing) -> Result<Proposal, Failure>,
    ) -> Result<Standing, Failure> {
        let standing = Standing::of(self.look, &self.args.files)?;
        tell("note: somebody else wrote meanwhile: looking again\n");
        let anew = proposal(&standing)?;
        self.check_untouched(&standing.listing, &anew.edits)?;
        // What the first part's record holds stays; each row is looked at again when it is written.
        if self.progress.written().is_empty() {
            self.sockets = Sockets::plan(self.look, &standing, &anew)?;
        }
        self.agree(&standing)?;
        Ok(standing)
    }

    /// It would be the same change, of keys that nobody has touched.
    fn check_untouched(&self, listing: &Listing, anew: &[Edit]) -> Result<(), Failure> {
        let left = self.progress.left().iter().flatten();
        let touched = |edit: &&Edit| listing.entries.get(&edit.path) != edit.before.as_ref();
        let touched: Vec<_> = left
            .clone()
            .filter(touched)
            .map(|edit| &*edit.path)
            .collect();
        let what = if !touched.is_empty() {
            format!("changed {}", touched.join(", "))
        } else if before(left) != before(anew.iter()) {
            "this would change other keys now".to_owned()
        } else {
            return Ok(());
        };
        let text =
            format!("somebody else wrote meanwhile, and {what}; nothing was written: look again");
        Err(Failure::new(Exit::Conflict, text))
    }

    /// What was written stands there; whoever wrote since is named. Gives the settings.
    pub(super) fn read_back(&self) -> Result<Settings, Failure> {
        let context = &self.look.context;
        let failed = |why: &dyn std::fmt::Display| {
            let text = format!("it is written, and could not be read back: {why}");
            Failure::new(Exit::Unreachable, text)
        };
        let listing = context.block_on(context.source.list(&context.prefix));
        let listing = listing.map_err(|error| failed(&format!("the store: {error}")))?;
        let other = |edit: &&Edit| {
            let stands = listing.entries.get(&edit.path).map(|entry| &entry.value);
            stands != edit.after.as_ref()
        };
        let others = self.progress.edits().filter(other);
        let others: Vec<_> = others.map(|edit| edit.path.as_str()).collect();
        if !others.is_empty() {
            // It was written, and counted until then: no conflict.
            let others = others.join(", ");
            tell(&format!("note: somebody has changed {others} since\n"));
        }
        let snapshot = Snapshot::build(&listing).map_err(|error| failed(&error))?;
        Ok(snapshot.settings)
    }
}

/// The keys of a change, and what stood there.
fn before<'e>(edits: impl Iterator<Item = &'e Edit>) -> BTreeMap<&'e str, Option<&'e Entry>> {
    let before = edits.map(|edit| (edit.path.as_str(), edit.before.as_ref()));
    before.collect()
}
