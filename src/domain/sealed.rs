//! Text that shows by itself whether it is whole.
//!
//! ```text
//! <head> <length of the body in bytes> <FNV-1a of the body, 16 hex digits>\n
//! <body>
//! ```
//! A torn file is known as such, whatever is left of it.

use thiserror::Error;

use super::hash::fnv1a;

/// Why bytes are not what was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SealError {
    /// Another program's, or another version's.
    #[error("it does not begin with {0:?}: of another program or version")]
    Foreign(&'static str),
    /// Cut short, or changed.
    #[error("it is torn: its length or its checksum is wrong")]
    Torn,
}

/// Puts a head before a body. The head names program, kind and version.
#[must_use]
pub fn seal(head: &str, mut body: String) -> Vec<u8> {
    let (length, sum) = (body.len(), fnv1a(body.bytes()));
    // In its place: a body may be tens of megabytes.
    body.insert_str(0, &format!("{head} {length} {sum:016x}\n"));
    body.into_bytes()
}

/// The body behind this head, if it is whole.
///
/// # Errors
/// See [`SealError`].
pub fn open<'a>(head: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], SealError> {
    let rest = bytes
        .strip_prefix(head.as_bytes())
        .ok_or(SealError::Foreign(head))?;
    let line = rest.iter().position(|&b| b == b'\n');
    let line = line.ok_or(SealError::Torn)?;
    let (numbers, body) = (&rest[..line], &rest[line + 1..]);
    let expected = format!(" {} {:016x}", body.len(), fnv1a(body.iter().copied()));
    if numbers == expected.as_bytes() {
        Ok(body)
    } else {
        Err(SealError::Torn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "tidegate-test 1";

    #[test]
    fn what_is_cut_short_changed_or_foreign_is_refused() {
        let bytes = seal(HEAD, "some text\n".to_owned());
        assert_eq!(open(HEAD, b""), Err(SealError::Foreign(HEAD)));
        assert_eq!(
            open("tidegate-test 2", &bytes),
            Err(SealError::Foreign("tidegate-test 2"))
        );
        for length in HEAD.len()..bytes.len() {
            assert_eq!(
                open(HEAD, &bytes[..length]),
                Err(SealError::Torn),
                "{length}"
            );
        }
        let mut changed = bytes;
        let last = changed.len() - 3;
        changed[last] ^= 1;
        assert_eq!(open(HEAD, &changed), Err(SealError::Torn));
    }

    proptest! {
        #[test]
        fn what_was_sealed_opens(body in ".{0,50}") {
            let bytes = seal(HEAD, body.clone());
            prop_assert_eq!(open(HEAD, &bytes), Ok(body.as_bytes()));
        }
    }
}
