//! The line that HAProxy gets.
//!
//! Always `up`, and with `ready` always a percentage: `ready` alone leaves an old weight standing,
//! and without `up` a server that an agent took down stays down. `drain` and `maint` carry no
//! weight: HAProxy 2.6 would log a line per poll (measured on 2.6, 2.8, 3.0 and 3.2).

use std::io::Write as _;

use super::name::Name;

/// The longest answer in bytes, its newline included. `last_agt` keeps 127 characters in all, of
/// which `via agent : up ()` takes some.
pub const ANSWER_BYTES_MAX: usize = 119;
/// The longest replica name in bytes that keeps every answer within [`ANSWER_BYTES_MAX`].
pub const REPLICA_BYTES_MAX: usize = 32;

/// A weight in percent of the configured one: 1 to 100. Never 0: HAProxy shows a server of weight
/// 0 as UP, and its sessions by cookie still reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u8);

/// What a server shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Takes traffic at this share of its configured weight.
    Ready(Percent),
    /// Finishes what it has, gets nothing new.
    Drain,
    /// Out of service.
    Maint,
}

/// What is said to one poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The desired state.
    State(State),
    /// The desired state, shown but not followed: HAProxy takes it for one unknown word.
    Shadow(State),
    /// A group without a key: HAProxy keeps its state.
    UnknownGroup,
    /// The directive that decides cannot be read, or the guard refuses it.
    UnknownDirective,
    /// The request cannot be read.
    UnknownRequest,
}

/// Where an answer comes from: the comment behind it, which HAProxy shows in `last_agt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The listing's index.
    pub index: u64,
    /// The replica's name, at most [`REPLICA_BYTES_MAX`] bytes.
    pub replica: Name,
}

impl Percent {
    /// The whole configured weight.
    pub const FULL: Self = Self(100);

    /// `None` outside 1 to 100.
    #[must_use]
    pub const fn new(percent: u64) -> Option<Self> {
        match percent {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the arm holds 1 to 100 only"
            )]
            1..=100 => Some(Self(percent as u8)),
            _ => None,
        }
    }

    /// The number, 1 to 100.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Raised, where it must be, to the smallest percentage that HAProxy does not round to weight
    /// 0: it takes floor(base × percent / 100). `base` is 1 to 256.
    #[must_use]
    pub fn for_base(self, base: u16) -> Self {
        let smallest = 100_u16.div_ceil(base.max(1));
        Self(self.0.max(u8::try_from(smallest).unwrap_or(100)))
    }
}

impl State {
    fn for_base(self, base: Option<u16>) -> Self {
        match (self, base) {
            (Self::Ready(percent), Some(base)) => Self::Ready(percent.for_base(base)),
            (Self::Ready(_) | Self::Drain | Self::Maint, _) => self,
        }
    }
}

impl Answer {
    /// The answer for a desired state, to a request with this base weight and mode.
    #[must_use]
    pub fn for_state(state: State, base: Option<u16>, shadow: bool) -> Self {
        let state = state.for_base(base);
        if shadow {
            Self::Shadow(state)
        } else {
            Self::State(state)
        }
    }

    /// Writes the whole line, newline last, behind what `line` holds.
    pub fn render(self, origin: &Origin, line: &mut Vec<u8>) {
        let start = line.len();
        match self {
            Self::State(State::Ready(percent)) => {
                put(line, format_args!("up ready {}%", percent.0));
            }
            Self::State(State::Drain) => put(line, format_args!("up drain")),
            Self::State(State::Maint) => put(line, format_args!("up maint")),
            Self::Shadow(State::Ready(percent)) => {
                put(line, format_args!("shadow-ready-{}", percent.0));
            }
            Self::Shadow(State::Drain) => put(line, format_args!("shadow-drain")),
            Self::Shadow(State::Maint) => put(line, format_args!("shadow-maint")),
            Self::UnknownGroup => put(line, format_args!("unknown-group")),
            Self::UnknownDirective => put(line, format_args!("unknown-directive")),
            Self::UnknownRequest => put(line, format_args!("unknown-request")),
        }
        // HAProxy shows a comment only behind a health word.
        if matches!(self, Self::State(_)) {
            put(
                line,
                format_args!(" # i={} r={}", origin.index, origin.replica),
            );
        }
        line.push(b'\n');
        debug_assert!(
            line.len() - start <= ANSWER_BYTES_MAX,
            "an answer outgrew last_agt"
        );
    }

