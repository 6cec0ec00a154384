//! From texts to a configuration: each value by itself, then what must hold between them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::environments::Environments;
use super::errors::{ConfigError, ConfigErrors, Origin};
use super::layers::{Given, gather};
use super::settings::{Default, SETTINGS, Setting};
use super::values::{
    address, agent_close, auth_method, bearer_token_file, count, filter, folder, kv, log_format,
    name, root, slot, span, switch,
};
use super::{
    AgentConfig, Config, HttpConfig, LogConfig, ObserveConfig, PeerAddress, Receiver,
    ReplicaAccess, Role, Sources, TlsFiles, access, announce, environments, observe, peers,
};
use crate::domain::key::Prefix;
use crate::domain::name::Name;
use crate::haproxy::prometheus::PrometheusSource;
use crate::kv::source::{KvSource, LoginSettings};

pub(super) fn load(sources: &Sources<'_>) -> Result<Config, ConfigErrors> {
    let mut loader = Loader::new(sources);
    let config = loader.config();
    match config {
        Some(config) if loader.errors.is_empty() => Ok(config),
        Some(_) | None => Err(ConfigErrors::new(loader.errors)),
    }
}

pub(super) fn replica_access(sources: &Sources<'_>) -> Result<ReplicaAccess, ConfigErrors> {
    let mut loader = Loader::new(sources);
    let access = loader.access();
    if loader.errors.is_empty() {
        Ok(access)
    } else {
        Err(ConfigErrors::new(loader.errors))
    }
}

struct Loader {
    role: Role,
    /// What counts first.
    given: Vec<Given>,
    errors: Vec<ConfigError>,
}

impl Loader {
    fn new(sources: &Sources<'_>) -> Self {
        let mut errors = Vec::new();
        let given = gather(sources, &mut errors);
        Self {
            role: sources.role,
            given,
            errors,
        }
    }

    /// Every setting is looked at before the first missing one ends it.
    fn config(&mut self) -> Option<Config> {
        let environments = self.pick("environments", environments::names);
        let (environment, root) = self.place(environments.as_ref()).unzip();
        let kv = self.pick("kv", kv);
        let login = LoginSettings {
            method: self.pick("consul.login_method", auth_method),
            bearer_token_file: self.pick("consul.bearer_token_file", bearer_token_file),
        };
        let slot = self.pick("slot", slot);
        let standalone = self.pick("standalone", switch);
        let peers = self.pick("peers", peers::addresses).unwrap_or_default();
        let peers_token_file = self.pick("peers_token_file", peers::token_file);
        let assume_gone = self.pick("assume_gone", peers::slots).unwrap_or_default();
        let poll_interval = self.pick("poll_interval", span);
        let data_dir = self.pick("data_dir", folder);
        let drain_for = self.pick("drain_for", span);
        let (agent, http) = (self.agent(), self.http());
        let observe = self.observe();
        let migration = self.migration(environments.as_ref(), &observe);
        let announce = self.announce();
        let format = self.pick("log.format", log_format);
        let level = self.pick("log.level", filter);
        let standalone = self.check_standalone(kv.as_ref(), standalone);
        self.check_peers(&peers, slot.as_ref(), peers_token_file.is_some());
        self.check_ca_file(&peers);
        self.check_assume_gone(&assume_gone, &peers, slot.as_ref());
        self.check_listeners(
            agent.as_ref().map(|agent| agent.listen),
            http.as_ref().map(|http| http.listen),
        );
        let (environment, root) = (environment?, root?);
        Some(Config {
            prefix: Prefix::new(&root, environment.as_str())
                .expect("the root's segments and the environment are names"),
            environment,
            root,
            kv: kv?,
            login,
            slot: slot?,
            standalone,
            peers,
            peers_token_file,
            assume_gone,
            poll_interval: poll_interval?,
            data_dir,
            drain_for: drain_for?,
            agent: agent?,
            http: http?,
            observe,
            migration,
            announce,
            log: LogConfig {
                format: format?,
                level: level?,
            },
            given: self.counting(),
        })
    }

    fn agent(&mut self) -> Option<AgentConfig> {
        let listen = self.pick("agent.listen", address);
        let workers = self.pick("agent.workers", count);
        let connections_max = self.pick("agent.connections_max", count);
        let close = self.pick("agent.close", agent_close);
        let allow = self.pick("agent.allow", access::allow);
        Some(AgentConfig {
            listen: listen?,
            workers: workers?,
            connections_max: connections_max?,
            close: close?,
            allow: allow.unwrap_or_default(),
        })
    }

