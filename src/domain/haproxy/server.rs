//! The words of a `server`, `server-template` or `default-server` line.

use super::reading::Line;

/// HAProxy's interval between agent checks where no `agent-inter` is given, in milliseconds.
pub const AGENT_INTER_MS_DEFAULT: u64 = 2_000;
/// HAProxy's weight of a server that is given none.
pub const WEIGHT_DEFAULT: u16 = 1;

/// A value, and where it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given<T> {
    /// The value.
    pub value: T,
    /// The index of the line.
    pub line: usize,
    /// The index of its word in the line.
    pub word: usize,
}

/// What matters of a server to its agent check. `None`: not given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// `agent-check`, or `no-agent-check`.
    pub agent_check: Option<Given<bool>>,
    /// `agent-send`.
    pub agent_send: Option<Given<String>>,
    /// `agent-addr`.
    pub agent_addr: Option<Given<String>>,
    /// `agent-port`.
    pub agent_port: Option<Given<String>>,
    /// `agent-inter`, in milliseconds.
    pub agent_inter: Option<Given<u64>>,
    /// `check`, or `no-check`.
    pub check: Option<Given<bool>>,
    /// `backup`, or `no-backup`.
    pub backup: Option<Given<bool>>,
    /// `disabled`, or `enabled`.
    pub disabled: Option<Given<bool>>,
    /// `weight`, 0 to 256.
    pub weight: Option<Given<u16>>,
    /// `slowstart`, in milliseconds.
    pub slowstart: Option<Given<u64>>,
    /// `on-marked-down`.
    pub on_marked_down: Option<Given<String>>,
    /// `track`.
    pub track: Option<Given<String>>,
    /// `init-state`.
    pub init_state: Option<Given<String>>,
    /// `addr`: an agent check without `agent-addr` goes there.
    pub addr: Option<Given<String>>,
    /// `inter`, `fastinter` or `downinter`: the last of them.
    pub check_interval: Option<Given<String>>,
    /// A word that secures or wraps the connections to the server: the last of them.
    pub secured: Option<Given<String>>,
}

/// What a word of a server line takes.
enum Takes {
    Nothing,
    One,
}

/// A word of a server line that is no value, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    /// Its own index.
    pub(super) word: usize,
    /// The index of its value, where it takes one and that is there.
    pub(super) value: Option<usize>,
}

impl Named {
    /// The index of the last of its words.
    pub(super) fn last(self) -> usize {
        self.value.unwrap_or(self.word)
    }
}

/// The words of a line from the one at `first` on, each with its value.
pub(super) fn named(line: &Line, first: usize) -> impl Iterator<Item = Named> {
    let words = line.arguments();
    let mut word = first;
    std::iter::from_fn(move || {
        let name = words.get(word)?;
        let value = match takes(&name.text) {
            Takes::Nothing => None,
            Takes::One => Some(word + 1).filter(|value| *value < words.len()),
        };
        let named = Named { word, value };
        word = named.last() + 1;
        Some(named)
    })
}

impl Options {
    /// Applies the words of a line from the one at `first` on: a later one replaces an earlier one.
    /// A word that is not known takes nothing.
    pub fn apply(&mut self, line: &Line, at: usize, first: usize) {
        let words = line.arguments();
        for named in named(line, first) {
            let name = &words[named.word].text;
            match (takes(name), named.value) {
                (Takes::Nothing, _) => self.switch(name, at, named.word),
                (Takes::One, Some(value)) => self.set(name, &words[value].text, at, value),
                (Takes::One, None) => {}
            }
        }
    }

    fn switch(&mut self, name: &str, line: usize, word: usize) {
        let (slot, value) = match name {
            "agent-check" => (&mut self.agent_check, true),
            "no-agent-check" => (&mut self.agent_check, false),
            "check" => (&mut self.check, true),
            "no-check" => (&mut self.check, false),
            "backup" => (&mut self.backup, true),
            "no-backup" => (&mut self.backup, false),
            "disabled" => (&mut self.disabled, true),
            "enabled" => (&mut self.disabled, false),
            "ssl" | "check-ssl" | "send-proxy" | "send-proxy-v2" | "check-send-proxy" => {
                self.secured = Some(Given {
                    value: name.to_owned(),
                    line,
                    word,
                });
                return;
            }
            "no-ssl" | "no-check-ssl" | "no-send-proxy" | "no-send-proxy-v2" => {
                let same = |given: &Given<String>| name.strip_prefix("no-") == Some(&given.value);
                self.secured.take_if(|given| same(given));
                return;
            }
            _ => return,
        };
        *slot = Some(Given { value, line, word });
    }

    fn set(&mut self, name: &str, value: &str, line: usize, word: usize) {
        let text = || {
            Some(Given {
                value: value.to_owned(),
                line,
                word,
            })
        };
        let span = || milliseconds(value).map(|value| Given { value, line, word });
        match name {
            "agent-send" => self.agent_send = text(),
            "agent-addr" => self.agent_addr = text(),
            "agent-port" => self.agent_port = text(),
            "agent-inter" => self.agent_inter = span().or(self.agent_inter.take()),
            "weight" => {
                let weight = value.parse().ok().map(|value| Given { value, line, word });
                self.weight = weight.or(self.weight.take());
            }
            "slowstart" => self.slowstart = span().or(self.slowstart.take()),
            "on-marked-down" => self.on_marked_down = text(),
            "track" => self.track = text(),
            "init-state" => self.init_state = text(),
            "addr" => self.addr = text(),
            "inter" | "fastinter" | "downinter" => {
                let value = name.to_owned();
                self.check_interval = Some(Given { value, line, word });
            }
            _ => {}
        }
    }

