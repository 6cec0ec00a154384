//! When a certificate ends, read out of its DER (X.509, RFC 5280 section 4.1).
//!
//! ```text
//! Certificate    ::= SEQUENCE { tbsCertificate, ... }
//! tbsCertificate ::= SEQUENCE { [0] version, INTEGER serial, SEQUENCE algorithm, SEQUENCE issuer,
//!                               SEQUENCE { notBefore, notAfter }, ... }
//! ```
//! It is for showing alone: TLS judges certificates itself.

use jiff::Timestamp;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `[0]`, which holds the version; a certificate of version 1 has none.
const VERSION: u8 = 0xa0;

/// The moment after which a certificate does not hold any more; `None` for bytes that are no
/// certificate.
#[must_use]
pub fn not_after(der: &[u8]) -> Option<Timestamp> {
    let certificate = Elements(der).expect(SEQUENCE)?;
    let mut fields = Elements(Elements(certificate).expect(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.next()?;
    }
    fields.expect(INTEGER)?;
    fields.expect(SEQUENCE)?;
    fields.expect(SEQUENCE)?;
    let mut validity = Elements(fields.expect(SEQUENCE)?);
    validity.next()?;
    let (tag, text) = validity.next()?;
    moment(tag, std::str::from_utf8(text).ok()?)
}

/// The elements that stand one behind the other.
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The contents of the next one, if it is of this kind.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, contents) = self.next()?;
        (found == tag).then_some(contents)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    /// Its kind and its contents. A length is one byte below 128, or says how many bytes it has.
    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // A certificate is no longer than three bytes can say.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes
                    .iter()
                    .fold(0, |all, byte| all << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, contents))
    }
}

/// `YYMMDDHHMMSSZ`, of 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn moment(tag: u8, text: &str) -> Option<Timestamp> {
    let text = match tag {
        UTC_TIME => {
            let century = if text.get(..2)? < "50" { "20" } else { "19" };
            format!("{century}{text}")
        }
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let digits = text.strip_suffix('Z')?;
    if digits.len() != 14 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize, to: usize| &digits[from..to];
    let (year, month, day) = (part(0, 4), part(4, 6), part(6, 8));
    let (hour, minute, second) = (part(8, 10), part(10, 12), part(12, 14));
    let written = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    written.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
        let length = contents.len();
        let mut der = vec![tag];
        match u8::try_from(length) {
            Ok(short) if short < 0x80 => der.push(short),
            Ok(byte) => der.extend([0x81, byte]),
            Err(_) => {
                let [.., high, low] = length.to_be_bytes();
                der.extend([0x82, high, low]);
            }
        }
        der.extend(contents);
        der
    }

    fn certificate(version: bool, issuer: usize, tag: u8, not_after: &str) -> Vec<u8> {
        let validity = [
            element(UTC_TIME, b"200101000000Z"),
            element(tag, not_after.as_bytes()),
        ];
        let fields = [
            element(INTEGER, &[7; 20]),
            element(SEQUENCE, &[1; 10]),
            element(SEQUENCE, &vec![2; issuer]),
            element(SEQUENCE, &validity.concat()),
            element(SEQUENCE, &[3; 300]),
        ];
        let version = version.then(|| element(VERSION, &[2, 1, 2]));
        let fields = [version.unwrap_or_default(), fields.concat()].concat();
        element(SEQUENCE, &element(SEQUENCE, &fields))
    }

    #[test]
    fn the_end_is_read_in_both_forms_of_time_and_whatever_stands_before_it() {
        for (version, issuer, tag, text, expected) in [
            (true, 10, UTC_TIME, "261130144501Z", "2026-11-30T14:45:01Z"),
            (
                false,
                200,
                UTC_TIME,
                "491231235959Z",
                "2049-12-31T23:59:59Z",
            ),
            (true, 300, UTC_TIME, "500101000000Z", "1950-01-01T00:00:00Z"),
            (
                true,
                0,
                GENERALIZED_TIME,
                "20500101000000Z",
                "2050-01-01T00:00:00Z",
            ),
        ] {
            let der = certificate(version, issuer, tag, text);
            let end = not_after(&der).map(|end| end.to_string());
            assert_eq!(end.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_end() {
        let whole = certificate(true, 10, UTC_TIME, "261130144501Z");
        assert!(not_after(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(not_after(&whole[..length]), None, "{length}");
        }
        for (tag, text) in [
            (UTC_TIME, "261330144501Z"),
            (UTC_TIME, "261130144501"),
            (UTC_TIME, "26113014450Z"),
            (UTC_TIME, "26113014450aZ"),
            (INTEGER, "261130144501Z"),
        ] {
            assert_eq!(not_after(&certificate(true, 10, tag, text)), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = not_after(&bytes);
        }
    }
}