    fn http(&mut self) -> Option<HttpConfig> {
        let listen = self.pick("http.listen", address);
        let certificate = self.pick("http.certificate_file", access::file);
        let key = self.pick("http.key_file", access::file);
        let access = self.access();
        let pair = ["http.certificate_file", "http.key_file"];
        if let [true, false] | [false, true] = pair.map(|key| self.is_given(key)) {
            let missing = pair.into_iter().find(|key| !self.is_given(key));
            let text = "required, as the other one of certificate and key is given";
            self.refuse(missing.unwrap_or_default(), text.to_owned());
        }
        let tls = certificate.zip(key);
        Some(HttpConfig {
            listen: listen?,
            tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
            access,
        })
    }

    fn access(&mut self) -> ReplicaAccess {
        ReplicaAccess {
            token_file: self.pick("http.token_file", access::file),
            ca_file: self.pick("http.ca_file", access::file),
        }
    }

    /// The environment by its own name, and the root that it stands below.
    fn place(&mut self, environments: Option<&Environments>) -> Option<(Name, String)> {
        let called = self.pick("environment", name);
        let mut roots = self.pick("environment_roots", environments::roots);
        let root = self.pick("root", root);
        let environments = environments?;
        let strangers = roots.iter().flat_map(BTreeMap::keys);
        if let Some(stranger) = strangers.into_iter().find(|name| !environments.has(name)) {
            let text = format!("{stranger} is the name of no environment: {environments}");
            self.refuse("environment_roots", text);
        }
        let environment = self.named("environment", &called?, environments)?;
        let own = roots.as_mut().and_then(|roots| roots.remove(&environment));
        let root = match self.origin("root") {
            Origin::Flag(_) | Origin::Variable(_) => root,
            Origin::File { .. } | Origin::Default => own.or(root),
        };
        Some((environment, root?))
    }

    /// The environment that is called so.
    fn named(&mut self, key: &str, called: &Name, known: &Environments) -> Option<Name> {
        let found = known.named(called).cloned();
        if found.is_none() {
            let text = format!(
                "{called} is no environment: {known}; others are named in the setting environments"
            );
            self.refuse(key, text);
        }
        found
    }

    fn migration(&mut self, known: Option<&Environments>, observe: &ObserveConfig) -> Option<Name> {
        let called = self.pick("migration.environment", name)?;
        if observe.stats.is_empty() {
            let text = "observe.stats names no socket that could be written to";
            self.refuse("migration.environment", text.to_owned());
        }
        self.named("migration.environment", &called, known?)
    }

    fn observe(&mut self) -> ObserveConfig {
        let url = self.pick("observe.prometheus", observe::prometheus);
        let matchers = self.pick("observe.prometheus_matchers", observe::matchers);
        let node_label = self.pick("observe.node_label", observe::label);
        let stats = self.pick("observe.stats", observe::stats);
        ObserveConfig {
            prometheus: url.map(|url| PrometheusSource {
                url,
                matchers: matchers.unwrap_or_default(),
                node_label,
            }),
            stats: stats.unwrap_or_default(),
        }
    }

    fn announce(&mut self) -> Vec<Receiver> {
        let urls = self.pick("announce.urls", announce::urls);
        let token_files = self.pick("announce.token_files", announce::token_files);
        let chat = self.pick("announce.chat", peers::slots).unwrap_or_default();
        let is_wrong = self
            .errors
            .iter()
            .any(|error| error.is_about("announce.urls"));
        let receivers = announce::receivers(
            urls.unwrap_or_default(),
            &token_files.unwrap_or_default(),
            &chat,
        );
        receivers.unwrap_or_else(|(key, text)| {
            if !is_wrong {
                self.refuse(key, text);
            }
            Vec::new()
        })
    }

    /// Reads every value of a setting; the first one counts.
    fn pick<T>(&mut self, key: &str, parse: fn(&Setting, &str) -> Result<T, String>) -> Option<T> {
        let mut values = Vec::new();
        for given in self.given.iter().filter(|given| given.setting.key == key) {
            let value = parse(given.setting, &given.text).map_err(|text| {
                let error = ConfigError::new(given.origin.clone(), key, text);
                self.errors.push(error);
            });
            values.push(value.ok());
        }
        let setting = SETTINGS.iter().find(|setting| setting.key == key);
        if let (true, Some(setting)) = (values.is_empty(), setting)
            && setting.default == Default::Required
            && !self.errors.iter().any(|error| error.is_about(key))
        {
            let text = format!(
                "required; give --{}, {} or {key} in the file",
                setting.flag, setting.variable
            );
            self.errors
                .push(ConfigError::new(Origin::Default, key, text));
        }
        values.into_iter().next().flatten()
    }

