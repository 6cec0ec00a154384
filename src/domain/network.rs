//! Ranges of addresses: who may ask.
//!
//! ```text
//! 10.20.0.0/16   2001:db8::/32   192.0.2.7
//! ```

use std::net::{IpAddr, Ipv6Addr};

use thiserror::Error;

/// The most ranges: each is looked at for each connection of an address that is in none before it.
pub const NETWORKS_MAX: usize = 64;

/// The addresses that are let in: those of any of these ranges, or everybody's when there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks(Vec<Network>);

/// One range. IPv4 stands in IPv6 as `::ffff:a.b.c.d`, the way a socket for both sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    first: u128,
    mask: u128,
}

/// Why a text is no range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// Not of the form.
    #[error("{0:?} is no range of addresses such as 10.20.0.0/16 or 2001:db8::/32")]
    Form(String),
    /// An address within a range, where its first one is meant.
    #[error("{text:?} begins before that address; write {meant}")]
    Within {
        /// What was written.
        text: String,
        /// The whole range around it.
        meant: String,
    },
    /// Too many.
    #[error("{0} ranges given; {NETWORKS_MAX} are allowed")]
    Number(usize),
}

impl Networks {
    /// Reads ranges, each an address with or without `/length`.
    ///
    /// # Errors
    /// See [`NetworkError`].
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, NetworkError> {
        let ranges: Result<Vec<_>, _> = texts.into_iter().map(Network::parse).collect();
        let ranges = ranges?;
        if ranges.len() > NETWORKS_MAX {
            return Err(NetworkError::Number(ranges.len()));
        }
        Ok(Self(ranges))
    }

    /// Whether this address is let in.
    #[must_use]
    pub fn admit(&self, address: IpAddr) -> bool {
        self.0.is_empty() || {
            let bits = bits(address);
            self.0.iter().any(|range| bits & range.mask == range.first)
        }
    }
}

impl Network {
    fn parse(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError::Form(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => whole,
            // "+8" and "08" are numbers to the standard library.
            Some(digits) if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) => {
                return Err(wrong());
            }
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| wrong())?
            }
            Some(_) => return Err(wrong()),
        };
        if length > whole {
            return Err(wrong());
        }
        // Of an IPv4 range the bits before the address are looked at as well.
        let mask = u128::MAX.checked_shl(whole - length).unwrap_or(0);
        let bits = bits(address);
        let range = Self {
            first: bits & mask,
            mask,
        };
        if range.first != bits {
            return Err(NetworkError::Within {
                text: text.to_owned(),
                meant: format!("{}/{length}", range.first_address(address.is_ipv4())),
            });
        }
        Ok(range)
    }

    fn first_address(&self, is_ipv4: bool) -> IpAddr {
        let address = Ipv6Addr::from_bits(self.first);
        match address.to_ipv4_mapped() {
            Some(address) if is_ipv4 => address.into(),
            Some(_) | None => address.into(),
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_let_in_by_the_range_that_it_is_in() {
        for (ranges, address, admitted) in [
            (&[][..], "203.0.113.9", true),
            (&["10.20.0.0/16"], "10.20.255.255", true),
            (&["10.20.0.0/16"], "10.21.0.0", false),
            (&["10.20.0.0/16"], "10.19.255.255", false),
            // As a socket for both families sees it.
            (&["10.20.0.0/16"], "::ffff:10.20.1.2", true),
            (&["::ffff:10.20.0.0/112"], "10.20.1.2", true),
            (&["10.20.0.0/16"], "2001:db8::1", false),
            (&["0.0.0.0/0"], "203.0.113.9", true),
            (&["0.0.0.0/0"], "2001:db8::1", false),
            (&["::/0"], "203.0.113.9", true),
            (&["192.0.2.7"], "192.0.2.7", true),
            (&["192.0.2.7"], "192.0.2.6", false),
            (&["2001:db8::/32"], "2001:db8:ffff::1", true),
            (&["2001:db8::/32"], "2001:db9::", false),
            (&["10.0.0.0/8", "2001:db8::/32"], "2001:db8::1", true),
            (&["192.0.2.128/25"], "192.0.2.127", false),
        ] {
            let networks = Networks::parse(ranges.iter().copied()).unwrap();
            let admits = networks.admit(address.parse().unwrap());
            assert_eq!(admits, admitted, "{address} in {ranges:?}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused_and_a_slip_is_named() {
        for text in [
            "",
            "10.0.0.0/",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0.0/8/8",
            "lb-1",
            "10.0.0.0/x",
            " 10.0.0.0/8",
            "10.0.0.0:80",
            "[::]/0",
        ] {
            let error = Networks::parse([text]).unwrap_err();
            assert_eq!(error, NetworkError::Form(text.to_owned()), "{text}");
        }
        for (text, meant) in [
            ("10.20.1.0/16", "10.20.0.0/16"),
            ("10.0.0.1/0", "0.0.0.0/0"),
            ("2001:db8::1/32", "2001:db8::/32"),
        ] {
            let error = Networks::parse([text]).unwrap_err().to_string();
            assert!(error.ends_with(&format!("write {meant}")), "{error}");
        }
        let many = vec!["10.0.0.0/8"; NETWORKS_MAX + 1];
        assert_eq!(
            Networks::parse(many).unwrap_err(),
            NetworkError::Number(NETWORKS_MAX + 1)
        );
    }
}
