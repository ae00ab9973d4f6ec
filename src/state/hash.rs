//! A hash of all that a task holds, to compare two runs.

use loopwarden_core::{event::TaskId, identity::Fnv64};

use crate::{KeyFamily, Position, ScanFlow, StateStore, StoreError, try_scan};

/// Hash of everything a task holds in `families`, keys and values. Of a Position only what two runs over the same input share
/// ([`Position::deterministic`]). Two stores with equal state have equal hashes, whatever kind they are.
///
/// # Errors
/// See [`StoreError`].
pub fn state_hash(store: &dyn StateStore, task: TaskId, families: &[KeyFamily]) -> Result<u64, StoreError> {
    let mut hash = Fnv64::new();
    for family in families {
        try_scan(store, task, *family, &[], &[], |key, value| {
            let value = deterministic(*family, value)?;
            // Lengths in front, or two records could pass for one.
            hash = hash.with(&[family.byte()]).with(&(key.len() as u64).to_be_bytes()).with(key);
            hash = hash.with(&(value.len() as u64).to_be_bytes()).with(&value);
            Ok(ScanFlow::Continue(()))
        })?;
    }
    Ok(hash.finish())
}

fn deterministic(family: KeyFamily, value: &[u8]) -> Result<std::borrow::Cow<'_, [u8]>, StoreError> {
    if family == KeyFamily::Position {
        return Ok(Position::decode(value)?.deterministic().encode_for_changelog()?.into());
    }
    Ok(value.into())
}
