//! Lines in sections: proxies with what they take from their `defaults`, and their servers.

use std::collections::BTreeMap;

use super::reading::{Fault, Line, Reading, is_section};
use super::server::{Given, Options, milliseconds};

/// What the files say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Configuration {
    /// The sections `global`, all together.
    pub global: Global,
    /// The sections `listen`, `frontend` and `backend`, in their order.
    pub proxies: Vec<Proxy>,
    /// What HAProxy refuses.
    pub faults: Vec<Fault>,
}

/// What the process has in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Global {
    /// The line of the first `global`.
    pub line: Option<usize>,
    /// `spread-checks`.
    pub spread_checks: Option<Given<String>>,
    /// `max-spread-checks`, in milliseconds.
    pub max_spread_checks: Option<Given<u64>>,
}

/// One proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Which kind of section it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The line of its head.
    pub line: usize,
    /// What it says itself, or takes from its `defaults`.
    pub common: Common,
    /// Its servers.
    pub servers: Vec<Server>,
    /// `stick on`, `stick match`, `stick store-request`.
    pub stick: Option<usize>,
    /// `use-server`: the lines, and the servers.
    pub use_servers: Vec<(usize, String)>,
    /// Lines that ask `srv_is_up`.
    pub srv_is_up: Vec<usize>,
}

/// Kinds of proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has only the clients' side.
    Frontend,
    /// It has servers.
    Backend,
    /// It has both.
    Listen,
}

/// What a proxy may take from its `defaults`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Common {
    /// `balance`.
    pub balance: Option<Given<String>>,
    /// `hash-type`.
    pub hash_type: Option<Given<String>>,
    /// `timeout check`, in milliseconds.
    pub timeout_check: Option<Given<u64>>,
    /// `option log-health-checks`.
    pub log_health_checks: Option<Given<bool>>,
    /// `load-server-state-from-file`.
    pub state_file: Option<Given<String>>,
    /// `cookie`.
    pub cookie: Option<Given<String>>,
    /// `disabled`, or `enabled`.
    pub disabled: Option<Given<bool>>,
    /// `default-server`.
    pub server: Options,
}

/// One server, or one template of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name; of a template the prefix.
    pub name: String,
    /// Whether it is a template.
    pub is_template: bool,
    /// Its line.
    pub line: usize,
    /// What it says itself, or takes from `default-server`.
    pub options: Options,
}

impl Configuration {
    /// Makes sections of lines.
    #[must_use]
    pub fn of(reading: &Reading<'_>) -> Self {
        let mut builder = Builder {
            configuration: Self::default(),
            section: Section::Other,
            named: BTreeMap::new(),
            latest: Common::default(),
        };
        for (at, line) in reading.lines.iter().enumerate() {
            if line.counts && !line.arguments().is_empty() {
                builder.line(at, line);
            }
        }
        builder.end_defaults();
        builder.configuration
    }

    /// The proxies that have servers.
    pub fn backends(&self) -> impl Iterator<Item = &Proxy> {
        let is_disabled = |proxy: &Proxy| Options::is_on(proxy.common.disabled.as_ref());
        self.proxies
            .iter()
            .filter(move |proxy| proxy.kind != Kind::Frontend && !is_disabled(proxy))
    }
}

impl Server {
    /// Whether HAProxy asks an agent about it.
    #[must_use]
    pub fn has_agent(&self) -> bool {
        Options::is_on(self.options.agent_check.as_ref())
    }

    /// Whether it is a `backup` server.
    #[must_use]
    pub fn is_backup(&self) -> bool {
        Options::is_on(self.options.backup.as_ref())
    }

    /// Whether it starts in maintenance.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        Options::is_on(self.options.disabled.as_ref())
    }
}

enum Section {
    Global,
    Defaults {
        name: Option<String>,
        common: Box<Common>,
    },
    Proxy,
    Other,
}

struct Builder {
    configuration: Configuration,
    section: Section,
    /// The named `defaults` so far.
    named: BTreeMap<String, Common>,
    /// The last `defaults` so far.
    latest: Common,
}

