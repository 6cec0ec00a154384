//! The words that make HAProxy ask about one server.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use super::Mode;
use crate::domain::name::{Name, ServerId};

/// The words of one server's line, always in this order: by it they are known again.
///
/// `agent-check agent-addr A agent-port P agent-inter T agent-send "..." [weight N] [disabled]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentWords {
    /// What is asked.
    pub request: RequestText,
    /// Who is asked.
    pub agent: SocketAddr,
    /// The interval between two agent checks, in milliseconds.
    pub inter_ms: u64,
    /// The configured weight, where it is to be another than the line says.
    pub weight: Option<u16>,
    /// Whether the server starts in maintenance, until it is told otherwise.
    pub disabled: bool,
}

/// A request as `agent-send` has it: variables not put in yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestText {
    /// `backend/server`.
    pub server: ServerId,
    /// The groups, in the order in which their directives count.
    pub groups: Vec<Name>,
    /// The node that asks.
    pub node: Value,
    /// The zone that it stands in.
    pub zone: Option<Value>,
    /// The configured weight, 1 to 256.
    pub base: Option<u16>,
    /// Whether HAProxy follows the answers.
    pub mode: Mode,
}

/// A name, or a variable of HAProxy's environment that holds one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The name itself.
    Name(Name),
    /// The variable, and the name that stands for it where it is not set.
    Variable(String, Option<Name>),
}

impl FromStr for Value {
    type Err = String;

    /// `NAME`, `$VARIABLE`, `${VARIABLE}` or `${VARIABLE-NAME}`.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = |text: &str| Name::parse(text).map_err(|error| format!("{text:?}: {error}"));
        let Some(variable) = text.strip_prefix('$') else {
            return name(text).map(Self::Name);
        };
        let braced = variable.strip_prefix('{');
        let inner = match braced {
            Some(inner) => inner
                .strip_suffix('}')
                .ok_or_else(|| format!("{text:?}: a brace is not closed"))?,
            None => variable,
        };
        let (variable, default) = match inner.split_once('-') {
            Some((variable, default)) if braced.is_some() => (variable, Some(name(default)?)),
            Some(_) | None => (inner, None),
        };
        let begins = variable.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !begins
            || !variable
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            return Err(format!("{text:?}: {variable:?} is no variable"));
        }
        Ok(Self::Variable(variable.to_owned(), default))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name}"),
            Self::Variable(variable, None) => write!(f, "${{{variable}}}"),
            Self::Variable(variable, Some(default)) => write!(f, "${{{variable}-{default}}}"),
        }
    }
}

impl fmt::Display for RequestText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.server)?;
        for group in &self.groups {
            write!(f, " {group}")?;
        }
        write!(f, " node={}", self.node)?;
        if let Some(zone) = &self.zone {
            write!(f, " zone={zone}")?;
        }
        if let Some(base) = self.base {
            write!(f, " base={base}")?;
        }
        match self.mode {
            Mode::Shadow => f.write_str(" mode=shadow"),
            Mode::On | Mode::Off => Ok(()),
        }
    }
}

/// The request stands in double quotes: there variables are put in, and `\n` is a line end.
impl fmt::Display for AgentWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ip, port) = (self.agent.ip(), self.agent.port());
        write!(f, "agent-check agent-addr {ip} agent-port {port}")?;
        match self.inter_ms {
            ms if ms.is_multiple_of(1_000) => write!(f, " agent-inter {}s", ms / 1_000)?,
            ms => write!(f, " agent-inter {ms}ms")?,
        }
        write!(f, " agent-send \"{}\\n\"", self.request)?;
        if let Some(weight) = self.weight {
            write!(f, " weight {weight}")?;
        }
        if self.disabled {
            f.write_str(" disabled")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_name_or_a_variable_that_holds_one() {
        for (text, shown) in [
            ("us-east1-b", "us-east1-b"),
            ("$LB_ZONE", "${LB_ZONE}"),
            ("${LB_ZONE}", "${LB_ZONE}"),
            ("${LB_ZONE-b}", "${LB_ZONE-b}"),
        ] {
            let value = text.parse::<Value>().map(|value| value.to_string());
            assert_eq!(value.as_deref(), Ok(shown));
        }
        for text in [
            "", "a b", "a\"b", "a=b", "$", "$1", "${A", "${}", "${A-}", "${A-$B}", "${A}b", "$A-b",
            "${A[*]}", "\\n",
        ] {
            assert!(text.parse::<Value>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_words_are_those_that_the_documentation_shows() {
        let name = |text| Name::parse(text).unwrap();
        let mut words = AgentWords {
            request: RequestText {
                server: ServerId::parse("web/gke-cny-web").unwrap(),
                groups: vec![name("canary"), name("ci")],
                node: "$HAPROXY_LOCALPEER".parse().unwrap(),
                zone: Some("${LB_ZONE}".parse().unwrap()),
                base: Some(100),
                mode: Mode::On,
            },
            agent: "10.0.0.9:8790".parse().unwrap(),
            inter_ms: 2_000,
            weight: Some(100),
            disabled: true,
        };
        assert_eq!(
            words.to_string(),
            "agent-check agent-addr 10.0.0.9 agent-port 8790 agent-inter 2s agent-send \
             \"web/gke-cny-web canary ci node=${HAPROXY_LOCALPEER} zone=${LB_ZONE} base=100\\n\" \
             weight 100 disabled"
        );
        words.request.mode = Mode::Shadow;
        (words.weight, words.disabled, words.inter_ms) = (None, false, 2_500);
        (words.request.zone, words.agent) = (None, "[::1]:1".parse().unwrap());
        assert_eq!(
            words.to_string(),
            "agent-check agent-addr ::1 agent-port 1 agent-inter 2500ms agent-send \
             \"web/gke-cny-web canary ci node=${HAPROXY_LOCALPEER} base=100 mode=shadow\\n\""
        );
    }
}
