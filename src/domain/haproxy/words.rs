//! One line of a configuration, split into words as HAProxy does (`parse_line()` of its `tools.c`;
//! compared with real processes in `tests/it/lint/agrees.rs`).
//!
//! ```text
//! "..."   blanks and # are plain; \ and $ work     '...'   everything is plain
//! \\ \' \" \# \  and blank  the character itself     \n \r \t  \xHH  outside of '...'
//! $NAME ${NAME} ${NAME-default} ${NAME[*]}         inside "..." only
//! # outside of quotes, even within a word: the rest is a comment
//! ```
//! A default ends at the first `}`: there is no default within a default.

use std::ops::Range;

use thiserror::Error;

/// The most words of a line: HAProxy's `MAX_LINE_ARGS`.
pub const WORDS_MAX: usize = 64;
/// The longest line, in bytes, as it stands and with its variables put in. HAProxy has no limit;
/// its own buffers take 16 KiB of a string.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// A line in words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// The words; one may be empty (`""`).
    pub words: Vec<Word>,
    /// Where the comment begins, at its `#`, in bytes of the line.
    pub comment: Option<usize>,
    /// The variables, in their order.
    pub variables: Vec<Variable>,
}

/// One word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Without quotes and escapes, and with its variables put in. A zero byte ends it, and what is
    /// no UTF-8 is replaced.
    pub text: String,
    /// Where it stands, in bytes of the line. A word that comes out of `[*]` stands where that does.
    pub span: Range<usize>,
}

/// What the variables of a line stand for.
pub struct Variables<'a> {
    /// A variable's value; `None`: it is not set.
    pub value: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a variable that is not set, just before the closing quote, joins its word with the
    /// next one: `"a$GONE" b` is `ab`. So it is since 2.4.25, 2.6.16, 2.8.5 and 2.9 (measured on
    /// 2.8.25); before that nothing is put in.
    pub joins_unset: bool,
}

/// A variable that a word names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What stands for it where it is not set.
    pub default: Option<String>,
    /// Whether it is set.
    pub is_set: bool,
    /// The index of the word that it begins in.
    pub word: usize,
    /// Whether it is not set, has no default, and stands just before the closing quote of a word
    /// that is not the last.
    pub is_unset_at_end: bool,
}

/// Why HAProxy refuses a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WordError {
    /// A quote that is not closed.
    #[error("a quote is not closed")]
    Quote,
    /// A `${` without `}`.
    #[error("a brace of a variable is not closed")]
    Brace,
    /// A `$` without a name behind it.
    #[error("a variable's name begins with a letter or _ (write \\$ for a plain dollar sign)")]
    VariableName,
    /// `\x` without two digits.
    #[error("\\x takes two hexadecimal digits")]
    Hexadecimal,
    /// A `[` behind a name that is not `[*]`.
    #[error("behind a variable's name only [*] is known")]
    Expansion,
    /// More than [`WORDS_MAX`].
    #[error("more than {WORDS_MAX} words")]
    TooMany,
    /// More than [`LINE_BYTES_MAX`].
    #[error("a line of more than {LINE_BYTES_MAX} bytes")]
    TooLong,
}

/// Splits a line without its line end.
///
/// # Errors
/// What is wrong with it, and where, in bytes of the line.
pub fn split(line: &[u8], variables: &Variables<'_>) -> Result<Split, (usize, WordError)> {
    if line.len() > LINE_BYTES_MAX {
        return Err((LINE_BYTES_MAX, WordError::TooLong));
    }
    let begin = line.iter().take_while(|&&byte| is_space(byte)).count();
    let mut splitter = Splitter {
        line,
        at: begin,
        variables,
        quote: None,
        text: Vec::new(),
        begin,
        taken: 0,
        split: Split::default(),
    };
    splitter.run()?;
    Ok(splitter.split)
}

struct Splitter<'a> {
    line: &'a [u8],
    at: usize,
    variables: &'a Variables<'a>,
    /// Where the open quote stands, and which it is.
    quote: Option<(usize, u8)>,
    /// The word under way.
    text: Vec<u8>,
    /// Where it began.
    begin: usize,
    /// The bytes of all words.
    taken: usize,
    split: Split,
}