    /// The words for a person: `ready 40%`, `drain`, `shadow-maint`, `unknown-group`.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::State(State::Ready(percent)) => format!("ready {}%", percent.0),
            Self::Shadow(State::Ready(percent)) => format!("shadow-ready-{}", percent.0),
            Self::State(State::Drain) => "drain".to_owned(),
            Self::State(State::Maint) => "maint".to_owned(),
            Self::Shadow(State::Drain) => "shadow-drain".to_owned(),
            Self::Shadow(State::Maint) => "shadow-maint".to_owned(),
            Self::UnknownGroup => "unknown-group".to_owned(),
            Self::UnknownDirective => "unknown-directive".to_owned(),
            Self::UnknownRequest => "unknown-request".to_owned(),
        }
    }

    /// Reads such words.
    #[must_use]
    pub fn from_words(words: &str) -> Option<Self> {
        let ready = |percent: &str| Some(State::Ready(Percent::new(percent.parse().ok()?)?));
        let answer = match words {
            "drain" => Self::State(State::Drain),
            "maint" => Self::State(State::Maint),
            "shadow-drain" => Self::Shadow(State::Drain),
            "shadow-maint" => Self::Shadow(State::Maint),
            "unknown-group" => Self::UnknownGroup,
            "unknown-directive" => Self::UnknownDirective,
            "unknown-request" => Self::UnknownRequest,
            _ => match words.strip_prefix("shadow-ready-") {
                Some(percent) => Self::Shadow(ready(percent)?),
                None => Self::State(ready(words.strip_prefix("ready ")?.strip_suffix('%')?)?),
            },
        };
        Some(answer)
    }

    /// The whole line, newline last.
    #[must_use]
    pub fn to_line(self, origin: &Origin) -> Vec<u8> {
        let mut line = Vec::with_capacity(ANSWER_BYTES_MAX);
        self.render(origin, &mut line);
        line
    }
}

fn put(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text)
        .expect("writing into a Vec cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(answer: Answer, expected: &str) {
        let origin = Origin {
            index: 17,
            replica: Name::parse("a").unwrap(),
        };
        assert_eq!(
            String::from_utf8(answer.to_line(&origin)).unwrap(),
            expected
        );
    }

    #[test]
    fn every_answer_is_one_line_that_haproxy_understands() {
        let forty = State::Ready(Percent::new(40).unwrap());
        check(Answer::State(forty), "up ready 40% # i=17 r=a\n");
        check(Answer::State(State::Drain), "up drain # i=17 r=a\n");
        check(Answer::State(State::Maint), "up maint # i=17 r=a\n");
        check(Answer::Shadow(forty), "shadow-ready-40\n");
        check(Answer::Shadow(State::Drain), "shadow-drain\n");
        check(Answer::Shadow(State::Maint), "shadow-maint\n");
        check(Answer::UnknownGroup, "unknown-group\n");
        check(Answer::UnknownDirective, "unknown-directive\n");
        check(Answer::UnknownRequest, "unknown-request\n");
    }

    #[test]
    fn the_words_of_an_answer_read_back() {
        let states = (1..=100).filter_map(Percent::new).map(State::Ready);
        let states: Vec<_> = states.chain([State::Drain, State::Maint]).collect();
        let said = states.iter().copied().map(Answer::State);
        let shown = states.iter().copied().map(Answer::Shadow);
        let unknown = [
            Answer::UnknownGroup,
            Answer::UnknownDirective,
            Answer::UnknownRequest,
        ];
        for answer in said.chain(shown).chain(unknown) {
            assert_eq!(Answer::from_words(&answer.words()), Some(answer));
        }
        let forty = Answer::State(State::Ready(Percent::new(40).unwrap()));
        assert_eq!(forty.words(), "ready 40%");
        for words in [
            "",
            "ready",
            "ready 0%",
            "ready 101%",
            "up drain",
            "shadow-ready-",
        ] {
            assert_eq!(Answer::from_words(words), None, "{words}");
        }
    }

    #[test]
    fn a_percentage_is_raised_until_the_server_gets_traffic() {
        for (base, percent, raised) in [
            (1, 1, 100),
            (2, 1, 50),
            (2, 60, 60),
            (10, 9, 10),
            (16, 1, 7),
            (50, 1, 2),
            (100, 1, 1),
            (256, 1, 1),
        ] {
            let got = Percent::new(percent).unwrap().for_base(base);
            assert_eq!(got.get(), raised, "base {base} at {percent} %");
        }
    }

    proptest! {
        #[test]
        fn no_base_is_rounded_to_nothing(base in 1u16..=256, percent in 1u64..=100) {
            let raised = Percent::new(percent).unwrap().for_base(base);
            prop_assert!(u32::from(base) * u32::from(raised.get()) / 100 >= 1);
            prop_assert!(u64::from(raised.get()) >= percent && raised.get() <= 100);
            if u64::from(raised.get()) > percent {
                prop_assert!(u32::from(base) * (u32::from(raised.get()) - 1) / 100 == 0);
            }
        }

        #[test]
        fn the_longest_line_fits(index: u64, replica in "[A-Za-z0-9._:-]{3,32}", percent in 1u64..=100) {
            let origin = Origin { index, replica: Name::parse(&replica).unwrap() };
            let line = Answer::State(State::Ready(Percent::new(percent).unwrap())).to_line(&origin);
            prop_assert!(line.len() <= ANSWER_BYTES_MAX);
            prop_assert_eq!(line.iter().position(|&b| b == b'\n'), Some(line.len() - 1));
            let allowed = |b: &u8| b.is_ascii_alphanumeric() || b" ._:/=-#%\n".contains(b);
            prop_assert!(line.iter().all(allowed));
        }
    }
}
