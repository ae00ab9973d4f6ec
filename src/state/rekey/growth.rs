//! A growth of the input that has begun and not ended: the note of it in each partition of the session stage's changelog. As long as it
//! stands there, no lane takes the task for restored.

use serde::{Deserialize, Serialize};

use crate::{KeyFamily, StateKey, StoreError, Stored, codec};

/// From how many partitions to how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// Number of partitions before the growth.
    pub from: u32,
    /// Number of partitions after the growth.
    pub to: u32,
}

impl Growth {
    /// Where a task's note of it is kept.
    pub const fn key() -> StateKey {
        StateKey::new(KeyFamily::Growth, Vec::new())
    }
}

/// The note of it, under the empty key.
impl Stored for Growth {
    const FAMILY: KeyFamily = KeyFamily::Growth;

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        codec::decode(Self::FAMILY.as_str(), bytes)
    }

    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        codec::encode(self)
    }
}
