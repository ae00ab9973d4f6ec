//! Steps of sessions: one small record per event, under the slot of its sequence. Written for every event, so every byte counts:
//! absent hashes and texts cost one byte, the sequence none (the head and the slot give it).

use serde::Deserialize;
use serde::Serialize;

use crate::detect::Flags;
use crate::detect::Step;
use crate::engine::SEPARATOR;
use crate::event::EventTime;
use crate::identity::Signature;
use crate::store::KeyFamily;
use crate::store::StateKey;
use crate::store::StoreError;
use crate::store::codec;
use crate::store::migrate;
use crate::store::session::pack64;
use crate::store::session::pack128;
use crate::store::session::unpack64;
use crate::store::session::unpack128;

/// What the keys of a session's steps begin with: the head's key and U+001F.
#[must_use]
pub fn prefix(session_key: &[u8]) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(session_key.len() + 3);
    prefix.extend_from_slice(session_key);
    prefix.push(SEPARATOR as u8);
    prefix
}

/// Key of a step: the head's key, U+001F, slot (2 bytes, big endian).
#[must_use]
pub fn key(session_key: &[u8], slot: u16) -> StateKey {
    let mut bytes = prefix(session_key);
    bytes.extend_from_slice(&slot.to_be_bytes());
    StateKey::new(KeyFamily::Step, bytes)
}

/// The slot in a step's key; `None` where something else follows the prefix.
#[must_use]
pub fn slot_of(key: &[u8], prefix: &[u8]) -> Option<u16> {
    let slot: &[u8; 2] = key.strip_prefix(prefix)?.try_into().ok()?;
    Some(u16::from_be_bytes(*slot))
}

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    time: i64,
    turn: u64,
    flags: u32,
    fired: u16,
    call: Option<[u8; 16]>,
    fingerprint: Option<[u8; 16]>,
    read_target: Option<[u8; 8]>,
    outcome: Option<[u8; 8]>,
    state: Option<[u8; 8]>,
    error: Option<[u8; 8]>,
    call_id: Option<[u8; 8]>,
    event: Option<[u8; 8]>,
    result_event: Option<[u8; 8]>,
    tool: &'a str,
    event_id: &'a str,
    /// Differences of the sorted token hashes.
    tokens: Vec<u32>,
    excerpt: &'a str,
}

/// Bytes of a step. The tool's name is in it; the sequence is not.
///
/// # Errors
/// As [`codec::encode`].
pub fn encode(step: &Step, tool: &str) -> Result<Vec<u8>, StoreError> {
    let mut before = 0;
    let mut delta = |token: &u32| {
        let delta = token.wrapping_sub(before);
        before = *token;
        delta
    };
    let stored = Stored {
        time: step.time.0,
        turn: step.turn,
        flags: step.flags.0,
        fired: step.fired,
        call: pack128(step.call),
        fingerprint: pack128(step.fingerprint),
        read_target: pack64(step.read_target),
        outcome: pack64(step.outcome),
        state: pack64(step.state),
        error: pack64(step.error),
        call_id: pack64(step.call_id),
        event: pack64(step.event),
        result_event: pack64(step.result_event),
        tool,
        event_id: &step.event_id,
        tokens: step.tokens.0.iter().map(&mut delta).collect(),
        excerpt: &step.excerpt,
    };
    codec::encode(migrate::newest(KeyFamily::Step), &stored)
}

/// Reads a step and the name of its tool. Its sequence is 0: the slot says it.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode(bytes: &[u8]) -> Result<(Step, Box<str>), StoreError> {
    let current = migrate::current(KeyFamily::Step, bytes)?;
    let stored: Stored<'_> = codec::decode(KeyFamily::Step.as_str(), migrate::newest(KeyFamily::Step), &current)?;
    let mut before = 0_u32;
    let mut sum = |delta: u32| {
        before = before.wrapping_add(delta);
        before
    };
    let step = Step {
        time: EventTime(stored.time),
        turn: stored.turn,
        flags: Flags(stored.flags),
        fired: stored.fired,
        call: unpack128(stored.call),
        fingerprint: unpack128(stored.fingerprint),
        read_target: unpack64(stored.read_target),
        outcome: unpack64(stored.outcome),
        state: unpack64(stored.state),
        error: unpack64(stored.error),
        call_id: unpack64(stored.call_id),
        event: unpack64(stored.event),
        result_event: unpack64(stored.result_event),
        event_id: stored.event_id.into(),
        tokens: Signature(stored.tokens.into_iter().map(&mut sum).collect()),
        excerpt: stored.excerpt.into(),
        ..Step::default()
    };
    Ok((step, stored.tool.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identity::Hash64;
    use crate::identity::Hash128;

    prop_compose! {
        fn steps()(
            (time, turn, flags, fired) in any::<(i64, u64, u32, u16)>(),
            (call, fingerprint) in (maybe(any::<u128>()), maybe(any::<u128>())),
            hashes in proptest::collection::vec(maybe(any::<u64>()), 7),
            (event_id, excerpt) in any::<(String, String)>(),
            mut tokens in proptest::collection::vec(any::<u32>(), 0..64),
        ) -> Step {
            tokens.sort_unstable();
            Step {
                sequence: 0, time: EventTime(time), turn, flags: Flags(flags), fired,
                call: Hash128(call), fingerprint: Hash128(fingerprint),
                read_target: Hash64(hashes[0]), outcome: Hash64(hashes[1]), state: Hash64(hashes[2]), error: Hash64(hashes[3]),
                call_id: Hash64(hashes[4]), event: Hash64(hashes[5]), result_event: Hash64(hashes[6]),
                event_id: event_id.into(), excerpt: excerpt.into(), tokens: Signature(tokens.into()),
                ..Step::default()
            }
        }
    }

    fn maybe<T: std::fmt::Debug + Default + Clone + 'static>(
        some: impl Strategy<Value = T> + 'static,
    ) -> impl Strategy<Value = T> {
        prop_oneof![Just(T::default()), some]
    }

    proptest! {
        #[test]
        fn a_step_reads_back(step in steps(), tool in any::<String>()) {
            let (read, name) = decode(&encode(&step, &tool).unwrap()).unwrap();
            prop_assert_eq!(read, step);
            prop_assert_eq!(&*name, tool);
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(version) = bytes.first_mut() {
                *version = 1;
            }
            let _ = decode(&bytes);
        }

        #[test]
        fn slots_of_a_session_are_in_order_and_read_back(a in any::<u16>(), b in any::<u16>()) {
            let (key_a, key_b) = (key(b"t\x1fs\x1fa", a), key(b"t\x1fs\x1fa", b));
            prop_assert_eq!(a.cmp(&b), key_a.bytes.cmp(&key_b.bytes));
            prop_assert_eq!(slot_of(&key_a.bytes, &prefix(b"t\x1fs\x1fa")), Some(a));
        }
    }

    #[test]
    fn an_ordinary_step_is_small() {
        let step = Step {
            time: EventTime(1_795_291_200_000),
            flags: Flags(0b111),
            call: Hash128(u128::MAX),
            outcome: Hash64(u64::MAX),
            event: Hash64(u64::MAX),
            event_id: "0198f0aa-7c1e-7b3a-9d2f-0123456789ab".into(),
            ..Step::default()
        };
        assert!(encode(&step, "Bash").unwrap().len() <= 100);
    }
}