    fn check_standalone(&mut self, kv: Option<&KvSource>, said: Option<bool>) -> bool {
        let peers = self.is_given("peers");
        let refused = match (kv, said) {
            (_, Some(true)) if peers => "there are peers; take one of the two away",
            _ if peers => return false,
            _ if self.role == Role::Command => return said.unwrap_or(false),
            (Some(KvSource::Consul), None | Some(false)) => {
                "required with kv = \"consul\", unless `peers` names all replicas: two that do not \
                 know of each other would make servers flap"
            }
            (Some(KvSource::Directory(_)), Some(false)) => {
                "a folder serves one replica unless `peers` names all, so it cannot be false"
            }
            (Some(KvSource::Directory(_)), None) | (_, Some(true)) => return true,
            (None, None | Some(false)) => return false,
        };
        let origin = self.origin("standalone");
        self.errors
            .push(ConfigError::new(origin, "standalone", refused));
        false
    }

    fn is_given(&self, key: &str) -> bool {
        self.given.iter().any(|given| given.setting.key == key)
    }

    fn check_peers(&mut self, peers: &[PeerAddress], slot: Option<&Name>, token: bool) {
        if peers.is_empty() || self.role == Role::Command {
            return;
        }
        let slots = || {
            let slots: Vec<_> = peers.iter().map(|peer| peer.slot.as_str()).collect();
            slots.join(", ")
        };
        if let Some(slot) = slot.filter(|slot| peers.iter().all(|peer| peer.slot != **slot)) {
            let text = format!("{slot} is none of the peers ({})", slots());
            self.refuse("slot", text);
        }
        if !token && !peers.iter().all(peers::is_on_this_machine) {
            let text = "required, as not all peers are on this machine (127.0.0.0/8, [::1])";
            self.refuse("peers_token_file", text.to_owned());
        }
    }

    fn check_ca_file(&mut self, peers: &[PeerAddress]) {
        let encrypted = peers.iter().any(|peer| peers::is_encrypted(&peer.url));
        if encrypted && !self.is_given("http.ca_file") {
            let text = "required, as there are peers at https://";
            self.refuse("http.ca_file", text.to_owned());
        }
    }

    fn check_assume_gone(&mut self, gone: &[Name], peers: &[PeerAddress], slot: Option<&Name>) {
        if self.role == Role::Command || self.errors.iter().any(|error| error.is_about("peers")) {
            return;
        }
        for name in gone {
            if Some(name) == slot {
                self.refuse("assume_gone", format!("{name} is this replica itself"));
            } else if peers.iter().all(|peer| peer.slot != *name) {
                self.refuse("assume_gone", format!("{name} is none of the peers"));
            }
        }
    }

    fn refuse(&mut self, key: &str, text: String) {
        let origin = self.origin(key);
        self.errors.push(ConfigError::new(origin, key, text));
    }

    fn check_listeners(&mut self, agent: Option<SocketAddr>, http: Option<SocketAddr>) {
        let (Some(agent), Some(http)) = (agent, http) else {
            return;
        };
        let overlap =
            agent.ip() == http.ip() || agent.ip().is_unspecified() || http.ip().is_unspecified();
        // Port 0 is any free port, each time another.
        if agent.port() == http.port() && agent.port() != 0 && overlap {
            let text = format!(
                "{http} takes the same port as agent.listen ({agent}, {})",
                self.origin("agent.listen")
            );
            let origin = self.origin("http.listen");
            self.errors
                .push(ConfigError::new(origin, "http.listen", text));
        }
    }

    fn origin(&self, key: &str) -> Origin {
        let counts = self.given.iter().find(|given| given.setting.key == key);
        counts.map_or(Origin::Default, |given| given.origin.clone())
    }

    fn counting(&self) -> Vec<Given> {
        let of = |setting: &Setting| {
            let mut given = self.given.iter();
            given
                .find(|given| given.setting.key == setting.key)
                .cloned()
        };
        SETTINGS.iter().filter_map(of).collect()
    }
}
