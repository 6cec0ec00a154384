//! Network namespaces: every part of a scene on a machine of its own, with a router between them.
//!
//! A namespace lives as long as the process that holds it, and that process dies with the test,
//! however the test ends: nothing has a name outside, so nothing is ever left to be cleaned up, and
//! two test processes cannot meet. Inside, addresses and ports are fixed.
//!
//! The test's own thread, and every thread that it starts, stands in the router's namespace: from
//! there each part is reached as from outside. Programs are started with [`Space::launcher`].

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::folder::Folder;
use super::process::{Process, behind, run};
use super::tools::tool;
use super::wait::{PATIENCE, check, eventually};

/// The router, as each part sees it. The addresses of the parts are 10.77.x.y as well.
pub(crate) const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// The bridge of the parts that share a segment.
const SEGMENT: &str = "segment";

/// The router, and what makes the others.
pub(crate) struct Net {
    router: Space,
}

/// One machine of the scene, as far as its network goes.
pub(crate) struct Space {
    name: String,
    address: Ipv4Addr,
    /// What is dropped now, as the words of a rule behind its direction.
    cuts: Mutex<BTreeSet<(Direction, String)>>,
    /// Keeps the namespace: it does nothing else.
    holder: Process,
    /// Holds the log of the holder.
    folder: Folder,
}

/// Which packets a cut drops, as seen by the part that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// What comes: the part is heard, and hears nothing.
    In,
    /// What goes: the part hears, and is not heard.
    Out,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    In,
    Out,
}

impl Net {
    /// Makes the router and moves the calling thread to it.
    pub(crate) fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "network namespaces need root: run this test as root"
        );
        let router = Space::hold("router", ROUTER);
        router.ip(&["link set dev lo up"]);
        router.enter();
        // Of the namespace that the calling thread is in.
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may let a router forward");
        Self { router }
    }

    /// A part with these addresses, the first of them its own, reachable from every other part.
    pub(crate) fn add(&self, name: &str, addresses: &[Ipv4Addr]) -> Space {
        let own = *addresses.first().expect("a part has an address");
        let space = Space::hold(name, own);
        let holder = space.holder.id();
        let link = format!("link add name {name} type veth peer name eth0 netns {holder}");
        let mut near = vec![
            link,
            format!("address add {ROUTER}/32 dev {name}"),
            format!("link set dev {name} up"),
        ];
        let mut far = vec!["link set dev lo up".to_owned()];
        for address in addresses {
            near.push(format!("route add {address}/32 dev {name}"));
            far.push(format!("address add {address}/32 dev eth0"));
        }
        far.extend([
            "link set dev eth0 up".to_owned(),
            format!("route add {ROUTER}/32 dev eth0 src {own}"),
            format!("route add default via {ROUTER} dev eth0 src {own}"),
        ]);
        self.router.ip(&near);
        space.ip(&far);
        space
    }

    /// A segment that parts share as machines at one switch do: an address may move from one to
    /// another. The router, and so the test itself, stands in it with `own`.
    pub(crate) fn make_segment(&self, own: Ipv4Addr) {
        self.router.ip(&[
            format!("link add {SEGMENT} type bridge"),
            format!("address add {own}/24 dev {SEGMENT}"),
            format!("link set dev {SEGMENT} up"),
        ]);
    }

    /// A part in that segment.
    pub(crate) fn add_to_segment(&self, name: &str, address: Ipv4Addr) -> Space {
        let space = Space::hold(name, address);
        let holder = space.holder.id();
        self.router.ip(&[
            format!("link add name {name} type veth peer name eth0 netns {holder}"),
            format!("link set dev {name} master {SEGMENT}"),
            format!("link set dev {name} up"),
        ]);
        space.ip(&[
            "link set dev lo up".to_owned(),
            format!("address add {address}/24 dev eth0"),
            "link set dev eth0 up".to_owned(),
        ]);
        space
    }

    /// Pulls a part's cable, or puts it back.
    pub(crate) fn set_link(&self, part: &Space, up: bool) {
        let word = if up { "up" } else { "down" };
        self.router
            .ip(&[format!("link set dev {} {word}", part.name)]);
    }

    pub(crate) fn router(&self) -> &Space {
        &self.router
    }
}

