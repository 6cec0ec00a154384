//! `tidegate render`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::ask::tell;
use super::lint::{NODE_DEFAULT, ReadingArgs};
use super::status::span;
use super::{Exit, Failure, print, print_bytes};
use crate::domain::haproxy::lint::Finding;
use crate::domain::haproxy::reading::File;
use crate::domain::haproxy::render::{self, Asking, Mode, RenderError, Rendered, Value, Wish};
use crate::domain::name::{Name, ServerId};
use crate::domain::request::{BASE_MAX, GROUPS_MAX};
use crate::domain::settings::Settings;
use crate::haproxy::files;

/// HAProxy takes an interval of up to 24 days.
const INTER_MAX: Duration = Duration::from_hours(24);
/// The permissions of a file that is being written: a configuration may hold passwords.
const PERMISSIONS: u32 = 0o600;

/// Put the agent checks into HAProxy's files, change them, or take them out.
#[derive(Debug, Args)]
pub(super) struct Render {
    /// The files and folders of one node, in the order of its `-f`.
    #[arg(value_name = "FILE", required_unless_present = "rows")]
    files: Vec<PathBuf>,
    /// Print the words of one server instead; more than once for more.
    #[arg(
        long = "row",
        value_name = "BACKEND/SERVER",
        value_parser = ServerId::parse,
        conflicts_with_all = ["files", "backends", "output_dir"],
        requires = "agent"
    )]
    rows: Vec<ServerId>,
    /// Whether HAProxy asks: not at all, without following, or following what it is told.
    #[arg(long, value_enum, required_unless_present_any = ["backends", "rows"])]
    mode: Option<ModeName>,
    /// Only the servers of this backend, with a mode of their own where one is given; more than once
    /// for more than one.
    #[arg(long = "backend", value_name = "BACKEND[=MODE]", value_parser = backend)]
    backends: Vec<(String, Option<ModeName>)>,
    /// Whom HAProxy asks: the address of Tidegate's balancer. Needed where a server asks nobody
    /// yet.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = agent)]
    agent: Option<SocketAddr>,
    /// How often; 2s unless the file has it.
    #[arg(long, value_name = "TIME", value_parser = inter)]
    inter: Option<u64>,
    /// A group of all servers that are rendered; more than once for more. Without it those of
    /// --settings, those that the file has, or `canary` for a name with -cny- in it.
    #[arg(long = "group", value_name = "NAME", value_parser = Name::parse)]
    groups: Vec<Name>,
    /// The node's name, or a variable that holds it; that of `HAPROXY_LOCALPEER` unless the file has
    /// another.
    #[arg(long, value_name = "NAME|$VARIABLE")]
    node: Option<Value>,
    /// The zone that the node stands in, or a variable that holds it. Without it that of --settings
    /// for a --node by its name, or what the file has.
    #[arg(long, value_name = "NAME|$VARIABLE")]
    zone: Option<Value>,
    /// The weight that servers get with --mode on whose backend has one smaller weight for all of
    /// them (1 unless it is given): their shares stay as they are.
    #[arg(long, value_name = "WEIGHT", default_value_t = render::BASE_DEFAULT,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(BASE_MAX)))]
    base: u16,
    /// A file with the value of the key `settings`: only servers that it lists are enrolled, with its
    /// groups.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Where to write the files; it must not hold files of their names.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
    /// End with 10 where a server is left as it is, or lint warns of what was not there before.
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeName {
    /// It does not ask.
    Off,
    /// It asks and shows what it is told, and does not follow it.
    Shadow,
    /// It follows what it is told.
    On,
}

impl Render {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if self.groups.len() > GROUPS_MAX {
            let text = format!("a request names {GROUPS_MAX} groups at most");
            return Err(Failure::new(Exit::Usage, text));
        }
        let settings = self.settings.as_deref().map(settings).transpose()?;
        let wish = self.wish(settings.as_ref())?;
        if let Some(agent) = self.agent.filter(|_| !self.rows.is_empty()) {
            return print(&self.words(agent, &wish));
        }
        let failed = |text: String| Failure::new(Exit::Failed, text);
        let files = files::read(&self.files).map_err(|error| failed(error.to_string()))?;
        if files.len() > 1 && self.output_dir.is_none() {
            let text = "several files are read: say where to write them (--output-dir FOLDER)";
            return Err(Failure::new(Exit::Usage, text));
        }
        let node = match &self.node {
            Some(Value::Name(name)) => name.as_str(),
            Some(Value::Variable(..)) | None => NODE_DEFAULT,
        };
        let rendered = render::render(&files, &self.reading.setting(node), &wish);
        let rendered = rendered.map_err(|error| refused(&error))?;
        match &self.output_dir {
            Some(folder) => write_all(folder, &rendered.files)?,
            None => rendered
                .files
                .iter()
                .try_for_each(|file| print_bytes(&file.bytes))?,
        }
        self.verdict(&rendered)
    }

    fn wish<'a>(&self, settings: Option<&'a Settings>) -> Result<Wish<'a>, Failure> {
        let all = self.mode.map(Into::into);
        let mut backends = BTreeMap::new();
        for (name, mode) in &self.backends {
            let Some(mode) = mode.map(Into::into).or(all) else {
                let text =
                    format!("--backend {name}: say its mode, as in {name}=shadow, or --mode");
                return Err(Failure::new(Exit::Usage, text));
            };
            backends.insert(name.clone(), mode);
        }
        Ok(Wish {
            all: all.filter(|_| backends.is_empty()),
            backends,
            asking: Asking {
                agent: self.agent,
                inter_ms: self.inter,
                groups: (!self.groups.is_empty()).then(|| self.groups.clone()),
                node: self.node.clone(),
                zone: self.zone.clone(),
                base: Some(self.base),
            },
            settings,
        })
    }

    fn words(&self, agent: SocketAddr, wish: &Wish<'_>) -> String {
        let mode = self.mode.map_or(Mode::On, Into::into);
        let words = self
            .rows
            .iter()
            .filter_map(|id| render::row(id.clone(), mode, agent, wish));
        words.map(|words| format!("{words}\n")).collect()
    }

    /// What the reader of the file alone does not see goes to standard error.
    fn verdict(&self, rendered: &Rendered) -> Result<(), Failure> {
        let remarks = &rendered.remarks;
        let mut text: String = remarks.iter().map(|remark| format!("{remark}\n")).collect();
        text.extend(rendered.findings.iter().map(Finding::to_string));
        tell(&text);
        if self.strict && !text.is_empty() {
            return Err(Failure::differs());
        }
        Ok(())
    }
}

