//! The one table of settings. Parsing, `--help` and the documentation are made from it.

use std::time::Duration;

/// One setting and its three names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the file; a dot separates the table from the key.
    pub key: &'static str,
    /// The flag, without its dashes.
    pub flag: &'static str,
    /// The environment variable. None of them is one that Kubernetes makes for a service called
    /// `tidegate` (`TIDEGATE_PORT`, `TIDEGATE_SERVICE_HOST` and the like).
    pub variable: &'static str,
    /// What a value looks like, for `--help`.
    pub value_name: &'static str,
    /// What holds when nobody says anything.
    pub default: Default,
    /// Which values there are.
    pub kind: Kind,
    /// What it does, in one or two sentences.
    pub doc: &'static str,
}

/// What holds when nobody says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// It must be said.
    Required,
    /// This text, as if it had been given.
    Text(&'static str),
    /// The number of cores.
    Cores,
    /// What another setting implies; the text says it.
    Implied(&'static str),
}

/// Which values there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text of a form of its own.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number.
    Count {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A time such as `2s` or `500ms`.
    Span {
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// Yes or no. As a flag it takes no value.
    Switch,
    /// Texts: a flag that is repeated, a list with commas, an array of the file.
    List,
    /// `NAME=TEXT` likewise; a table of the file.
    Pairs,
}

/// The longest slot name, in bytes: it stands in every answer, and an answer's comment
/// stays short.
pub const SLOT_BYTES_MAX: usize = 32;

/// All settings, in the order of the documentation.
pub const SETTINGS: [Setting; 35] = [
    Setting {
        key: "environment",
        flag: "env",
        variable: "TIDEGATE_ENV",
        value_name: "NAME",
        default: Default::Required,
        kind: Kind::Text,
        doc: "The environment, by its name or another one of environments: what is kept below \
              <root>/<environment>/.",
    },
    Setting {
        key: "environments",
        flag: "environments",
        variable: "TIDEGATE_ENVIRONMENTS",
        value_name: "NAME=OTHERS",
        default: Default::Text("gprd=production,gstg=staging"),
        kind: Kind::Pairs,
        doc: "The environments that there are, each with the other names that people call it by, \
              with spaces between them, or none. At most 64, each with at most 64 other names.",
    },
    Setting {
        key: "environment_roots",
        flag: "environment-roots",
        variable: "TIDEGATE_ENVIRONMENT_ROOTS",
        value_name: "NAME=PATH",
        default: Default::Implied("none: all stand below root"),
        kind: Kind::Pairs,
        doc: "The KV paths of environments that stand below another one than root. A root given as \
              a flag or a variable counts before it.",
    },
    Setting {
        key: "root",
        flag: "root",
        variable: "TIDEGATE_ROOT",
        value_name: "PATH",
        default: Default::Text("frontend"),
        kind: Kind::Text,
        doc: "The KV path that all environments stand below.",
    },
    Setting {
        key: "kv",
        flag: "kv",
        variable: "TIDEGATE_KV",
        value_name: "consul|dir:PATH",
        default: Default::Text("consul"),
        kind: Kind::Text,
        doc: "Where desired state is kept: Consul (found through the CONSUL_* variables), or a \
              folder whose files are the keys.",
    },
    Setting {
        key: "consul.login_method",
        flag: "login-method",
        variable: "TIDEGATE_CONSUL_LOGIN_METHOD",
        value_name: "NAME",
        default: Default::Implied("no login: the token of CONSUL_HTTP_TOKEN"),
        kind: Kind::Text,
        doc: "Sign in to Consul with this auth method, as consul login -method does, and give the \
              token back at the end. The bearer token stands in consul.bearer_token_file, or in \
              the variable TIDEGATE_CONSUL_BEARER_TOKEN.",
    },
    Setting {
        key: "consul.bearer_token_file",
        flag: "bearer-token-file",
        variable: "TIDEGATE_CONSUL_BEARER_TOKEN_FILE",
        value_name: "PATH",
        default: Default::Implied("none"),
        kind: Kind::Text,
        doc: "A file that holds the bearer token (JWT) of this machine or job. Read anew at each \
              login.",
    },
    Setting {
        key: "slot",
        flag: "slot",
        variable: "TIDEGATE_SLOT",
        value_name: "NAME",
        default: Default::Text("a"),
        kind: Kind::Text,
        doc: "This replica's name, shown in every answer; at most 32 bytes.",
    },
    Setting {
        key: "standalone",
        flag: "standalone",
        variable: "TIDEGATE_STANDALONE",
        value_name: "BOOL",
        default: Default::Implied("true with kv = \"dir:...\", otherwise false"),
        kind: Kind::Switch,
        doc: "There is no other replica. With Consul it is this or peers.",
    },
    Setting {
        key: "peers",
        flag: "peer",
        variable: "TIDEGATE_PEERS",
        value_name: "NAME=URL",
        default: Default::Implied("none"),
        kind: Kind::Pairs,
        doc: "All replicas, this one included: the slot and the HTTP listener's URL of each, such \
              as a=http://10.0.0.1:8791, or https:// where they have certificates. The same list \
              in every replica; 2 to 9.",
    },
    Setting {
        key: "peers_token_file",
        flag: "peers-token-file",
        variable: "TIDEGATE_PEERS_TOKEN_FILE",
        value_name: "PATH",
        default: Default::Implied("none; required unless all peers are on this machine"),
        kind: Kind::Text,
        doc: "A file that holds the secret by which replicas know each other: 16 to 512 visible \
              characters. Read again on SIGHUP.",
    },
    Setting {
        key: "assume_gone",
        flag: "assume-gone",
        variable: "TIDEGATE_ASSUME_GONE",
        value_name: "NAME",
        default: Default::Implied("none"),
        kind: Kind::List,
        doc: "Break glass: peers that are gone for good, whose silence no longer keeps the others \
              silent. Ends for each that is heard. Read again on SIGHUP.",
    },
    Setting {
        key: "poll_interval",
        flag: "poll-interval",
        variable: "TIDEGATE_POLL_INTERVAL",
        value_name: "TIME",
        default: Default::Text("2s"),
        kind: Kind::Span {
            min: Duration::from_millis(200),
            max: Duration::from_mins(1),
        },
        doc: "The smallest agent-inter of the fleet. How long a reading counts follows from it.",
    },
    Setting {
        key: "data_dir",
        flag: "data-dir",
        variable: "TIDEGATE_DATA_DIR",
        value_name: "PATH",
        default: Default::Implied("nothing is remembered over a restart"),
        kind: Kind::Text,
        doc: "A folder in which the last listing is kept, so that a restart while the source is out \
              of reach answers the same; and the fleet view, so that a silent node stays known.",
    },
    Setting {
        key: "drain_for",
        flag: "drain-for",
        variable: "TIDEGATE_DRAIN_FOR",
        value_name: "TIME",
        default: Default::Text("8s"),
        kind: Kind::Span {
            min: Duration::ZERO,
            max: Duration::from_mins(10),
        },
        doc: "How long polls are still answered after SIGTERM, with readiness off: longer than the \
              balancer's probe interval times its threshold, plus its time-out.",
    },
    Setting {
        key: "agent.listen",
        flag: "agent-listen",
        variable: "TIDEGATE_AGENT_LISTEN",
        value_name: "ADDRESS:PORT",
        // Away from the ports of HAProxy, Consul (8300 to 8502, 8600) and the usual exporters.
        default: Default::Text("0.0.0.0:8790"),
        kind: Kind::Text,
        doc: "Where agent checks are answered. Behind a passthrough load balancer it must be a \
              wildcard: the destination is the balancer's address.",
    },
    Setting {
        key: "agent.workers",
        flag: "agent-workers",
        variable: "TIDEGATE_AGENT_WORKERS",
        value_name: "COUNT",
        default: Default::Cores,
        kind: Kind::Count { min: 1, max: 256 },
        doc: "Threads that answer agent checks, each with its own listener.",
    },
    Setting {
        key: "agent.connections_max",
        flag: "agent-connections-max",
        variable: "TIDEGATE_AGENT_CONNECTIONS_MAX",
        value_name: "COUNT",
        default: Default::Text("16384"),
        kind: Kind::Count {
            min: 1,
            max: 1_000_000,
        },
        doc: "The most agent connections open at once, over all workers. One more is closed \
              without a byte, unless an answered one can make room.",
    },
    Setting {
        key: "agent.close",
        flag: "agent-close",
        variable: "TIDEGATE_AGENT_CLOSE",
        value_name: "WHO",
        default: Default::Text("lazy"),
        kind: Kind::OneOf(&["lazy", "fin"]),
        doc: "How an answered agent connection ends: lazy leaves it to HAProxy, which resets it \
              and leaves no TIME_WAIT; fin ends it with the answer, for what stands between and \
              counts connections.",
    },
    Setting {
        key: "agent.allow",
        flag: "agent-allow",
        variable: "TIDEGATE_AGENT_ALLOW",
        value_name: "RANGE",
        default: Default::Implied("every address"),
        kind: Kind::List,
        doc: "The source addresses that agent checks are answered to, such as 10.20.0.0/16; at most \
              64 ranges. Everybody else is closed without a byte.",
    },
    Setting {
        key: "http.listen",
        flag: "http-listen",
        variable: "TIDEGATE_HTTP_LISTEN",
        value_name: "ADDRESS:PORT",
        default: Default::Text("0.0.0.0:8791"),
        kind: Kind::Text,
        doc: "Where health, metrics and the read-only API are served; not the agent's port.",
    },
    Setting {
        key: "http.token_file",
        flag: "http-token-file",
        variable: "TIDEGATE_HTTP_TOKEN_FILE",
        value_name: "PATH",
        default: Default::Implied("none: whoever reaches the port sees all"),
        kind: Kind::Text,
        doc: "A file that holds the secret for which the service shows its pages, metrics and API, \
              and which the commands show it: 16 to 512 visible characters. Not asked of probes \
              (/livez, /readyz), nor of peers, which have their own. Read again on SIGHUP.",
    },
    Setting {
        key: "http.certificate_file",
        flag: "http-certificate-file",
        variable: "TIDEGATE_HTTP_CERTIFICATE_FILE",
        value_name: "PATH",
        default: Default::Implied("none: plain HTTP"),
        kind: Kind::Text,
        doc: "A PEM file with the certificate of the HTTP listener and its chain. Whoever begins \
              with TLS gets it; without TLS other machines are then shown probes only. Read again \
              on SIGHUP.",
    },
    Setting {
        key: "http.key_file",
        flag: "http-key-file",
        variable: "TIDEGATE_HTTP_KEY_FILE",
        value_name: "PATH",
        default: Default::Implied("none; required with http.certificate_file"),
        kind: Kind::Text,
        doc: "A PEM file with the private key of that certificate. Read again on SIGHUP.",
    },
    Setting {
        key: "http.ca_file",
        flag: "http-ca-file",
        variable: "TIDEGATE_HTTP_CA_FILE",
        value_name: "PATH",
        default: Default::Implied("none; required for replicas at https://"),
        kind: Kind::Text,
        doc: "A PEM file with the authorities by which replicas at https:// are known, to their \
              peers and to the commands. Read at the start.",
    },
    Setting {
        key: "observe.prometheus",
        flag: "prometheus",
        variable: "TIDEGATE_OBSERVE_PROMETHEUS",
        value_name: "URL",
        default: Default::Implied("none"),
        kind: Kind::Text,
        doc: "A Prometheus that scrapes the HAProxy nodes, for the commands that show what HAProxy \
              really has. HAProxy's own exporter is read, and haproxy_server_up.",
    },
    Setting {
        key: "observe.prometheus_matchers",
        flag: "prometheus-matchers",
        variable: "TIDEGATE_OBSERVE_PROMETHEUS_MATCHERS",
        value_name: "MATCHERS",
        default: Default::Implied("none"),
        kind: Kind::Text,
        doc: "What keeps its series to those of this environment, such as env=\"gprd\".",
    },
    Setting {
        key: "observe.node_label",
        flag: "node-label",
        variable: "TIDEGATE_OBSERVE_NODE_LABEL",
        value_name: "LABEL",
        default: Default::Implied("fqdn, otherwise instance without its port"),
        kind: Kind::Text,
        doc: "The label of its series that names the node. A full host name is the node of its \
              first part.",
    },
    Setting {
        key: "observe.stats",
        flag: "stats",
        variable: "TIDEGATE_OBSERVE_STATS",
        value_name: "NODE=WHERE",
        default: Default::Implied("none"),
        kind: Kind::Pairs,
        doc: "The stats socket of a node: unix:/PATH or HOST:PORT. At most 1024.",
    },
    Setting {
        key: "migration.environment",
        flag: "migration-environment",
        variable: "TIDEGATE_MIGRATION_ENVIRONMENT",
        value_name: "NAME",
        default: Default::Implied("nothing is written to stats sockets"),
        kind: Kind::Text,
        doc: "While nodes are being enrolled: the environment whose nodes have the sockets of \
              observe.stats. The commands write its rows that do not ask an agent to these \
              sockets (level admin).",
    },
    Setting {
        key: "announce.urls",
        flag: "announce-url",
        variable: "TIDEGATE_ANNOUNCE_URLS",
        value_name: "NAME=URL",
        default: Default::Implied("nobody is told"),
        kind: Kind::Pairs,
        doc: "Who is told of every change that a command wrote, by a POST: an index of events, a \
              chat. A URL that is a secret itself stands in a file: NAME=file:/PATH. At most 8.",
    },
    Setting {
        key: "announce.token_files",
        flag: "announce-token-file",
        variable: "TIDEGATE_ANNOUNCE_TOKEN_FILES",
        value_name: "NAME=PATH",
        default: Default::Implied("none"),
        kind: Kind::Pairs,
        doc: "A file that holds the token which one of them is shown (Authorization: Bearer).",
    },
    Setting {
        key: "announce.chat",
        flag: "announce-chat",
        variable: "TIDEGATE_ANNOUNCE_CHAT",
        value_name: "NAME",
        default: Default::Implied("none"),
        kind: Kind::List,
        doc: "Which of them are chats: they get {\"text\": ...} instead of the whole announcement.",
    },
    Setting {
        key: "log.format",
        flag: "log-format",
        variable: "TIDEGATE_LOG_FORMAT",
        value_name: "FORMAT",
        default: Default::Text("text"),
        kind: Kind::OneOf(&["text", "json"]),
        doc: "How log lines are written.",
    },
    Setting {
        key: "log.level",
        flag: "log-level",
        variable: "TIDEGATE_LOG_LEVEL",
        value_name: "FILTER",
        default: Default::Text("info"),
        kind: Kind::Text,
        doc: "What is logged: a level, or a filter such as info,tidegate::watch=debug.",
    },
];

/// The setting of a key.
#[must_use]
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// The known name that was probably meant, among the keys of the file.
pub(super) fn nearest(key: &str) -> Option<&'static str> {
    // A flag's name, or the key without its table, is the commonest slip.
    let dashed = key.replace(['_', '.'], "-");
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let by_name = SETTINGS
        .iter()
        .find(|setting| setting.flag == dashed || last(setting.key) == key);
    by_name.map(|setting| setting.key).or_else(|| {
        let near = SETTINGS
            .iter()
            .filter(|_| key.len() <= COMPARED_BYTES_MAX)
            .map(|setting| (strsim::levenshtein(key, setting.key), setting.key));
        near.filter(|(distance, _)| *distance <= DISTANCE_MAX.min(key.len() / 3))
            .min()
            .map(|(_, key)| key)
    })
}

/// How many letters may differ for a known name to be suggested; in a short one, a third of it.
const DISTANCE_MAX: usize = 3;
/// A longer name is not compared: no known one is near it.
const COMPARED_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests;
