//! The condition of `.if` and `.elif` (`cfgcond.c` of HAProxy).
//!
//! ```text
//! expression = all *( "||" all )      all = term *( "&&" term )
//! term = *"!" ( number / "(" expression ")" / predicate "(" argument *( "," argument ) ")" )
//! ```
//! What HAProxy was built with is not known here; neither is its version, unless it is given. Such
//! a question has both answers: whoever reads the file supposes one, then the other.

use std::collections::BTreeMap;

use thiserror::Error;

use super::version::Version;

/// The deepest nesting of parentheses. HAProxy takes 1,024; nobody writes ten.
pub const DEPTH_MAX: usize = 64;

/// What is supposed of questions that nobody here can answer, by their text.
pub type Suppositions = BTreeMap<String, bool>;

/// What a condition is judged by.
pub struct Facts<'a> {
    /// Whether a variable is set.
    pub is_set: &'a dyn Fn(&str) -> bool,
    /// HAProxy's version, where it is given.
    pub version: Option<Version>,
    /// What is supposed.
    pub supposed: &'a Suppositions,
}

/// Why a condition has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConditionError {
    /// HAProxy refuses it.
    #[error("{0}")]
    Syntax(String),
    /// This question has to be supposed either way.
    #[error("{0} is not known here")]
    Unknown(String),
}

/// Judges a condition: the words behind `.if`, with one blank between them.
///
/// # Errors
/// See [`ConditionError`].
pub fn holds(text: &str, facts: &Facts<'_>) -> Result<bool, ConditionError> {
    if text.is_empty() {
        return Ok(false);
    }
    let mut parser = Parser { text, depth: 0 };
    let expression = parser.expression()?;
    parser.skip_blanks();
    if let Some(character) = parser.text.chars().next() {
        return Err(ConditionError::Syntax(format!(
            "unexpected {character:?} behind the condition"
        )));
    }
    expression.holds(facts)
}

enum Expression {
    Constant(bool),
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Ask(Predicate, Vec<String>),
}

/// The predicates of HAProxy 2.6 to 3.2.
#[derive(Clone, Copy)]
enum Predicate {
    Defined,
    Equal,
    NotEqual,
    Contains,
    VersionAtLeast,
    VersionBefore,
    /// What HAProxy was built with.
    Build,
}

const PREDICATES: [(&str, Predicate, usize); 13] = [
    ("defined", Predicate::Defined, 1),
    ("streq", Predicate::Equal, 2),
    ("strneq", Predicate::NotEqual, 2),
    ("strstr", Predicate::Contains, 2),
    ("version_atleast", Predicate::VersionAtLeast, 1),
    ("version_before", Predicate::VersionBefore, 1),
    ("feature", Predicate::Build, 1),
    ("enabled", Predicate::Build, 1),
    ("openssl_version_atleast", Predicate::Build, 1),
    ("openssl_version_before", Predicate::Build, 1),
    ("ssllib_name_startswith", Predicate::Build, 1),
    ("awslc_api_atleast", Predicate::Build, 1),
    ("awslc_api_before", Predicate::Build, 1),
];

