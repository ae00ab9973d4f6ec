//! FNV-1a, 64 bits: to compare states and outputs of two runs, never to defend against anybody.

use crate::event::TaskId;
use crate::store::KeyFamily;
use crate::store::Position;
use crate::store::StateStore;
use crate::store::StoreError;

/// FNV-1a, 64 bits: offset basis `cbf29ce484222325`, prime `100000001b3`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fnv64(u64);

impl Fnv64 {
    pub(super) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    #[must_use]
    pub(super) fn add(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)))
    }

    pub(super) const fn finish(self) -> u64 {
        self.0
    }
}

/// Hash of everything a task holds in `families`, keys and values. Of a Position only what two runs over the same input share
/// ([`Position::deterministic`]). Two stores with equal state have equal hashes, whatever kind they are.
///
/// # Errors
/// See [`StoreError`].
pub fn state_hash(store: &dyn StateStore, task: TaskId, families: &[KeyFamily]) -> Result<u64, StoreError> {
    let mut hash = Fnv64::new();
    for family in families {
        let mut failed = None;
        store.scan(task, *family, &[], &[], &mut |key, value| {
            let value = match deterministic(*family, value) {
                Ok(value) => value,
                Err(error) => {
                    failed = Some(error);
                    return std::ops::ControlFlow::Break(());
                }
            };
            // Lengths in front, or two records could pass for one.
            hash = hash.add(&[family.byte()]).add(&(key.len() as u64).to_be_bytes()).add(key);
            hash = hash.add(&(value.len() as u64).to_be_bytes()).add(&value);
            std::ops::ControlFlow::Continue(())
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(hash.finish())
}

fn deterministic(family: KeyFamily, value: &[u8]) -> Result<std::borrow::Cow<'_, [u8]>, StoreError> {
    if family == KeyFamily::Position {
        return Ok(Position::decode(value)?.deterministic().encode_for_changelog()?.into());
    }
    Ok(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_answers_as_published() {
        assert_eq!(Fnv64::new().finish(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fnv64::new().add(b"a").finish(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv64::new().add(b"foobar").finish(), 0x8594_4171_f739_67e8);
    }
}
