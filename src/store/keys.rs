//! Key families and the order of keys. The bytes are reserved for ever.
//!
//! A database key is `stage, partition (4 bytes, big endian), family, key`; a changelog key is `family, key`: the partition of the
//! changelog says the rest.

/// What a key is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum KeyFamily {
    /// How far the task is: one record, empty key.
    Position = 1,
    /// Head of a session. Key: tenant, session, agent joined by U+001F.
    Head = 2,
    /// One step of a session. Key: the head's, U+001F, slot (2 bytes, big endian).
    Step = 3,
    /// Work due at an event time. Key: due ms (8 bytes, big endian, sign flipped), kind, subject: memory order is disk order.
    Timer = 4,
    /// Counter of a swarm's fingerprint. Key: tenant, swarm, fingerprint joined by U+001F.
    SwarmCounter = 5,
    /// One pane of such a counter. Key: the counter's, U+001F, pane start (8 bytes, big endian).
    SwarmPane = 6,
    /// What a whole swarm remembers. Key: tenant, swarm joined by U+001F.
    Swarm = 7,
}

impl KeyFamily {
    /// Every family.
    pub const ALL: [Self; 7] =
        [Self::Position, Self::Head, Self::Step, Self::Timer, Self::SwarmCounter, Self::SwarmPane, Self::Swarm];

    /// The byte in keys.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The family of a byte.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.byte() == byte)
    }
}

/// A key inside a task: family and bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateKey {
    /// What it is about.
    pub family: KeyFamily,
    /// The key's bytes; order is meaning.
    pub bytes: Vec<u8>,
}

impl StateKey {
    /// A key of a family.
    #[must_use]
    pub const fn new(family: KeyFamily, bytes: Vec<u8>) -> Self {
        Self { family, bytes }
    }
}