impl Splitter<'_> {
    fn run(&mut self) -> Result<(), (usize, WordError)> {
        while let Some(byte) = self.peek(0) {
            match (byte, self.quote) {
                (b'\0' | b'\n' | b'\r', _) => break,
                (b'#', None) => {
                    self.split.comment = Some(self.at);
                    break;
                }
                (b'"' | b'\'', None) => {
                    self.quote = Some((self.at, byte));
                    self.at += 1;
                }
                (b'"' | b'\'', Some((_, open))) if open == byte => {
                    self.quote = None;
                    self.at += 1;
                }
                (b'\\', None | Some((_, b'"'))) => self.escape()?,
                (b'$', Some((_, b'"'))) => self.variable()?,
                (byte, None) if is_space(byte) => {
                    let end = self.at;
                    self.skip_spaces();
                    self.end_word(end, self.at)?;
                }
                (byte, _) => {
                    self.at += 1;
                    self.emit(byte)?;
                }
            }
        }
        if let Some((at, _)) = self.quote {
            return Err((at, WordError::Quote));
        }
        // An empty last word is as if it were not there.
        if !self.text.is_empty() {
            self.end_word(self.at, self.at)?;
        }
        Ok(())
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.line.get(self.at + ahead).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek(0).is_some_and(is_space) {
            self.at += 1;
        }
    }

    fn emit(&mut self, byte: u8) -> Result<(), (usize, WordError)> {
        self.taken += 1;
        if self.taken > LINE_BYTES_MAX {
            return Err((self.at, WordError::TooLong));
        }
        self.text.push(byte);
        Ok(())
    }

    /// The word ends at `end`, and the next begins at `next`.
    fn end_word(&mut self, end: usize, next: usize) -> Result<(), (usize, WordError)> {
        if self.split.words.len() == WORDS_MAX {
            return Err((self.begin, WordError::TooMany));
        }
        let text = self.text.split(|&byte| byte == 0).next();
        self.split.words.push(Word {
            text: String::from_utf8_lossy(text.unwrap_or_default()).into_owned(),
            span: self.begin..end,
        });
        self.text.clear();
        self.begin = next;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), (usize, WordError)> {
        let (byte, length) = match self.peek(1) {
            Some(plain @ (b' ' | b'\\' | b'#' | b'\'' | b'"')) => (plain, 2),
            Some(b'$') if self.quote.is_some() => (b'$', 2),
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b'x') => {
                let digit = |ahead| self.peek(ahead).and_then(|b| char::from(b).to_digit(16));
                let (Some(high), Some(low)) = (digit(2), digit(3)) else {
                    return Err((self.at, WordError::Hexadecimal));
                };
                let byte = u8::try_from(high * 16 + low).expect("two digits are one byte");
                (byte, 4)
            }
            Some(_) | None => (b'\\', 1),
        };
        self.at += length;
        self.emit(byte)
    }

    fn variable(&mut self) -> Result<(), (usize, WordError)> {
        let begin = self.at;
        self.at += 1;
        let braced = self.peek(0) == Some(b'{');
        self.at += usize::from(braced);
        let name = self.name()?;
        let mut expands = false;
        if braced && self.peek(0) == Some(b'[') {
            if self.line.get(self.at..self.at + 3) != Some(b"[*]") {
                return Err((self.at, WordError::Expansion));
            }
            expands = true;
            self.at += 3;
        }
        let default = if braced { self.rest(begin)? } else { None };
        let value = (self.variables.value)(&name);
        let is_given = value.is_some() || default.is_some() || name.starts_with('.');
        let is_unset_at_end = !is_given && self.ends_before_another_word();
        self.split.variables.push(Variable {
            name,
            default: default.clone(),
            is_set: value.is_some(),
            word: self.split.words.len(),
            is_unset_at_end,
        });
        if is_unset_at_end && self.variables.joins_unset {
            self.quote = None;
            self.at += 1;
            self.skip_spaces();
            return Ok(());
        }
        let value = value.or(default).unwrap_or_default();
        let mut bytes = value.bytes().peekable();
        while let Some(byte) = bytes.next() {
            if expands && is_space(byte) {
                while bytes.next_if(|&byte| is_space(byte)).is_some() {}
                self.end_word(self.at, begin)?;
            } else {
                self.emit(byte)?;
            }
        }
        Ok(())
    }

    /// Whether a closing quote, blanks and another word follow.
    fn ends_before_another_word(&self) -> bool {
        let Some((b'"', rest)) = self.line[self.at..].split_first() else {
            return false;
        };
        let next = rest.iter().position(|&byte| !is_space(byte));
        next.is_some_and(|at| at > 0 && !matches!(rest[at], b'#' | 0))
    }

    /// A name, or the name of one of HAProxy's own variables with the dot before it.
    fn name(&mut self) -> Result<String, (usize, WordError)> {
        let begin = self.at;
        match self.peek(0) {
            Some(byte) if byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.') => self.at += 1,
            Some(_) | None => return Err((begin, WordError::VariableName)),
        }
        let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        while self.peek(0).is_some_and(is_inside) {
            self.at += 1;
        }
        let name = String::from_utf8_lossy(&self.line[begin..self.at]).into_owned();
        if name.starts_with('.') && ![".LINE", ".FILE", ".SECTION"].contains(&name.as_str()) {
            return Err((begin, WordError::VariableName));
        }
        Ok(name)
    }

    /// What stands between a name and its brace: a default, or nothing.
    fn rest(&mut self, open: usize) -> Result<Option<String>, (usize, WordError)> {
        let has_default = self.peek(0) == Some(b'-');
        let rest = &self.line[self.at..];
        let length = rest.iter().position(|&byte| byte == b'}' || byte == 0);
        let closed = length.filter(|&length| rest[length] == b'}' && (has_default || length == 0));
        let Some(length) = closed else {
            return Err((open, WordError::Brace));
        };
        self.at += length + 1;
        let default = || String::from_utf8_lossy(&rest[1..length]).into_owned();
        Ok(has_default.then(default))
    }
}

