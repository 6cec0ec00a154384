//! The command line: one file per command.

mod accept;
mod alias;
mod announce;
mod ask;
mod canary;
mod check_config;
mod clear;
mod commit;
mod compare;
mod completions;
mod context;
mod deploy;
mod diff;
mod environment;
mod explain;
mod failure;
mod forget;
mod get;
mod history;
mod init;
mod lint;
mod look;
mod man;
mod output;
mod precheck;
mod render;
mod replica;
mod selector;
mod serve;
mod set;
mod status;
mod terminal;
mod undo;
mod write;

use std::ffi::OsString;
use std::io::{self, Write as _};

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub use failure::{Exit, Failure};

use self::context::Context;
use crate::config::Flags;
use crate::domain::plain::printable;
use crate::telemetry::CommandTrace;

/// Desired state of an HAProxy fleet: served to agent checks, and written.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    about = "Desired state of an HAProxy fleet: served to agent checks, and written",
    subcommand_required = true,
    arg_required_else_help = false
)]
#[command(after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service: watch the KV, answer agent checks.
    Serve(serve::Serve),
    /// Set up a new environment, once: write its sentinel `_meta`, and `canary-state` ready.
    Init(init::Init),
    /// Say what a request line is answered, and why.
    Explain(explain::Explain),
    /// Check a configuration file, with flags and variables as `serve` would take them.
    CheckConfig(check_config::CheckConfig),
    /// Set the state of the canary group; without a state, show it.
    #[command(after_help = CHANGES)]
    Canary(canary::Canary),
    /// Set the state of servers: each gets an override that counts before its groups.
    #[command(after_help = CHANGES)]
    Set(set::Set),
    /// Clear server overrides: the servers follow their groups again.
    #[command(after_help = CHANGES)]
    Clear(clear::Clear),
    /// Put back what stood before a change, unless somebody has changed the same keys since.
    #[command(after_help = CHANGES)]
    Undo(undo::Undo),
    /// Show who changed what, when, and why.
    History(history::History),
    /// Say that a deploy begins or is over: meanwhile nobody drains what it deploys to.
    Deploy(deploy::Deploy),
    /// Show what is desired, what was served, and what HAProxy has.
    Status(status::Status),
    /// Show the states of servers: how many nodes of a role have each.
    ///
    /// A line is the number of nodes, their role, backend/server and the state; two lines for one
    /// server mean that its state is split. The role comes from the key `settings` (nodes), and is
    /// `-` when it does not say. The state is HAProxy's own word when --prometheus or --stats is given,
    /// otherwise what was served.
    Get(get::Get),
    /// Show what differs: rows from what is desired of them, or a change from what stands now.
    ///
    /// Without an id: the rows that were not told the newest listing, were told something else than
    /// what is desired, or do not follow it in HAProxy; with who asked for it, since when, and why.
    /// Rows whose word is not known are not compared: precheck blocks on them.
    ///
    /// diff ID: the keys of that change that are no longer as it left them. diff ID..ID: the keys
    /// that are others after the second change than after the first, whoever wrote them. Ids stand
    /// in `tidegate history`.
    ///
    /// Ends with 10 when there is a difference, with 0 when there is none, and with 1 when there is
    /// none among what could be seen, and something could not be asked.
    Diff(diff::Diff),
    /// Say whether rows in shadow mode may be switched: what they would become beside what HAProxy has.
    ///
    /// A row is the same where following its last answer would change nothing: state and weight, the
    /// configured weight as the settings say it. What HAProxy has is its own word (--stats,
    /// --prometheus). A row that is listed in the settings, or has an agent, and does not ask is not
    /// ready; nodes of which no row asks are named and not compared.
    ///
    /// Ends with 0 when some row is in shadow mode and all that are may be switched, otherwise with
    /// 10; what could not be had hinders as a difference does.
    Compare(compare::Compare),
    /// Say whether a deploy may go on, by HAProxy's own word.
    ///
    /// UP, MAINT and servers without a check pass; DRAIN, DOWN and whatever is not known block, and
    /// end with 4. Canary rows are looked at in the stage cny only, which looks at all rows.
    Precheck(precheck::Precheck),
    /// Say whether the canary is up; whatever is not known means no.
    ///
    /// It is up when HAProxy has every canary backend up on every node: those called canary_...,
    /// and those whose servers are all canary ones. No ends with 4.
    Gate(precheck::Gate),
    /// Believe a store whose history went back, after showing what that changes: writes a new epoch.
    #[command(after_help = ACCEPT)]
    Accept(accept::Accept),
    /// Forget a node that was taken away: the fleet view shows it no longer.
    Forget(forget::Forget),
    /// Judge HAProxy's files for agent checks.
    ///
    /// It says what is wrong where, why, and how to mend it. Whether HAProxy accepts the files,
    /// `haproxy -c` says. A comment `# tidegate: allow RULE REASON` at the end of a line or above it
    /// allows a rule for that line, at the head of a section for the section. A condition (.if) that
    /// cannot be judged here is taken both ways. Errors end with 10, files that cannot be had with 1.
    Lint(lint::Lint),
    /// Put the agent checks into HAProxy's files, change them, or take them out.
    ///
    /// Everything else stays byte for byte: words are put in behind those of a line, and what was
    /// rendered leaves with --mode off as it came. A file that asks already is changed, not doubled.
    /// The servers of the canary get `disabled` with --mode on, so that none of them serves between a
    /// start and its first check; `global` gets max-spread-checks and spread-checks. With --mode
    /// shadow HAProxy shows what it is told and does not follow it: nothing else is changed then.
    ///
    /// The result is judged by lint; what it would refuse is not printed (3). One file is printed,
    /// several are written to --output-dir, where no file is overwritten.
    Render(render::Render),
    /// Print a completion script for a shell.
    Completions(completions::Completions),
    /// Print the manual page.
    Man(man::Man),
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong usage, or nothing matched; \
    3 refused; 4 a precheck or the gate says no; 5 somebody else wrote meanwhile; 6 the store is out of reach; \
    7 written, and not applied in time; 10 differences were found.\n\n\
    Begin with `tidegate status --env NAME`; by task: docs/operate.md.";