    /// Whether a switch is on.
    #[must_use]
    pub fn is_on(switch: Option<&Given<bool>>) -> bool {
        switch.is_some_and(|given| given.value)
    }

    /// The configured weight, 0 to 256.
    #[must_use]
    pub fn weight(&self) -> u16 {
        self.weight
            .as_ref()
            .map_or(WEIGHT_DEFAULT, |given| given.value)
    }

    /// The interval between two agent checks, in milliseconds.
    #[must_use]
    pub fn agent_inter_ms(&self) -> u64 {
        let given = self.agent_inter.as_ref();
        given.map_or(AGENT_INTER_MS_DEFAULT, |given| given.value)
    }
}

/// The words with a value, of HAProxy 2.6 to 3.2: a value must not be read as a word of its own.
const WITH_VALUE: [&str; 76] = [
    "addr",
    "agent-addr",
    "agent-inter",
    "agent-port",
    "agent-send",
    "alpn",
    "ca-file",
    "ca-verify-file",
    "check-alpn",
    "check-proto",
    "check-sni",
    "ciphers",
    "ciphersuites",
    "check-pool-conn-name",
    "client-sigalgs",
    "cookie",
    "crl-file",
    "crt",
    "curves",
    "downinter",
    "ech",
    "error-limit",
    "fall",
    "fastinter",
    "guid",
    "hash-key",
    "id",
    "idle-ping",
    "init-addr",
    "init-state",
    "inter",
    "interface",
    "log-bufsize",
    "log-proto",
    "max-reuse",
    "maxconn",
    "maxqueue",
    "minconn",
    "namespace",
    "npn",
    "observe",
    "on-error",
    "on-marked-down",
    "on-marked-up",
    "pool-conn-name",
    "pool-low-conn",
    "pool-max-conn",
    "pool-purge-delay",
    "port",
    "proto",
    "proxy-v2-options",
    "quic-cc-algo",
    "redir",
    "resolve-net",
    "resolve-opts",
    "resolve-prefer",
    "resolvers",
    "rise",
    "shard",
    "sigalgs",
    "slowstart",
    "sni",
    "socks4",
    "source",
    "ssl-max-ver",
    "ssl-min-ver",
    "tcp-md5sig",
    "tcp-ut",
    "track",
    "usesrc",
    "verify",
    "verifyhost",
    "weight",
    "ws",
    "cc",
    "renegotiate-limit",
];

fn takes(word: &str) -> Takes {
    if WITH_VALUE.contains(&word) || word.starts_with("set-proxy-v2-tlv-fmt") {
        return Takes::One;
    }
    Takes::Nothing
}

/// A span of time as HAProxy writes it: `2000`, `2s`, `250ms`, `1m30s` is not one. Microseconds are
/// rounded up, as HAProxy's timers are.
#[must_use]
pub fn milliseconds(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    match &text[end..] {
        "us" => Some(number.div_ceil(1_000)),
        "" | "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "d" => number.checked_mul(86_400_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::haproxy::reading::{File, Reading, Setting};

    fn options(lines: &[&str]) -> Options {
        let text = format!("backend web\n{}\n", lines.join("\n"));
        let files = [File {
            name: "a".to_owned(),
            bytes: text.into_bytes(),
        }];
        let reading = Reading::of(&files, &Setting::default()).unwrap();
        let mut options = Options::default();
        for (at, line) in reading.lines.iter().enumerate().skip(1) {
            options.apply(line, at, 1);
        }
        options
    }

    #[test]
    fn a_value_is_no_word_of_its_own() {
        let options =
            options(&["default-server cookie check sni str(disabled) verify none backup"]);
        assert_eq!((options.check, options.disabled), (None, None));
        assert!(Options::is_on(options.backup.as_ref()));
    }

    #[test]
    fn a_later_word_replaces_an_earlier_one() {
        let options = options(&[
            "default-server check disabled weight 10 agent-inter 1s agent-send a ssl",
            "default-server no-check enabled weight 20 agent-send b no-ssl",
        ]);
        assert!(!Options::is_on(options.check.as_ref()));
        assert!(!Options::is_on(options.disabled.as_ref()));
        assert_eq!((options.weight(), options.agent_inter_ms()), (20, 1_000));
        assert_eq!(
            options.agent_send.map(|given| (given.value, given.line)),
            Some(("b".to_owned(), 2))
        );
        assert_eq!(options.secured, None);
    }

    #[test]
    fn spans_have_haproxys_units() {
        for (text, expected) in [
            ("2000", Some(2_000)),
            ("250ms", Some(250)),
            ("2s", Some(2_000)),
            ("1m", Some(60_000)),
            ("1h", Some(3_600_000)),
            ("1d", Some(86_400_000)),
            ("1500us", Some(2)),
            ("", None),
            ("s", None),
            ("1m30s", None),
            ("-1", None),
            ("99999999999999999999", None),
            ("18446744073709551615d", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }
}