/// C's `isspace()`.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(name: &str) -> Option<String> {
        match name {
            "ZONE" => Some("us-east1-b".to_owned()),
            "LIST" => Some(" a  b ".to_owned()),
            "NONE" => Some(String::new()),
            ".LINE" => Some("7".to_owned()),
            _ => None,
        }
    }

    const VARIABLES: Variables<'_> = Variables {
        value: &value,
        joins_unset: false,
    };

    fn check(line: &str, words: &[&str]) {
        let got = split(line.as_bytes(), &VARIABLES).map(|split| {
            let words = split.words.into_iter().map(|word| word.text);
            words.collect::<Vec<_>>()
        });
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(got, Ok(words), "{line}");
    }

    #[test]
    fn quotes_and_escapes_are_taken_off() {
        check("  server a\t1.2.3.4 ", &["server", "a", "1.2.3.4"]);
        check(r#"a "b c" 'd e' f" "g"#, &["a", "b c", "d e", "f g"]);
        check(r#"a "it's" 'a "b"'"#, &["a", "it's", "a \"b\""]);
        check(
            r#"a "x\n" x\n 'x\n' x\\n"#,
            &["a", "x\n", "x\n", "x\\n", "x\\n"],
        );
        check(r"a\ b \# \' \z \x41", &["a b", "#", "'", "\\z", "A"]);
        check(r#"a "" b """#, &["a", "", "b"]);
        check(r#"a "b\x00c""#, &["a", "b"]);
        check("a b#c d", &["a", "b"]);
        check("a \"b#c\" # d", &["a", "b#c"]);
        check("a b\r", &["a", "b"]);
        check("", &[]);
        check("# tidegate", &[]);
    }

    #[test]
    fn variables_are_put_in_inside_of_double_quotes_only() {
        check(
            r#"a "$ZONE" '$ZONE' $ZONE"#,
            &["a", "us-east1-b", "$ZONE", "$ZONE"],
        );
        check(r#""${ZONE}x" "\$ZONE""#, &["us-east1-bx", "$ZONE"]);
        check(r#""${GONE}" b "$GONE-x""#, &["", "b", "-x"]);
        check(r#""${GONE-a b}" "${ZONE-a}""#, &["a b", "us-east1-b"]);
        check(r#""${NONE-a}" b"#, &["", "b"]);
        check(r#""${GONE-${ZONE}}""#, &["${ZONE}"]);
        check(
            r#""x${LIST[*]}y" "${ONE[*]-p q}""#,
            &["x", "a", "b", "y", "p", "q"],
        );
        check(r#""${.LINE}""#, &["7"]);
    }

    #[test]
    fn a_variable_that_is_not_set_joins_words_in_later_releases() {
        let variables = Variables {
            value: &value,
            joins_unset: true,
        };
        for (line, words) in [
            (r#"a "$GONE" b"#, &["a", "b"][..]),
            (r#""a${GONE}"  b"#, &["ab"]),
            (r#""a${GONE-}" b"#, &["a", "b"]),
            (r#""a$NONE" b"#, &["a", "b"]),
            (r#""a $GONE b" c"#, &["a  b", "c"]),
            (r#""a$GONE""#, &["a"]),
        ] {
            let split = split(line.as_bytes(), &variables).unwrap();
            let got: Vec<_> = split.words.iter().map(|word| &word.text).collect();
            assert_eq!(got, words, "{line}");
        }
    }

    #[test]
    fn a_line_that_haproxy_refuses_is_refused_at_its_place() {
        for (line, at, error) in [
            ("a 'b", 2, WordError::Quote),
            ("a \"b'", 2, WordError::Quote),
            ("\"${A\"", 1, WordError::Brace),
            ("\"${A x}\"", 1, WordError::Brace),
            ("\"$1\"", 2, WordError::VariableName),
            ("\"$\"", 2, WordError::VariableName),
            ("\"${.NO}\"", 3, WordError::VariableName),
            ("\"${A[1]}\"", 4, WordError::Expansion),
            (r"\x4", 0, WordError::Hexadecimal),
        ] {
            assert_eq!(
                split(line.as_bytes(), &VARIABLES),
                Err((at, error)),
                "{line}"
            );
        }
        let most = "x ".repeat(WORDS_MAX);
        assert_eq!(
            split(most.as_bytes(), &VARIABLES).map(|s| s.words.len()),
            Ok(WORDS_MAX)
        );
        let error = split((most + "x").as_bytes(), &VARIABLES).unwrap_err();
        assert_eq!(error.1, WordError::TooMany);
    }

    proptest! {
        #[test]
        fn any_bytes_are_split_or_refused(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            match split(&line, &VARIABLES) {
                Ok(split) => {
                    for word in &split.words {
                        prop_assert!(word.span.start <= word.span.end && word.span.end <= line.len());
                    }
                }
                Err((at, _)) => prop_assert!(at <= line.len()),
            }
        }
    }
}