/// What a newcomer has to know of the commands that change directives.
const CHANGES: &str = "It shows the plan first; a rail of the key `settings` may refuse it (exit code \
    3), and names the flag that overrides it. It prints the id for `tidegate undo`. Meanwhile and \
    afterwards: `tidegate status`.";

const ACCEPT: &str = "For when Consul was restored from a backup, or wiped and written anew: replicas \
    that saw the newer history answer nothing until a person says that the older one is meant. Name \
    all replicas, or have all of them in the configuration.";

/// The settings that the commands other than `serve` take as flags.
const STORE_FLAGS: [&str; 5] = [
    environment::ENVIRONMENT,
    "root",
    "kv",
    "consul.login_method",
    "consul.bearer_token_file",
];

/// The settings that say where this machine's replica is, and what replicas are shown.
const REPLICA_FLAGS: [&str; 3] = ["http.listen", "http.token_file", "http.ca_file"];

/// How the settings begin that say where HAProxy's own word comes from.
const OBSERVE: &str = "observe.";
/// And those that say who is told of changes.
const ANNOUNCE: &str = "announce.";

/// The commands that write, tell of it and are traced; so is `deploy`.
const WRITING: [&str; 6] = ["init", "canary", "set", "clear", "undo", "accept"];

/// The one that has them below it.
const DEPLOY: &str = "deploy";

/// How those begin that let commands write to it. They are no flags of a command: it is switched
/// on and off in one place.
const MIGRATION: &str = "migration.";

/// The commands that look at the fleet and at HAProxy.
const LOOKING: [&str; 10] = [
    "canary", "set", "clear", "undo", "status", "get", "diff", "compare", "precheck", "gate",
];

/// Parses and runs one command.
///
/// # Errors
/// What failed, with its exit code; the text is for the person at the terminal.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let matches = match command().try_get_matches_from(alias::translated(arguments)) {
        Ok(matches) => matches,
        Err(error) if error.use_stderr() => return Err(Failure::parse(&error)),
        Err(error) => return print(&error.render().to_string()),
    };
    let cli = Cli::from_arg_matches(&matches).map_err(|error| Failure::parse(&error))?;
    let flags = flags(innermost(&matches));
    let name = matches.subcommand_name().unwrap_or_default();
    if !WRITING.contains(&name) && name != DEPLOY {
        return dispatch(cli.command, &flags);
    }
    let (trace, wrong) = CommandTrace::begin(name);
    if let Some(why) = wrong {
        ask::tell(&format!("note: this command is not traced: {why}\n"));
    }
    let outcome = trace.run(|| dispatch(cli.command, &flags));
    trace.end(outcome.as_ref().err().map(|failure| failure.text.as_str()));
    outcome
}

