//! Texts that the program makes and the repository keeps.

use std::fs;
use std::path::Path;

/// Expects the file of the repository to hold this text. With `TIDEGATE_WRITE_DOCS=1` it is
/// written anew.
#[track_caller]
pub(crate) fn expect_kept(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("TIDEGATE_WRITE_DOCS").is_some() {
        fs::write(&file, text).expect("the repository is writable");
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    let mut lines = text.lines().zip(there.lines()).zip(1..);
    let first = lines.find(|((new, old), _)| new != old);
    assert!(
        text == there,
        "{path} is out of date, first here (now, there, line): {first:#?}. \
         Write it anew with TIDEGATE_WRITE_DOCS=1"
    );
}
