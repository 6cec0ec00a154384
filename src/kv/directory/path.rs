//! Which files are keys, and which keys a folder can hold.

use std::path::{Path, PathBuf};

use crate::kv::{KvError, request};

/// The folder below the root that holds what this program needs beside the keys.
pub(super) const OWN: &str = ".tidegate";
/// The link that the kubelet swaps when a `ConfigMap` or Secret volume changes.
pub(super) const SWAP_LINK: &str = "..data";
/// The longest file name that Linux takes, in bytes.
pub(super) const SEGMENT_BYTES_MAX: usize = 255;
/// The most segments of a key. The deepest that is written has seven
/// (`frontend/gprd/nodes/<node>/server-overrides/<backend>/<server>`), plus those of a long root.
pub(super) const SEGMENTS_MAX: usize = 16;

/// Part of the keys: what one read is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope<'a> {
    /// Every key that begins with this text, which ends in a slash.
    Below(&'a str),
    /// This key alone.
    Key(&'a str),
}

/// Whether a file or folder of this name counts.
///
/// Not: names that begin with `.` (our own folder, `..data` and its targets, editors' swap files)
/// or `#`, or end in `~` (editors' copies). No name of the domain holds `#` or `~`.
pub(super) fn counts(name: &[u8]) -> bool {
    !matches!(name.first(), None | Some(b'.' | b'#')) && name.last() != Some(&b'~')
}

/// Refuses a key that no file can stand for.
pub(super) fn check_key(key: &str) -> Result<(), KvError> {
    request::check_key(key)?;
    let refuse = |why: String| Err(KvError::BadRequest(format!("the key {key:?} {why}")));
    if key.split('/').count() > SEGMENTS_MAX {
        return refuse(format!("has more than {SEGMENTS_MAX} segments"));
    }
    for segment in key.split('/') {
        if segment.len() > SEGMENT_BYTES_MAX {
            return refuse(format!("has a segment over {SEGMENT_BYTES_MAX} bytes"));
        }
        if !counts(segment.as_bytes()) {
            return refuse(format!(
                "cannot be a file: the segment {segment:?} is empty, begins with \".\" or \"#\", \
                 or ends in \"~\""
            ));
        }
    }
    Ok(())
}

/// The file of a key that [`check_key`] let pass.
pub(super) fn file_of(root: &Path, key: &str) -> PathBuf {
    let mut path = root.to_path_buf();
    path.extend(key.split('/'));
    path
}

/// The keys that would be folders on the way to this key, shortest first.
pub(super) fn parents(key: &str) -> impl Iterator<Item = &str> {
    key.match_indices('/').map(|(slash, _)| &key[..slash])
}

impl Scope<'_> {
    /// Whether a key is part of it.
    pub(super) fn holds(self, key: &str) -> bool {
        match self {
            Self::Below(prefix) => key.starts_with(prefix),
            Self::Key(one) => key == one,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editors_copies_and_dotted_names_are_no_keys() {
        for (name, expected) in [
            ("canary-state", true),
            ("a.b", true),
            ("4913", true),
            ("_meta", true),
            (".canary-state.swp", false),
            ("..data", false),
            (".tidegate", false),
            ("canary-state~", false),
            ("#canary-state#", false),
            ("", false),
        ] {
            assert_eq!(counts(name.as_bytes()), expected, "{name:?}");
        }
    }

    #[test]
    fn a_key_that_leaves_the_folder_is_refused() {
        let deep = vec!["a"; SEGMENTS_MAX + 1].join("/");
        let long = "x".repeat(SEGMENT_BYTES_MAX + 1);
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "a/../b",
            "a//b",
            "a/",
            "a/./b",
            ".tidegate/lock",
            "a\0b",
            &deep,
            &long,
        ] {
            assert!(
                matches!(check_key(bad), Err(KvError::BadRequest(_))),
                "{bad:?}"
            );
        }
        assert_eq!(
            check_key("frontend/gprd/server-overrides/web/gke:1"),
            Ok(())
        );
    }

    #[test]
    fn the_parents_of_a_key_are_its_folders() {
        assert_eq!(parents("a/b/c").collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(parents("a").count(), 0);
    }
}
