//! How far a task is: the one record that makes its other records mean something.
//!
//! The same format stands in the changelog and in the store; only the store's copy has a [`Local`] part, since where a
//! changelog record will stand is not known before it is written.

use loopwarden_core::event::{EventTime, NextOffset};
use loopwarden_core::identity::Fnv64;
use serde::{Deserialize, Serialize};

use crate::{KeyFamily, StoreError, codec};

/// The Position of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// Input offset to be read next.
    pub next_offset: NextOffset,
    /// Watermark: greatest clamped time so far minus the lateness. Timers due up to it have fired.
    pub watermark: EventTime,
    /// Commands and dead letters so far; the `lw_ordinal` of the last one.
    pub outputs: u64,
    /// Hash over their ids: [`chain`] of one after the other, from 0.
    pub outputs_chain: u64,
    /// SHA-256 of the policy in force.
    pub policy_sha256: [u8; 32],
    /// Input offset since which it is in force.
    pub policy_since: u64,
    /// Transactional id of the lane that wrote it.
    pub owner: String,
    /// Store only: changelog offset to restore from. 0 in a changelog.
    pub changelog_next: u64,
    /// Store only: last wall time, Unix ms, at which the store was known to be at the end of its changelog. 0 in a changelog.
    pub at_end_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredPosition {
    next_offset: u64,
    watermark: i64,
    outputs: u64,
    outputs_chain: u64,
    policy_sha256: [u8; 32],
    policy_since: u64,
    owner: String,
    local: Option<Local>,
}

/// What only the store knows.
#[derive(Serialize, Deserialize)]
struct Local {
    changelog_next: u64,
    at_end_ms: i64,
}

impl Position {
    /// Bytes for the changelog: without what only the store knows.
    ///
    /// # Errors
    /// As [`codec::encode`].
    pub fn encode_for_changelog(&self) -> Result<Vec<u8>, StoreError> {
        self.encode(None)
    }

    /// Bytes for the store.
    ///
    /// # Errors
    /// As [`codec::encode`].
    pub fn encode_for_store(&self) -> Result<Vec<u8>, StoreError> {
        self.encode(Some(Local { changelog_next: self.changelog_next, at_end_ms: self.at_end_ms }))
    }

    fn encode(&self, local: Option<Local>) -> Result<Vec<u8>, StoreError> {
        let stored = StoredPosition {
            next_offset: self.next_offset.0,
            watermark: self.watermark.0,
            outputs: self.outputs,
            outputs_chain: self.outputs_chain,
            policy_sha256: self.policy_sha256,
            policy_since: self.policy_since,
            owner: self.owner.clone(),
            local,
        };
        codec::encode(&stored)
    }

    /// Reads either form.
    ///
    /// # Errors
    /// As [`codec::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let stored: StoredPosition = codec::decode(KeyFamily::Position.as_str(), bytes)?;
        let (changelog_next, at_end_ms) = stored.local.map_or((0, 0), |local| (local.changelog_next, local.at_end_ms));
        Ok(Self {
            next_offset: NextOffset(stored.next_offset),
            watermark: EventTime(stored.watermark),
            outputs: stored.outputs,
            outputs_chain: stored.outputs_chain,
            policy_sha256: stored.policy_sha256,
            policy_since: stored.policy_since,
            owner: stored.owner,
            changelog_next,
            at_end_ms,
        })
    }

    /// This Position without what may differ between two runs over the same input: owner, changelog offset, wall time.
    pub fn deterministic(&self) -> Self {
        Self { owner: String::new(), changelog_next: 0, at_end_ms: 0, ..self.clone() }
    }
}

/// The next `outputs_chain`: FNV-1a, 64 bits, over the former one (8 bytes, big endian) and the output's id. An auditor who
/// sees the outputs of a task in order computes the same; it is no defence against an adversary.
pub fn chain(before: u64, id: &[u8]) -> u64 {
    Fnv64::new().with(&before.to_be_bytes()).with(id).finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn positions()(
            (next, watermark, outputs, outputs_chain) in any::<(u64, i64, u64, u64)>(),
            (policy_sha256, policy_since) in any::<([u8; 32], u64)>(),
            (owner, changelog_next, at_end_ms) in any::<(String, u64, i64)>(),
        ) -> Position {
            Position {
                next_offset: NextOffset(next), watermark: EventTime(watermark), outputs, outputs_chain,
                policy_sha256, policy_since, owner, changelog_next, at_end_ms,
            }
        }
    }

    proptest! {
        #[test]
        fn a_position_reads_back_from_the_store(position in positions()) {
            prop_assert_eq!(Position::decode(&position.encode_for_store().unwrap()).unwrap(), position);
        }

        #[test]
        fn a_changelog_holds_nothing_of_the_store(position in positions()) {
            let read = Position::decode(&position.encode_for_changelog().unwrap()).unwrap();
            prop_assert_eq!(read, Position { changelog_next: 0, at_end_ms: 0, ..position });
        }
    }

    #[test]
    fn the_bytes_of_a_position_stay_what_they_are() {
        let position = Position {
            next_offset: NextOffset(300),
            watermark: EventTime(-1),
            outputs: 2,
            outputs_chain: 3,
            policy_since: 4,
            owner: "a-0".to_owned(),
            changelog_next: 5,
            at_end_ms: 6,
            ..Position::default()
        };
        let mut expected = vec![b'1', 0xac, 2, 1, 2, 3];
        expected.extend([0; 32]);
        expected.extend([4, 3, b'a', b'-', b'0', 1, 5, 12]);
        assert_eq!(position.encode_for_store().unwrap(), expected);
    }

    #[test]
    fn the_chain_depends_on_every_id_and_their_order() {
        // FNV-1a 64 of eight zero bytes and `a`.
        assert_eq!(chain(0, b"a"), 0xe604_613a_248f_f1ac);
        let both = chain(chain(0, b"a"), b"b");
        assert_ne!(both, chain(chain(0, b"b"), b"a"));
        assert_ne!(both, chain(0, b"ab"));
        assert_ne!(chain(0, b""), 0);
    }
}
