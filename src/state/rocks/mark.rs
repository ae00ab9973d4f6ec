//! How far the database was durable when that was last answered, in a file of its own.
//!
//! A write-ahead log that is damaged, cut short or absent looks like one that ended there, and RocksDB goes on with what is left. The mark
//! shows the difference. It is written after each sync and before any answer, so that it outlives `kill -9`. The file itself is synced each
//! [`SYNC_EVERY`] times: after a power cut the mark may be older than the database, and is never newer.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::StoreError;

/// The file beside those of RocksDB, which leaves alone what it does not know.
const FILE: &str = "DURABLE";
/// Writes of the mark between two syncs of it: each is one sync more of the disk.
const SYNC_EVERY: u64 = 64;

/// A number, and the same with each bit turned: no single fault makes one of another.
pub(super) struct Mark {
    file: File,
    path: PathBuf,
    writes: AtomicU64,
}

impl Mark {
    /// Opens the mark in `dir`, or makes one without a number, and reads the last sequence number that was durable.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] where its bytes are no mark; errors of the disk.
    pub(super) fn open(dir: &Path) -> Result<(Self, Option<u64>), StoreError> {
        let path = dir.join(FILE);
        let trouble = |error: std::io::Error| StoreError::of_io(path.display(), &error);
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(trouble)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(trouble)?;
        let sequence = match bytes.as_chunks::<8>() {
            ([], []) => None,
            ([number, turned], []) if number.iter().zip(turned).all(|(byte, turned)| *byte == !*turned) => {
                Some(u64::from_be_bytes(*number))
            }
            _ => {
                let message = format!(
                    "{} is damaged, the mark of how far the database was durable; without the file the next start goes on unchecked",
                    path.display()
                );
                return Err(StoreError::Corrupt(message));
            }
        };
        Ok((Self { file, path, writes: AtomicU64::new(0) }, sequence))
    }

    /// Everything up to this sequence number is durable.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn move_to(&self, sequence: u64) -> Result<(), StoreError> {
        let number = sequence.to_be_bytes();
        let bytes = [number, number.map(|byte| !byte)].concat();
        let is_due = self.writes.fetch_add(1, Ordering::Relaxed).is_multiple_of(SYNC_EVERY);
        let written = self.file.write_all_at(&bytes, 0).and_then(|()| if is_due { self.file.sync_data() } else { Ok(()) });
        written.map_err(|error| StoreError::of_io(self.path.display(), &error))
    }
}