fn refused(error: &RenderError) -> Failure {
    let text = error.to_string();
    match error {
        RenderError::NoBackend(_)
        | RenderError::NoServer
        | RenderError::NoAgent(_)
        | RenderError::Unkept(..) => Failure::new(Exit::Usage, text),
        RenderError::Lint(findings) => {
            let findings: String = findings
                .iter()
                .map(|finding| format!("\n{finding}"))
                .collect();
            let hint = "leave the backend out, mend it, or allow the rule by a comment";
            Failure::new(
                Exit::Refused,
                format!("{text} ({hint}):{findings}").trim_end(),
            )
        }
        RenderError::TooManyReadings(_) | RenderError::Fault(_) | RenderError::Ambiguous(_) => {
            Failure::new(Exit::Failed, text)
        }
    }
}

/// Writes new files, with the permissions of those that they are made of; all names are looked at
/// before the first is written.
fn write_all(folder: &Path, files: &[File]) -> Result<(), Failure> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::new(Exit::Failed, format!("{}: {why}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let mut paths = BTreeSet::new();
    for file in files {
        let name = Path::new(&file.name).file_name().unwrap_or_default();
        let path = folder.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(failed(&path, &"is there already, and nothing was written"));
        }
        if !paths.insert(path.clone()) {
            return Err(failed(
                &path,
                &"two files have this name, and nothing was written",
            ));
        }
    }
    for file in files {
        let path = folder.join(Path::new(&file.name).file_name().unwrap_or_default());
        write(&path, file).map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

fn write(path: &Path, file: &File) -> io::Result<()> {
    let permissions = fs::metadata(&file.name)?.permissions();
    let mut options = OpenOptions::new();
    let mut to = options
        .write(true)
        .create_new(true)
        .mode(PERMISSIONS)
        .open(path)?;
    to.write_all(&file.bytes)?;
    to.set_permissions(permissions)?;
    to.sync_all()
}

fn settings(path: &Path) -> Result<Settings, Failure> {
    let failed = |why: String| Failure::new(Exit::Failed, format!("{}: {why}", path.display()));
    let value = fs::read(path).map_err(|error| failed(error.to_string()))?;
    let (settings, _) = Settings::parse(&value).map_err(failed)?;
    match settings.faults.first() {
        Some(fault) => Err(failed(fault.clone())),
        None => Ok(settings),
    }
}

fn backend(text: &str) -> Result<(String, Option<ModeName>), String> {
    let Some((name, mode)) = text.split_once('=') else {
        return Ok((text.to_owned(), None));
    };
    Ok((name.to_owned(), Some(ModeName::from_str(mode, false)?)))
}

/// A host name would be resolved once, when HAProxy starts, and never again.
fn agent(text: &str) -> Result<SocketAddr, String> {
    let address: Option<SocketAddr> = text.parse().ok();
    // HAProxy takes no address with a scope (fe80::1%2).
    let is_taken = |address: &SocketAddr| match address {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(address) => address.scope_id() == 0,
    };
    let address = address.filter(|address| address.port() > 0 && is_taken(address));
    address.ok_or_else(|| "write an address and a port, such as 10.0.0.9:8790".to_owned())
}

fn inter(text: &str) -> Result<u64, String> {
    let inter = span(text)?;
    if inter.is_zero() || inter > INTER_MAX || inter.subsec_nanos() % 1_000_000 != 0 {
        return Err(format!("write whole milliseconds, up to {INTER_MAX:?}"));
    }
    u64::try_from(inter.as_millis()).map_err(|error| error.to_string())
}

impl From<ModeName> for Mode {
    fn from(mode: ModeName) -> Self {
        match mode {
            ModeName::Off => Self::Off,
            ModeName::Shadow => Self::Shadow,
            ModeName::On => Self::On,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_an_address_that_haproxy_takes() {
        for text in ["10.0.0.9:8790", "[fe80::1]:1"] {
            assert_eq!(
                agent(text).map(|agent| agent.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "lb:8790", "10.0.0.9", "10.0.0.9:0", "[fe80::1%2]:8790"] {
            assert!(agent(text).is_err(), "{text}");
        }
    }
}