impl Builder {
    fn line(&mut self, at: usize, line: &Line) {
        match line.word(0) {
            "global" => {
                self.begin(Section::Global);
                self.configuration.global.line.get_or_insert(at);
            }
            "defaults" => self.defaults(at, line),
            "frontend" => self.proxy(Kind::Frontend, at, line),
            "backend" => self.proxy(Kind::Backend, at, line),
            "listen" => self.proxy(Kind::Listen, at, line),
            first if is_section(first) => self.begin(Section::Other),
            _ => self.inside(at, line),
        }
    }

    fn begin(&mut self, section: Section) {
        self.end_defaults();
        self.section = section;
    }

    fn end_defaults(&mut self) {
        let section = std::mem::replace(&mut self.section, Section::Other);
        if let Section::Defaults { name, common } = section {
            if let Some(name) = name {
                self.named.insert(name, (*common).clone());
            }
            self.latest = *common;
        }
    }

    /// A `defaults` begins anew, unless it says what it is made from.
    fn defaults(&mut self, at: usize, line: &Line) {
        self.end_defaults();
        let has_name = !line.word(1).is_empty() && line.word(1) != "from";
        let common = self.from(at, line, usize::from(has_name) + 1, Common::default());
        let name = has_name.then(|| line.word(1).to_owned());
        self.section = Section::Defaults {
            name,
            common: Box::new(common),
        };
    }

    fn proxy(&mut self, kind: Kind, at: usize, line: &Line) {
        self.begin(Section::Proxy);
        let common = self.from(at, line, 2, self.latest.clone());
        self.configuration.proxies.push(Proxy {
            kind,
            name: line.word(1).to_owned(),
            line: at,
            common,
            servers: Vec::new(),
            stick: None,
            use_servers: Vec::new(),
            srv_is_up: Vec::new(),
        });
    }

    fn from(&mut self, at: usize, line: &Line, word: usize, otherwise: Common) -> Common {
        if line.word(word) != "from" {
            return otherwise;
        }
        let name = line.word(word + 1);
        if let Some(common) = self.named.get(name) {
            return common.clone();
        }
        self.configuration.faults.push(Fault {
            line: at,
            column: None,
            what: format!("no section `defaults {name}` stands before"),
        });
        otherwise
    }

    fn inside(&mut self, at: usize, line: &Line) {
        match &mut self.section {
            Section::Global => self.configuration.global.apply(at, line),
            Section::Defaults { common, .. } => common.apply(at, line),
            Section::Proxy => {
                if let Some(proxy) = self.configuration.proxies.last_mut() {
                    proxy.apply(at, line);
                }
            }
            Section::Other => {}
        }
    }
}

impl Global {
    fn apply(&mut self, at: usize, line: &Line) {
        let value = line.word(1);
        match line.word(0) {
            "spread-checks" => self.spread_checks = Some(text(at, value)),
            "max-spread-checks" => self.max_spread_checks = span(at, 1, value),
            _ => {}
        }
    }
}

impl Common {
    fn apply(&mut self, at: usize, line: &Line) {
        let negated = line.word(0) == "no";
        let first = usize::from(negated || line.word(0) == "default");
        let (name, value) = (line.word(first), line.word(first + 1));
        match (name, value) {
            ("balance", _) => self.balance = Some(text(at, value)),
            ("hash-type", _) => self.hash_type = Some(text(at, value)),
            ("timeout", "check") => self.timeout_check = span(at, 2, line.word(2)),
            ("option", "log-health-checks") => {
                let value = first == 0;
                self.log_health_checks = Some(Given {
                    value,
                    line: at,
                    word: first + 1,
                });
            }
            ("load-server-state-from-file", _) => self.state_file = Some(text(at, value)),
            ("cookie", _) => self.cookie = Some(text(at, value)),
            ("disabled" | "enabled", _) => {
                let value = name == "disabled";
                self.disabled = Some(Given {
                    value,
                    line: at,
                    word: 0,
                });
            }
            ("default-server", _) => self.server.apply(line, at, 1),
            _ => {}
        }
    }
}

