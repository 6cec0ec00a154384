//! A secret that is shown to be let in: that of the replicas for each other, that of who may see the
//! views.

use std::fmt;
use std::hint::black_box;

use thiserror::Error;

/// The shortest token, in bytes: a shorter one is a mistake, such as a file's first line.
pub const TOKEN_BYTES_MIN: usize = 16;
/// The longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 512;

/// A shared secret: 16 to 512 bytes of visible ASCII, as a header can carry it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why a text is no token. It never holds the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Too short or too long.
    #[error("a token of {0} bytes; {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} are allowed")]
    Length(usize),
    /// A byte that a header cannot carry.
    #[error("a token is visible ASCII without spaces; `openssl rand -hex 32` makes one")]
    Character,
}

impl Token {
    /// Reads a token; white space around it, such as a file's last line end, is no part of it.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len()) {
            return Err(TokenError::Length(text.len()));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Character);
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether this is it. How long that takes tells nothing of where they differ.
    #[must_use]
    pub fn matches(&self, other: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let pairs = own.iter().zip(other);
        let differing = pairs.fold(0, |all, (own, other)| black_box(all | (own ^ other)));
        own.len() == other.len() && differing == 0
    }

    /// The secret itself, for the header that carries it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_a_header_can_carry() {
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        for (text, expected) in [
            ("0123456789abcdef\n", Ok("0123456789abcdef")),
            ("0123456789abcde", Err(TokenError::Length(15))),
            ("", Err(TokenError::Length(0))),
            (long.as_str(), Err(TokenError::Length(513))),
            ("0123456789 abcdef", Err(TokenError::Character)),
            ("0123456789abcdéf", Err(TokenError::Character)),
        ] {
            let token = Token::parse(text);
            let read = token.as_ref().map(Token::expose);
            assert_eq!(read.map_err(|error| *error), expected, "{text:?}");
        }
    }

    #[test]
    fn only_the_whole_token_matches_and_it_is_never_printed() {
        let token = Token::parse("0123456789abcdef").unwrap();
        for (other, same) in [
            (&b"0123456789abcdef"[..], true),
            (b"0123456789abcdeF", false),
            (b"0123456789abcde", false),
            (b"0123456789abcdefg", false),
            (b"", false),
        ] {
            assert_eq!(token.matches(other), same, "{other:?}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