fn dispatch(asked: Command, flags: &Flags) -> Result<(), Failure> {
    match asked {
        Command::Serve(serve) => serve.run(flags),
        Command::Init(init) => init.run(flags),
        Command::Explain(explain) => explain.run(flags),
        Command::CheckConfig(check) => check.run(flags),
        Command::Canary(canary) => canary.run(flags),
        Command::Set(set) => set.run(flags),
        Command::Clear(clear) => clear.run(flags),
        Command::Undo(undo) => undo.run(flags),
        Command::History(history) => history.run(flags),
        Command::Deploy(deploy) => deploy.run(flags),
        Command::Status(status) => status.run(flags),
        Command::Get(get) => get.run(flags),
        Command::Diff(diff) => diff.run(flags),
        Command::Compare(compare) => compare.run(flags),
        Command::Precheck(precheck) => precheck.run(flags),
        Command::Gate(gate) => gate.run(flags),
        Command::Accept(accept) => accept.run(flags),
        Command::Forget(forget) => forget.run(flags),
        Command::Lint(lint) => lint.run(),
        Command::Render(render) => render.run(),
        Command::Completions(completions) => completions.run(command()),
        Command::Man(man) => man.run(command()),
    }
}

/// The whole command line, each command with the flags of the settings that it takes.
fn command() -> clap::Command {
    let mut command = Cli::command();
    // The service asks no HAProxy, and changes nothing that it would tell of.
    let not_served = [OBSERVE, MIGRATION, ANNOUNCE];
    let served = |key: &str| !not_served.iter().any(|begin| key.starts_with(begin));
    command = command.mut_subcommand("serve", |c| with_flags(c, served));
    command = command.mut_subcommand("check-config", |c| with_flags(c, |_| true));
    let of_the_store = |key: &str| STORE_FLAGS.contains(&key);
    for name in ["init", "explain", "history"] {
        command = command.mut_subcommand(name, |c| with_flags(c, of_the_store));
    }
    let of_a_replica = |key: &str| REPLICA_FLAGS.contains(&key);
    let of_both = |key: &str| of_the_store(key) || of_a_replica(key);
    command = command.mut_subcommand("accept", |c| with_flags(c, of_both));
    let of_a_look = |key: &str| of_both(key) || key.starts_with(OBSERVE);
    for name in LOOKING {
        command = command.mut_subcommand(name, |c| with_flags(c, of_a_look));
    }
    let of_writing = || Flags::args().filter(|arg| arg.get_id().as_str().starts_with(ANNOUNCE));
    for name in WRITING {
        command = command.mut_subcommand(name, |c| c.args(of_writing()));
    }
    command = command.mut_subcommand(DEPLOY, |mut deploy| {
        for name in ["start", "finish"] {
            deploy = deploy.mut_subcommand(name, |c| with_flags(c, of_a_look).args(of_writing()));
        }
        deploy
    });
    let of_forget = |key: &str| of_a_replica(key) || key == environment::ENVIRONMENT;
    command.mut_subcommand("forget", |c| with_flags(c, of_forget))
}

/// A command with the flags of these settings. All of them name an environment.
fn with_flags(command: clap::Command, takes: impl Fn(&str) -> bool) -> clap::Command {
    let settings = Flags::args().filter(|arg| takes(arg.get_id().as_str()));
    command.args(settings).args(environment::args())
}

/// Of the subcommand, or of a subcommand of it.
fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches
        .subcommand()
        .map_or(matches, |(_, matches)| innermost(matches))
}

fn flags(matches: &ArgMatches) -> Flags {
    environment::named_in(matches, Flags::from_matches(matches))
}

/// The control characters of this program's own texts. All others are somebody else's, and would
/// steer the terminal.
const LAYOUT: [char; 2] = ['\n', '\t'];

/// Writes to standard output. A reader that has gone is no error.
fn print(text: &str) -> Result<(), Failure> {
    print_bytes(printable(text, &LAYOUT).as_bytes())
}

fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            Exit::Failed,
            format!("standard output: {error}"),
        )),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        command().debug_assert();
    }
}
