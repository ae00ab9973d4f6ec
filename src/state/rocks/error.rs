//! Errors of RocksDB, sorted by fate. It answers in texts; these are the ones that matter.

use std::{io, path::Path};

use rocksdb::ErrorKind;

use crate::StoreError;

pub(super) fn store(what: &str, error: &rocksdb::Error) -> StoreError {
    sort(what, &error.kind(), error.as_ref())
}

pub(super) fn io(dir: &Path, error: &io::Error) -> StoreError {
    StoreError::of_io(dir.display(), error)
}

fn sort(what: &str, kind: &ErrorKind, text: &str) -> StoreError {
    let message = format!("{what}: {text}");
    if text.contains("No space left on device") || text.contains("NoSpace") || text.contains("Disk quota exceeded") {
        return StoreError::DiskFull(message);
    }
    // "While lock file: …: Resource temporarily unavailable", or "lock hold by current process" for a second open in one process.
    if text.contains("lock file") || text.contains("lock hold by current process") {
        return StoreError::Locked(message);
    }
    // A column family that this program does not know was made by a later one; so was a newer file format.
    if text.contains("Column families not opened") || text.contains("Unknown Footer version") || text.contains("Unsupported") {
        return StoreError::OtherFormat(message);
    }
    // It is made where there is none, unless the mark shows that there was one.
    if text.contains("does not exist (create_if_missing is false)") {
        return StoreError::Corrupt(message);
    }
    match kind {
        ErrorKind::Corruption => StoreError::Corrupt(message),
        _ => StoreError::Io(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_rocksdb_are_sorted_by_fate() {
        let sort = |kind, text| sort("cannot write", &kind, text);
        let full = "IO error: No space left on device: While appending to file: /d/000012.log: No space left on device";
        assert!(matches!(sort(ErrorKind::IOError, full), StoreError::DiskFull(_)));
        let quota = "IO error: While appending to file: /d/000012.log: Disk quota exceeded";
        assert!(matches!(sort(ErrorKind::IOError, quota), StoreError::DiskFull(_)));
        let lock = "IO error: While lock file: /d/LOCK: Resource temporarily unavailable";
        assert!(matches!(sort(ErrorKind::IOError, lock), StoreError::Locked(_)));
        let checksum = "Corruption: block checksum mismatch";
        assert!(matches!(sort(ErrorKind::Corruption, checksum), StoreError::Corrupt(_)));
        let unknown = "Invalid argument: Column families not opened: later";
        assert!(matches!(sort(ErrorKind::InvalidArgument, unknown), StoreError::OtherFormat(_)));
        assert_eq!(sort(ErrorKind::IOError, "IO error: x"), StoreError::Io("cannot write: IO error: x".to_owned()));
    }
}
