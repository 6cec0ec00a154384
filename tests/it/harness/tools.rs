//! Where the real programs are.

use std::path::{Path, PathBuf};

/// Path of a program that `scripts/setup` fetches. A missing one fails the test: a test that is
/// skipped in silence proves nothing.
pub(crate) fn tool(name: &str) -> PathBuf {
    find(&folder(), name).unwrap_or_else(|message| panic!("{message}"))
}

/// The folder in which `scripts/setup` has put what `tests/browser` needs.
pub(crate) fn browser_modules() -> PathBuf {
    let modules = folder().join("browser");
    assert!(
        modules.join("node_modules/axios").is_dir(),
        "{} is missing: run scripts/setup, which fetches it",
        modules.display()
    );
    modules
}

/// Looks for `bin/<name>` in a folder of tools; the error says what to do.
pub(crate) fn find(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let path = folder.join("bin").join(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!(
            "{} is missing: run scripts/setup, which fetches it",
            path.display()
        ))
    }
}

/// `TIDEGATE_TOOLS`, as `scripts/setup` reads it, or `.tools` in the repository.
fn folder() -> PathBuf {
    std::env::var_os("TIDEGATE_TOOLS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools"),
        PathBuf::from,
    )
}
