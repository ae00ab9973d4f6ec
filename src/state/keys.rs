//! Key families and the order of keys. The bytes are reserved for ever.
//!
//! A database key is `stage, partition (4 bytes, big endian), family, key`; a changelog key is `family, key`: the partition of the
//! changelog gives the rest.

use loopwarden_core::event::{Stage, TaskId};

/// What a key is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum KeyFamily {
    /// How far the task is: one record, empty key.
    Position = 1,
    /// Head of a session. Key: tenant, session, agent joined by U+001F.
    Head = 2,
    /// Work due at an event time. Key: due ms (8 bytes, big endian, sign flipped), kind, subject: memory order is disk order.
    Timer = 4,
    /// Counter of a swarm's fingerprint. Key: tenant, swarm, fingerprint joined by U+001F.
    SwarmCounter = 5,
    /// One pane of such a counter. Key: the counter's, U+001F, pane start (8 bytes, big endian).
    SwarmPane = 6,
    /// What a whole swarm remembers. Key: tenant, swarm, U+001F after each. Empty key: how many counters the task has; in the
    /// session stage how many sessions, and blocks in force.
    Swarm = 7,
    /// Counters by how long they were unseen. Key: kind, time (8 bytes, big endian, sign flipped), the counter's or swarm's key.
    SwarmSeen = 8,
    /// Some steps of a session. Key: the head's, U+001F, page (2 bytes, big endian). Byte 3 was a single step, before there were pages.
    Page = 9,
    /// A growth of the input that has not ended: one record, empty key. In the session stage's changelog alone.
    Growth = 10,
    /// What the current minute has seen. Empty key: events of each tenant, only where the policy limits tenants. Key `letters`: dead
    /// letters of each sender that held its record, only where there are any.
    Tenants = 11,
    /// Whom an operator stops, in the session stage. Key: that of the state row.
    Stop = 12,
}

impl KeyFamily {
    pub const ALL: [Self; 11] = [
        Self::Position,
        Self::Head,
        Self::Timer,
        Self::SwarmCounter,
        Self::SwarmPane,
        Self::Swarm,
        Self::SwarmSeen,
        Self::Page,
        Self::Growth,
        Self::Tenants,
        Self::Stop,
    ];

    /// The byte that keys begin with.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The name in messages of errors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Position => "position",
            Self::Head => "head",
            Self::Timer => "timer",
            Self::SwarmCounter => "swarm counter",
            Self::SwarmPane => "swarm pane",
            Self::Swarm => "swarm",
            Self::SwarmSeen => "swarm seen",
            Self::Page => "page",
            Self::Growth => "growth",
            Self::Tenants => "tenants",
            Self::Stop => "stop",
        }
    }

    /// The family of a byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.byte() == byte)
    }
}

/// A key inside a task: family and bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateKey {
    pub family: KeyFamily,
    /// The key's bytes; order is meaning.
    pub bytes: Vec<u8>,
}

impl StateKey {
    pub const fn new(family: KeyFamily, bytes: Vec<u8>) -> Self {
        Self { family, bytes }
    }

    /// The key of a task's Position: one record, no bytes.
    pub const fn position() -> Self {
        Self { family: KeyFamily::Position, bytes: Vec::new() }
    }

    /// The key in the task's changelog partition: `family, key`.
    pub fn to_changelog(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(1 + self.bytes.len());
        key.push(self.family.byte());
        key.extend_from_slice(&self.bytes);
        key
    }

    /// Reads a changelog key; `None` where the family is unknown or the key is empty.
    pub fn from_changelog(key: &[u8]) -> Option<Self> {
        let (family, bytes) = key.split_first()?;
        Some(Self { family: KeyFamily::from_byte(*family)?, bytes: bytes.to_vec() })
    }
}

/// Bytes every database key of a task begins with: `stage, partition (4 bytes, big endian)`.
pub const fn task_prefix(task: TaskId) -> [u8; 5] {
    let [a, b, c, d] = task.partition.to_be_bytes();
    [task.stage as u8, a, b, c, d]
}

/// The task of a database key; `None` for bytes that are no such key.
pub fn task_of(key: &[u8]) -> Option<TaskId> {
    let (&stage, rest) = key.split_first()?;
    let partition = u32::from_be_bytes(*rest.first_chunk()?);
    let stage = [Stage::Session, Stage::Swarm].into_iter().find(|known| *known as u8 == stage)?;
    Some(TaskId { stage, partition })
}

/// Writes `stage, partition, family, key`.
pub(super) fn database_key(task: TaskId, family: KeyFamily, bytes: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(6 + bytes.len());
    key.extend_from_slice(&task_prefix(task));
    key.push(family.byte());
    key.extend_from_slice(bytes);
    key
}

/// The smallest key above every key that begins with `prefix`; `None` if there is none (only bytes 0xff).
pub(super) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn family_bytes_are_reserved_for_ever() {
        let bytes: Vec<u8> = KeyFamily::ALL.iter().map(|family| family.byte()).collect();
        assert_eq!(bytes, [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(KeyFamily::from_byte(3), None, "single steps");
        assert_eq!(KeyFamily::from_byte(0), None);
        assert_eq!(KeyFamily::from_byte(13), None);
    }

    proptest! {
        #[test]
        fn a_changelog_key_reads_back(family in 0usize..11, bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let key = StateKey::new(KeyFamily::ALL[family], bytes);
            prop_assert_eq!(StateKey::from_changelog(&key.to_changelog()), Some(key));
        }

        #[test]
        fn keys_of_one_task_never_mix_with_those_of_another(a in any::<u32>(), b in any::<u32>(), bytes in proptest::collection::vec(any::<u8>(), 0..9)) {
            let (a, b) = (TaskId { stage: Stage::Session, partition: a }, TaskId { stage: Stage::Session, partition: b });
            let key = database_key(a, KeyFamily::Head, &bytes);
            prop_assert_eq!(task_of(&key), Some(a));
            prop_assert_eq!(key.starts_with(&task_prefix(b)), a == b);
        }

        #[test]
        fn the_end_of_a_prefix_is_above_every_key_with_it(prefix in proptest::collection::vec(any::<u8>(), 1..6), more in proptest::collection::vec(any::<u8>(), 0..6)) {
            let mut key = prefix.clone();
            key.extend(more);
            if let Some(end) = after_prefix(&prefix) {
                prop_assert!(key < end && !end.starts_with(&prefix));
            } else {
                prop_assert!(prefix.iter().all(|byte| *byte == u8::MAX));
            }
        }
    }
}
