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

/// Warns when others than its owner can read or write a file.
pub fn warn_of_readers(path: &Path, metadata: &fs::Metadata, what: &str) {
    if metadata.permissions().mode() & 0o077 != 0 {
        let place = path.display();
        warn!("{place}: others than its owner can read or write the {what}");
    }
}
