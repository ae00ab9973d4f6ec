//! Reading records of an area, and the fate of a store's errors.

use std::ops::ControlFlow;

use loopwarden_state::{Area, RocksStore, StoreError};

use crate::LogError;

/// A store's error ends the process, with its code.
pub(super) fn fatal(error: StoreError) -> LogError {
    let (code, message) = match error {
        StoreError::Locked(message) => ("E0401", message),
        StoreError::OtherFormat(message) => ("E0402", message),
        StoreError::DiskFull(message) => ("E0403", message),
        StoreError::Corrupt(message) => ("E0404", message),
        StoreError::OtherOwner(message) => ("E0405", message),
        StoreError::Io(message) => ("E0406", message),
    };
    LogError::Fatal { code, message }
}

pub(super) fn corrupt(what: &str) -> LogError {
    fatal(StoreError::Corrupt(what.to_owned()))
}

/// Sees a key and its value; says whether to go on.
pub(super) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, LogError> + 'a;

/// Reads records of an area between two keys; `read` says whether to go on.
pub(super) fn scan(store: &RocksStore, area: Area, from: &[u8], to: &[u8], read: &mut Visit<'_>) -> Result<(), LogError> {
    let mut failed = None;
    let scanned = store.scan_raw(area, from, Some(to), &mut |key, value| match read(key, value) {
        Ok(flow) => flow,
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    scanned.map_err(fatal)?;
    failed.map_or(Ok(()), Err)
}
