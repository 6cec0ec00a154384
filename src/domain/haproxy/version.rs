//! A version of HAProxy.

use std::fmt;
use std::str::FromStr;

/// `2.6` or `2.6.12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The branch, such as `(2, 6)`.
    pub branch: (u16, u16),
    /// The release of the branch, where it is said.
    pub release: Option<u16>,
}

impl Version {
    /// Whether it is this version or a later one; `None` when its release would have to be known.
    #[must_use]
    pub fn is_at_least(self, other: Self) -> Option<bool> {
        if self.branch != other.branch {
            return Some(self.branch > other.branch);
        }
        match (self.release, other.release.unwrap_or(0)) {
            (_, 0) => Some(true),
            (Some(own), least) => Some(own >= least),
            (None, _) => None,
        }
    }

    /// Whether a variable that is not set joins words: `words::Variables::joins_unset`.
    #[must_use]
    pub fn joins_unset(self) -> bool {
        let first = match self.branch {
            (2, 4) => 25,
            (2, 6) => 16,
            (2, 8) => 5,
            branch => return branch >= (2, 9),
        };
        self.release.is_some_and(|release| release >= first)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no version; write 2.6 or 2.6.12");
        // 2.6.12-1+deb12u3 is 2.6.12, and 2.9-dev1 is of branch 2.9.
        let plain = text.split(['-', '+', '~']).next().unwrap_or_default();
        let mut parts = plain.split('.').map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u16>()
                .ok()
                .filter(|_| digits)
                .ok_or_else(wrong)
        });
        let mut next = || parts.next().transpose();
        let branch = (next()?.ok_or_else(wrong)?, next()?.ok_or_else(wrong)?);
        let release = next()?;
        match next()? {
            Some(_) => Err(wrong()),
            None => Ok(Self { branch, release }),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.branch.0, self.branch.1)?;
        match self.release {
            Some(release) => write!(f, ".{release}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_branch_and_perhaps_a_release() {
        let version = |text: &str| text.parse::<Version>();
        for (text, shown) in [
            ("2.6", "2.6"),
            ("2.6.12-1+deb12u3", "2.6.12"),
            ("3.2-dev1", "3.2"),
        ] {
            assert_eq!(version(text).map(|v| v.to_string()), Ok(shown.to_owned()));
        }
        for text in ["", "2", "2.x", "2.6.1.1", "2.+6", "a", "2..6", "99999.1"] {
            assert!(version(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_branch_alone_does_not_say_its_release() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        for (own, other, expected) in [
            ("2.6", "2.4", Some(true)),
            ("2.6", "2.6", Some(true)),
            ("2.6", "2.8.3", Some(false)),
            ("2.6", "2.6.12", None),
            ("2.6.11", "2.6.12", Some(false)),
            ("2.6.12", "2.6.12", Some(true)),
        ] {
            assert_eq!(
                version(own).is_at_least(version(other)),
                expected,
                "{own} {other}"
            );
        }
    }
}
