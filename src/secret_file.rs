//! Secrets that stand in files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use tracing::warn;

use crate::domain::token::Token;

/// A larger file is no token's.
const TOKEN_FILE_BYTES_MAX: u64 = 4_096;

/// Reads a token. That others than the file's owner can read it is a warning.
///
/// # Errors
/// When the file cannot be read, or holds no token. What it holds is never part of the text.
pub fn token(path: &Path) -> anyhow::Result<Token> {
    let place = || path.display().to_string();
    let metadata = fs::metadata(path).with_context(place)?;
    anyhow::ensure!(metadata.is_file(), "{}: no regular file", place());
    let size = metadata.len();
    anyhow::ensure!(size <= TOKEN_FILE_BYTES_MAX, "{}: {size} bytes", place());
    let text = fs::read_to_string(path).with_context(place)?;
    warn_of_readers(path, &metadata, "token");
    Token::parse(&text).with_context(place)
}

/// Warns when a file is open to more than its owner, and readers of its group.
pub fn warn_of_readers(path: &Path, metadata: &fs::Metadata, what: &str) {
    if is_open_to_others(metadata.permissions().mode()) {
        let place = path.display();
        warn!(
            "{place}: others than its owner and group can read the {what}, or others than its \
             owner write it"
        );
    }
}

/// Whether a file of this mode holds no secret. Its group may read it: that is how a service gets
/// one that it does not own (`fsGroup` of Kubernetes).
const fn is_open_to_others(mode: u32) -> bool {
    mode & 0o027 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_for_its_owner_and_may_be_read_by_its_group() {
        for (mode, open) in [
            (0o100_400, false),
            (0o100_600, false),
            (0o100_440, false),
            (0o100_640, false),
            (0o100_444, true),
            (0o100_660, true),
            (0o100_602, true),
        ] {
            assert_eq!(is_open_to_others(mode), open, "{mode:o}");
        }
    }
}