impl Expression {
    /// Asks no more than it needs to, as HAProxy does.
    fn holds(&self, facts: &Facts<'_>) -> Result<bool, ConditionError> {
        match self {
            Self::Constant(value) => Ok(*value),
            Self::Not(inner) => Ok(!inner.holds(facts)?),
            Self::All(terms) => {
                for term in terms {
                    if !term.holds(facts)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(terms) => {
                for term in terms {
                    if term.holds(facts)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Ask(predicate, arguments) => predicate.holds(arguments, facts),
        }
    }
}

impl Predicate {
    fn holds(self, arguments: &[String], facts: &Facts<'_>) -> Result<bool, ConditionError> {
        let (first, second) = (&arguments[0], arguments.get(1));
        match self {
            Self::Defined => Ok((facts.is_set)(first)),
            Self::Equal => Ok(second == Some(first)),
            Self::NotEqual => Ok(second != Some(first)),
            Self::Contains => Ok(second.is_some_and(|part| first.contains(part.as_str()))),
            Self::VersionAtLeast | Self::VersionBefore => {
                let version = first.parse().map_err(ConditionError::Syntax)?;
                let at_least = facts.version.and_then(|own| own.is_at_least(version));
                let at_least = match at_least {
                    Some(at_least) => at_least,
                    None => supposed(&format!("version_atleast({first})"), facts)?,
                };
                Ok(at_least == matches!(self, Self::VersionAtLeast))
            }
            Self::Build => supposed(&self.question(arguments), facts),
        }
    }

    /// The first argument of [`Self::Build`] is the predicate's own name.
    fn question(self, arguments: &[String]) -> String {
        match (self, arguments) {
            (Self::Build, [name, argument]) => format!("{name}({argument})"),
            (_, arguments) => arguments.join(","),
        }
    }
}

fn supposed(question: &str, facts: &Facts<'_>) -> Result<bool, ConditionError> {
    let unknown = || ConditionError::Unknown(question.to_owned());
    facts.supposed.get(question).copied().ok_or_else(unknown)
}

struct Parser<'a> {
    text: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn expression(&mut self) -> Result<Expression, ConditionError> {
        let mut any = vec![self.all()?];
        while self.takes("||") {
            any.push(self.all()?);
        }
        Ok(Expression::Any(any))
    }

    fn all(&mut self) -> Result<Expression, ConditionError> {
        let mut all = vec![self.term()?];
        while self.takes("&&") {
            all.push(self.term()?);
        }
        Ok(Expression::All(all))
    }

    fn term(&mut self) -> Result<Expression, ConditionError> {
        let mut negated = false;
        while self.takes("!") {
            negated = !negated;
        }
        self.skip_blanks();
        let term = if let Some(number) = self.number() {
            Expression::Constant(number)
        } else if self.takes("(") {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                let text = format!("parentheses deeper than {DEPTH_MAX}");
                return Err(ConditionError::Syntax(text));
            }
            let inner = self.expression()?;
            self.depth -= 1;
            if !self.takes(")") {
                return Err(self.unreadable("expected ')' before"));
            }
            inner
        } else {
            self.predicate()?
        };
        if negated {
            return Ok(Expression::Not(Box::new(term)));
        }
        Ok(term)
    }

    /// C's `strtol()` in any base; zero is false.
    fn number(&mut self) -> Option<bool> {
        let unsigned = self.text.strip_prefix(['+', '-']).unwrap_or(self.text);
        let hexadecimal = unsigned
            .strip_prefix("0x")
            .or_else(|| unsigned.strip_prefix("0X"));
        let (digits, radix) = match hexadecimal {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_hexdigit()) => (rest, 16),
            Some(_) | None if unsigned.starts_with('0') => (unsigned, 8),
            Some(_) | None => (unsigned, 10),
        };
        let end = digits
            .find(|c: char| !c.is_digit(radix))
            .unwrap_or(digits.len());
        let (number, rest) = digits.split_at(end);
        if number.is_empty() {
            return None;
        }
        self.text = rest;
        Some(number.bytes().any(|byte| byte != b'0'))
    }

    fn predicate(&mut self) -> Result<Expression, ConditionError> {
        let end = self.text.find([' ', '(']).unwrap_or(self.text.len());
        let (name, rest) = self.text.split_at(end);
        let known = PREDICATES.iter().find(|(known, ..)| *known == name);
        let Some((name, predicate, count)) = known else {
            return Err(self.unreadable("no condition begins with"));
        };
        let Some(rest) = rest.strip_prefix('(') else {
            return Err(self.unreadable("arguments in parentheses are missing in"));
        };
        let (mut arguments, rest) = arguments(rest).ok_or_else(|| {
            ConditionError::Syntax(format!("a parenthesis or quote of {name} is not closed"))
        })?;
        if arguments.len() != *count {
            return Err(ConditionError::Syntax(format!(
                "{name} takes {count} arguments, not {}",
                arguments.len()
            )));
        }
        if matches!(predicate, Predicate::Build) {
            arguments.insert(0, (*name).to_owned());
        }
        self.text = rest;
        Ok(Expression::Ask(*predicate, arguments))
    }

    fn takes(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let rest = self.text.strip_prefix(word);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    fn skip_blanks(&mut self) {
        self.text = self.text.trim_start_matches([' ', '\t']);
    }

    fn unreadable(&self, what: &str) -> ConditionError {
        let shown: String = self.text.chars().take(40).collect();
        ConditionError::Syntax(format!("{what} {shown:?}"))
    }
}

/// The arguments up to the closing parenthesis, and what follows it. Quotes and escapes count once
/// more within them.
fn arguments(text: &str) -> Option<(Vec<String>, &str)> {
    let mut arguments = vec![String::new()];
    let mut quote = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let argument = arguments.last_mut()?;
        match (character, quote) {
            ('"' | '\'', None) => quote = Some(character),
            (_, Some(open)) if open == character => quote = None,
            ('\\', None | Some('"')) => {
                let escaped = characters.next_if(|(_, next)| r#"\ "'rnt"#.contains(*next));
                argument.push(match escaped {
                    Some((_, 'r')) => '\r',
                    Some((_, 'n')) => '\n',
                    Some((_, 't')) => '\t',
                    Some((_, plain)) => plain,
                    None => '\\',
                });
            }
            (',', None) => arguments.push(String::new()),
            (')', None) => return Some((arguments, &text[at + 1..])),
            (plain, _) => argument.push(plain),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judge(
        text: &str,
        version: Option<&str>,
        supposed: &[(&str, bool)],
    ) -> Result<bool, ConditionError> {
        let supposed = supposed
            .iter()
            .map(|(text, value)| ((*text).to_owned(), *value));
        let facts = Facts {
            is_set: &|name| name == "ZONE",
            version: version.map(|version| version.parse().unwrap()),
            supposed: &supposed.collect(),
        };
        holds(text, &facts)
    }

    #[test]
    fn what_can_be_known_is_judged() {
        for (text, expected) in [
            ("", false),
            ("0", false),
            ("1", true),
            ("-0x0", false),
            ("010 && 0x1", true),
            ("defined(ZONE)", true),
            ("!defined(ZONE)", false),
            ("! ! defined(ZONE)", true),
            ("defined(GONE) || streq(a,a)", true),
            ("streq(a,a) && strneq(a,a)", false),
            ("streq('a,b',\"a,b\")", true),
            (r"streq(a\ b,'a b')", true),
            ("streq(,)", true),
            ("strstr(us-east1-b,east)", true),
            ("1 || 0 && 0", true),
            ("(1 || 0) && 0", false),
            ("!(1&&0)", true),
            ("version_atleast(2.6)", true),
            ("version_before(2.8)", true),
            ("1 || feature(OPENSSL)", true),
            ("0 && feature(OPENSSL)", false),
        ] {
            assert_eq!(judge(text, Some("2.6"), &[]), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_known_is_supposed_either_way() {
        let unknown = |text: &str| Err(ConditionError::Unknown(text.to_owned()));
        assert_eq!(
            judge("feature(OPENSSL)", None, &[]),
            unknown("feature(OPENSSL)")
        );
        assert_eq!(
            judge("!feature(X)", None, &[("feature(X)", true)]),
            Ok(false)
        );
        assert_eq!(
            judge("version_before(2.8)", None, &[]),
            unknown("version_atleast(2.8)")
        );
        assert_eq!(
            judge(
                "version_before(2.6.9)",
                Some("2.6"),
                &[("version_atleast(2.6.9)", true)]
            ),
            Ok(false)
        );
    }

    #[test]
    fn what_haproxy_refuses_is_refused() {
        for text in [
            "foo",
            "foo(1)",
            "defined",
            "defined(A",
            "defined(A,B)",
            "streq(a)",
            "1 1",
            "(1",
            "1)",
            "&& 1",
            "1 &&",
            "!",
            "version_atleast(x)",
            "08",
        ] {
            let judged = judge(text, Some("2.6"), &[]);
            assert!(
                matches!(judged, Err(ConditionError::Syntax(_))),
                "{text}: {judged:?}"
            );
        }
        let deep = "(".repeat(100_000);
        assert!(matches!(
            judge(&deep, None, &[]),
            Err(ConditionError::Syntax(_))
        ));
    }

    proptest! {
        #[test]
        fn any_text_is_judged_or_refused(text in "[a-z0-9()!&|,'\"\\\\ .]{0,60}|.{0,60}") {
            let _ = judge(&text, None, &[]);
        }
    }
}