impl Space {
    /// Starts the process that keeps a new, empty namespace.
    fn hold(name: &str, address: Ipv4Addr) -> Self {
        let folder = Folder::new(&format!("space-{name}"));
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sleep", "infinity"]);
        let mut holder = Process::start("holder", folder.path(), &command);
        let comm = format!("/proc/{}/comm", holder.id());
        eventually("the namespace is there", PATIENCE, || {
            holder.assert_running();
            let program = fs::read_to_string(&comm).unwrap_or_default();
            check(program.trim() == "sleep", || program)
        });
        Self {
            name: name.to_owned(),
            address,
            cuts: Mutex::default(),
            holder,
            folder,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// What stands before a program on its command line to start it here. It ends in exec, so that
    /// the process id is the program's own.
    pub(crate) fn launcher(&self) -> Vec<String> {
        vec!["nsenter".to_owned(), format!("--net={}", self.file())]
    }

    /// Moves the calling thread here, for good.
    pub(crate) fn enter(&self) {
        let file = File::open(self.file()).expect("the holder runs");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may enter a namespace");
    }

    /// Drops packets from and to `peers`, an address or a network (`10.77.3.0/24`), beside what is
    /// dropped already. Established connections are cut as well; nobody is told.
    pub(crate) fn cut(&self, peers: impl Display, way: Way) {
        self.drop_also(
            &format!("ip saddr {peers}"),
            &format!("ip daddr {peers}"),
            way,
        );
    }

    /// Drops everything that comes from or goes to any other part.
    pub(crate) fn cut_off(&self) {
        self.drop_also("iifname != lo", "oifname != lo", Way::Both);
    }

    /// Ends every cut.
    pub(crate) fn heal(&self) {
        self.cuts().clear();
        self.apply_cuts();
    }

    /// Runs `nft -f` here: the whole text or nothing.
    pub(crate) fn nft(&self, text: &str) {
        let file = self.folder.write("rules.nft", text);
        let output = run(
            "nft",
            self.command(tool("nft")).arg("-f").arg(file),
            PATIENCE,
        );
        assert_eq!(output.code, Some(0), "{text}\n{}", output.stderr);
    }

    /// How many ports this part keeps busy in `TIME_WAIT` for connections that it made to a port.
    pub(crate) fn in_time_wait(&self, port: u16) -> usize {
        const TIME_WAIT: &str = "06";
        let path = format!("/proc/{}/net/tcp", self.holder.id());
        let table = fs::read_to_string(path).expect("the holder runs");
        let remote = format!(":{port:04X}");
        let is_one = |line: &&str| {
            let mut words = line.split_whitespace().skip(2);
            words.next().is_some_and(|word| word.ends_with(&remote))
                && words.next() == Some(TIME_WAIT)
        };
        table.lines().filter(is_one).count()
    }

    /// A command that runs here.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        behind(&self.launcher(), program)
    }

    fn drop_also(&self, from: &str, to: &str, way: Way) {
        if way != Way::Out {
            self.cuts().insert((Direction::In, from.to_owned()));
        }
        if way != Way::In {
            self.cuts().insert((Direction::Out, to.to_owned()));
        }
        self.apply_cuts();
    }

    /// Replaces the rules in one step: no packet meets half of them.
    fn apply_cuts(&self) {
        let rules = |wanted: Direction| -> String {
            let cuts = self.cuts();
            let of_it = cuts.iter().filter(|(direction, _)| *direction == wanted);
            of_it
                .map(|(_, packets)| format!("    {packets} drop\n"))
                .collect()
        };
        self.nft(&format!(
            "table inet cut\ndelete table inet cut\ntable inet cut {{\n\
             chain in {{\n    type filter hook input priority filter; policy accept;\n{}}}\n\
             chain out {{\n    type filter hook output priority filter; policy accept;\n{}}}\n}}\n",
            rules(Direction::In),
            rules(Direction::Out)
        ));
    }

    fn cuts(&self) -> std::sync::MutexGuard<'_, BTreeSet<(Direction, String)>> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `ip` here with one command per line.
    fn ip(&self, lines: &[impl AsRef<str>]) {
        let lines: Vec<_> = lines.iter().map(AsRef::as_ref).collect();
        let file = self
            .folder
            .write("links", &format!("{}\n", lines.join("\n")));
        let output = run("ip", self.command("ip").arg("-batch").arg(file), PATIENCE);
        assert_eq!(output.code, Some(0), "{lines:#?}\n{}", output.stderr);
    }

    fn file(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }
}
