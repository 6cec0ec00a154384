//! A copy of a folder of the repository, and mistakes that are planted in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::folder::Folder;

/// A copy that a test may change.
pub(crate) struct Copied {
    folder: Folder,
}

/// What is put in the place of what, and by which words it has to be noticed.
pub(crate) struct Mistake {
    pub(crate) file: &'static str,
    pub(crate) old: &'static str,
    pub(crate) new: &'static str,
    pub(crate) said: &'static str,
}

pub(crate) const fn mistake(
    file: &'static str,
    old: &'static str,
    new: &'static str,
    said: &'static str,
) -> Mistake {
    Mistake {
        file,
        old,
        new,
        said,
    }
}

impl Copied {
    /// A folder as it is in the repository, named from its root: `terraform`.
    pub(crate) fn of(name: &str) -> Self {
        let folder = Folder::new(&format!("copied-{}", name.replace('/', "-")));
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        copy(&original, folder.path())
            .unwrap_or_else(|error| panic!("cannot copy {}: {error}", original.display()));
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        self.folder.write(name, text)
    }

    /// Puts `new` in the place of `old`, which must stand once in that file.
    pub(crate) fn change(&self, file: &str, old: &str, new: &str) {
        let path = self.join(file);
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        assert_eq!(text.matches(old).count(), 1, "{file} has {old:?} once");
        self.write(file, &text.replace(old, new));
    }
}

impl Mistake {
    pub(crate) fn plant(&self, copied: &Copied) {
        copied.change(self.file, self.old, self.new);
    }

    /// Fails the test unless it was noticed, and for its own reason.
    pub(crate) fn expect_noticed(&self, passed: bool, said: &str) {
        let Self {
            file,
            old,
            new,
            said: expected,
        } = self;
        assert!(!passed, "{file}: {new:?} for {old:?} is not noticed");
        assert!(
            said.contains(expected),
            "{file}: {new:?} for {old:?} is noticed for another reason than {expected:?}:\n{said}"
        );
    }
}

/// Everything but what a run of Terraform in the repository has left.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_name() == ".terraform" {
            continue;
        }
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
