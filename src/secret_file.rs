//! Secrets that stand in files.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use tracing::warn;

use crate::domain::token::Token;

/// The longest secret of one line that a file may hold, in bytes: a token, or a receiver's URL.
const LINE_BYTES_MAX: usize = 8_192;

/// Reads a token. That others than the file's owner can read it is a warning.
///
/// # Errors
/// When the file cannot be read, or holds no token. What it holds is never part of the text.
pub fn token(path: &Path) -> anyhow::Result<Token> {
    let (text, metadata) = read(path)?;
    warn_of_readers(path, &metadata, "token");
    Token::parse(&text).with_context(|| path.display().to_string())
}

/// Reads a secret of one line, without the white space around it.
///
/// # Errors
/// When the file cannot be read, is empty, or longer than any secret. What it holds is never part
/// of the text.
pub fn line(path: &Path) -> anyhow::Result<String> {
    Ok(read(path)?.0)
}

/// The line, and whose file it is. What is no plain file may hang: it is not opened.
fn read(path: &Path) -> anyhow::Result<(String, fs::Metadata)> {
    let place = || path.display().to_string();
    let metadata = fs::metadata(path).with_context(place)?;
    anyhow::ensure!(metadata.is_file(), "{}: no regular file", place());
    let mut text = String::new();
    let file = File::open(path).with_context(place)?;
    let limit = LINE_BYTES_MAX as u64 + 1;
    file.take(limit)
        .read_to_string(&mut text)
        .with_context(place)?;
    anyhow::ensure!(
        text.len() <= LINE_BYTES_MAX,
        "{}: more than {LINE_BYTES_MAX} bytes",
        place()
    );
    let text = text.trim();
    anyhow::ensure!(!text.is_empty(), "{}: empty", place());
    Ok((text.to_owned(), metadata))
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
    fn a_line_is_bounded_and_of_a_plain_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            line(&path).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(read(" the secret\n").as_deref(), Ok("the secret"));
        let longest = "x".repeat(LINE_BYTES_MAX);
        assert_eq!(read(&longest).as_deref(), Ok(longest.as_str()));
        let place = path.display();
        let more = format!("{place}: more than 8192 bytes");
        assert_eq!(read(&(longest + "x")), Err(more));
        assert_eq!(read(" \n"), Err(format!("{place}: empty")));
        let error = line(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with(": no regular file"), "{error}");
        let error = line(&path.with_extension("gone")).unwrap_err();
        assert!(format!("{error:#}").contains("No such file"), "{error:#}");
    }

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