impl Proxy {
    fn apply(&mut self, at: usize, line: &Line) {
        self.common.apply(at, line);
        match line.word(0) {
            "server" => self.server(at, line, false, 3),
            "server-template" => self.server(at, line, true, 4),
            "stick" => self.stick = self.stick.or(Some(at)),
            "use-server" => self.use_servers.push((at, line.word(1).to_owned())),
            _ => {}
        }
        let asks = |word: &super::words::Word| word.text.contains("srv_is_up");
        if line.arguments().iter().any(asks) {
            self.srv_is_up.push(at);
        }
    }

    /// Its own words begin at `first`. A server takes what `default-server` said so far.
    fn server(&mut self, at: usize, line: &Line, is_template: bool, first: usize) {
        let mut options = self.common.server.clone();
        options.apply(line, at, first);
        let name = line.word(1).to_owned();
        self.servers.push(Server {
            name,
            is_template,
            line: at,
            options,
        });
    }
}

fn text(line: usize, value: &str) -> Given<String> {
    let value = value.to_owned();
    Given {
        value,
        line,
        word: 1,
    }
}

fn span(line: usize, word: usize, value: &str) -> Option<Given<u64>> {
    milliseconds(value).map(|value| Given { value, line, word })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::haproxy::reading::{File, Setting};

    fn configuration(text: &str) -> Configuration {
        let files = [File {
            name: "a".to_owned(),
            bytes: text.as_bytes().to_vec(),
        }];
        Configuration::of(&Reading::of(&files, &Setting::default()).unwrap())
    }

    #[test]
    fn a_proxy_takes_the_defaults_that_it_names_or_else_the_last() {
        let text = "defaults a\n balance first\n default-server weight 7 check\n\
                    defaults b from a\n balance leastconn\n option log-health-checks\n\
                    defaults\n timeout check 3s\n\
                    backend one from a\n server s 1.1.1.1\n\
                    backend two from b\n no option log-health-checks\n server s 1.1.1.1 weight 8\n\
                    backend three\n server s 1.1.1.1\n default-server weight 9\n server t 1.1.1.1\n";
        let configuration = configuration(text);
        assert_eq!(configuration.faults, []);
        let [one, two, three] = &configuration.proxies[..] else {
            panic!("three")
        };
        let balance = |proxy: &Proxy| {
            proxy
                .common
                .balance
                .as_ref()
                .map(|given| given.value.clone())
        };
        assert_eq!(balance(one).as_deref(), Some("first"));
        assert_eq!(balance(two).as_deref(), Some("leastconn"));
        assert_eq!(balance(three), None);
        assert_eq!(one.servers[0].options.weight(), 7);
        assert_eq!(two.servers[0].options.weight(), 8);
        assert!(!Options::is_on(two.common.log_health_checks.as_ref()));
        assert_eq!(
            three.common.timeout_check.as_ref().map(|given| given.value),
            Some(3_000)
        );
        let weights: Vec<_> = three.servers.iter().map(|s| s.options.weight()).collect();
        assert_eq!(weights, [1, 9]);
    }

    #[test]
    fn defaults_that_are_not_there_are_a_fault() {
        let configuration = configuration("backend a from gone\n server s 1.1.1.1\n");
        assert_eq!(
            configuration.faults[0].what,
            "no section `defaults gone` stands before"
        );
    }

    #[test]
    fn servers_stand_in_backends_and_listens_that_are_not_disabled() {
        let text = "frontend f\n bind :80\nbackend b\n server s 1.1.1.1\n\
                    listen l\n server-template t 1-3 a.b:80 agent-check\n\
                    backend off\n disabled\n server s 1.1.1.1\n\
                    peers p\n server other 1.1.1.1 agent-check\n";
        let configuration = configuration(text);
        let names: Vec<_> = configuration
            .backends()
            .map(|proxy| proxy.name.as_str())
            .collect();
        assert_eq!(names, ["b", "l"]);
        let template = &configuration.proxies[2].servers[0];
        assert!(template.is_template && template.has_agent());
    }
}
