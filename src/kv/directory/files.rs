//! Writing files so that no reader, and no loss of power, ever meets half of one.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::path::{file_of, parents};
use super::scan::is_absent;

/// Writes a file of our own folder whole: beside its place, to the disk, then renamed.
pub(super) fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let fresh = folder.join(format!("{name}.new"));
    write_synced(&fresh, bytes)?;
    fs::rename(&fresh, folder.join(name))?;
    sync_folder(folder)
}

/// Writes a file and waits until the disk has it.
pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Waits until the disk has the names of a folder.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Reads a file; `None` when it is not there.
pub(super) fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Folders whose names have changed and are not yet known to be on the disk.
pub(super) type Touched = BTreeSet<PathBuf>;

/// Waits until the disk has the names of all folders that are still there.
pub(super) fn sync_all(touched: &Touched) -> Result<(), (PathBuf, io::Error)> {
    for folder in touched {
        match sync_folder(folder) {
            Err(error) if !is_absent(&error) => return Err((folder.clone(), error)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Moves a written file to the place of a key, with the rights of the file that it replaces.
/// Done once more after it was done, it does nothing.
pub(super) fn put(root: &Path, key: &str, staged: &Path, touched: &mut Touched) -> io::Result<()> {
    let target = file_of(root, key);
    // Also when it was moved before: the one who did may not have come to this point.
    touched.extend(parents(key).map(|folder| file_of(root, folder)));
    touched.insert(root.to_path_buf());
    if !staged.exists() {
        return Ok(());
    }
    make_parents(root, key)?;
    match fs::metadata(&target) {
        // Only an empty one goes; the transaction was checked against any other.
        Ok(found) if found.is_dir() => fs::remove_dir(&target)?,
        Ok(found) => fs::set_permissions(staged, found.permissions())?,
        Err(error) if is_absent(&error) => {}
        Err(error) => return Err(error),
    }
    fs::rename(staged, &target)
}

/// Removes the file of a key, and the folders that this leaves empty. Done once more after it was
/// done, it does nothing.
pub(super) fn remove(root: &Path, key: &str, touched: &mut Touched) -> io::Result<()> {
    let target = file_of(root, key);
    touched.extend(parents(key).map(|folder| file_of(root, folder)));
    touched.insert(root.to_path_buf());
    match fs::symlink_metadata(&target) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => fs::remove_file(&target)?,
        Err(error) if is_absent(&error) => {}
        Err(error) => return Err(error),
    }
    for folder in parents(key).collect::<Vec<_>>().into_iter().rev() {
        match fs::remove_dir(file_of(root, folder)) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => {}
            // Not empty, a link, or not ours to remove: it stays, and so do those above it.
            Err(_) => break,
        }
    }
    Ok(())
}

fn make_parents(root: &Path, key: &str) -> io::Result<()> {
    for folder in parents(key) {
        let path = file_of(root, folder);
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
