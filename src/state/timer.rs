//! Keys of timers. Memory order is disk order is the order of firing: due time, then kind, then subject (rule I4).

use loopwarden_core::event::EventTime;

use crate::{KeyFamily, StateKey};

const SIGN: u64 = 1 << 63;

/// Key of a timer: when, what, for whom. Its order is the order of the stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerKey<'a> {
    pub due: EventTime,
    /// What it is; the engine's number.
    pub kind: u8,
    /// Whom it is about, usually the key of a head or counter.
    pub subject: &'a [u8],
}

impl<'a> TimerKey<'a> {
    /// Key bytes: due (8 bytes, big endian, sign flipped), kind, subject.
    pub fn encode(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(9 + self.subject.len());
        key.extend_from_slice(&due_bytes(self.due));
        key.push(self.kind);
        key.extend_from_slice(self.subject);
        key
    }

    /// The key as the store takes it.
    pub fn to_state_key(&self) -> StateKey {
        StateKey::new(KeyFamily::Timer, self.encode())
    }

    /// Reads key bytes; `None` where they are too short.
    pub fn decode(key: &'a [u8]) -> Option<Self> {
        let (due, rest) = key.split_first_chunk()?;
        let (kind, subject) = rest.split_first()?;
        Some(Self { due: EventTime((u64::from_be_bytes(*due) ^ SIGN) as i64), kind: *kind, subject })
    }
}

/// The eight bytes that keys of this due time begin with; also where a scan for later timers begins.
pub const fn due_bytes(due: EventTime) -> [u8; 8] {
    (due.0 as u64 ^ SIGN).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> impl Strategy<Value = (i64, u8, Vec<u8>)> {
        (prop_oneof![any::<i64>(), -2i64..3], 0u8..3, proptest::collection::vec(any::<u8>(), 0..4))
    }

    proptest! {
        #[test]
        fn memory_order_is_disk_order(a in keys(), b in keys()) {
            let key_a = TimerKey { due: EventTime(a.0), kind: a.1, subject: &a.2 };
            let key_b = TimerKey { due: EventTime(b.0), kind: b.1, subject: &b.2 };
            prop_assert_eq!(key_a.cmp(&key_b), key_a.encode().cmp(&key_b.encode()));
        }

        #[test]
        fn a_timer_key_reads_back(a in keys()) {
            let key = TimerKey { due: EventTime(a.0), kind: a.1, subject: &a.2 };
            let bytes = key.encode();
            prop_assert_eq!(TimerKey::decode(&bytes), Some(key));
        }
    }

    #[test]
    fn short_bytes_are_no_timer() {
        assert_eq!(TimerKey::decode(&[0; 8]), None);
        assert!(TimerKey::decode(&[0; 9]).is_some());
    }
}
