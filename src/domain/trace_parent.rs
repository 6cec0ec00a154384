//! W3C trace context: which span asked for something, told from one process to another.
//!
//! ```text
//! traceparent = version "-" trace-id "-" parent-id "-" flags      (lower-case hex: 2, 32, 16, 2)
//! ```

use std::fmt;

/// A span of another process, as its `traceparent` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceParent {
    /// The trace; never all zero.
    pub trace: [u8; 16],
    /// The span; never all zero.
    pub span: [u8; 8],
    /// Whether its spans are kept.
    pub sampled: bool,
}

/// The one version that there is.
const VERSION: &str = "00";
/// A version that may never be.
const VERSION_INVALID: &str = "ff";
/// The flag that says that the spans are kept.
const SAMPLED: u8 = 1;

impl TraceParent {
    /// Reads a `traceparent`. A later version may have further parts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = parts.next()?;
        let [_] = bytes(version)?;
        let trace = bytes(parts.next()?)?;
        let span = bytes(parts.next()?)?;
        let [flags] = bytes(parts.next()?)?;
        let whole = version != VERSION || parts.next().is_none();
        let valid = version != VERSION_INVALID && trace != [0; 16] && span != [0; 8];
        (whole && valid).then_some(Self {
            trace,
            span,
            sampled: flags & SAMPLED != 0,
        })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace = u128::from_be_bytes(self.trace);
        let span = u64::from_be_bytes(self.span);
        let flags = u8::from(self.sampled);
        write!(f, "{VERSION}-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

/// So many bytes in lower-case hex.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn only_the_standards_form_is_read() {
        let zeros = "0".repeat(32);
        for (text, sampled) in [
            (format!("00-{TRACE}-{SPAN}-01"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-00"), Some(false)),
            (format!("00-{TRACE}-{SPAN}-03"), Some(true)),
            (format!("cc-{TRACE}-{SPAN}-01-what-may-come"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-01-more"), None),
            (format!("ff-{TRACE}-{SPAN}-01"), None),
            (format!("00-{zeros}-{SPAN}-01"), None),
            (format!("00-{TRACE}-{}-01", &zeros[..16]), None),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None),
            (format!("00-{TRACE}-{SPAN}"), None),
            (format!("00-{TRACE}-{SPAN}-+1"), None),
            (String::new(), None),
        ] {
            let read = TraceParent::parse(&text).map(|parent| parent.sampled);
            assert_eq!(read, sampled, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_written_one_reads_back(trace in 1..=u128::MAX, span in 1..=u64::MAX, sampled: bool) {
            let (trace, span) = (trace.to_be_bytes(), span.to_be_bytes());
            let parent = TraceParent { trace, span, sampled };
            prop_assert_eq!(TraceParent::parse(&parent.to_string()), Some(parent));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}") {
            let _ = TraceParent::parse(&text);
        }
    }
}
