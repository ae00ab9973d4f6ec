//! A directory of one test, removed with it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An empty directory that lives as long as this value.
#[derive(Debug)]
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        let name = format!("loopwarden-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        // A run that was killed may have had the same id, and left its files.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A copy of the files in `from`, one level deep: what a kill leaves. The kernel holds more than the disk.
    pub(crate) fn copy_of(from: &Path) -> Self {
        let copy = Self::new();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                match std::fs::copy(entry.path(), copy.path().join(entry.file_name())) {
                    // A store that is open may delete an old log file meanwhile.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    copied => {
                        copied.unwrap();
                    }
                }
            }
        }
        copy
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
