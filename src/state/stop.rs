//! Whom operators stop: key and encoding.

use std::collections::VecDeque;

use loopwarden_core::engine::{CommandId, InForceStop, StopState, SubjectKey};
use loopwarden_core::{event::EventTime, identity::Hash64};
use serde::{Deserialize, Serialize};

use crate::{KeyFamily, StateKey, StoreError, codec};

/// Where the state of a subject is kept.
#[must_use]
pub fn key(subject: &SubjectKey) -> StateKey {
    StateKey::new(KeyFamily::Stop, subject.row_key().into_bytes())
}

/// The subject of a key; `None` for bytes that are no such key.
#[must_use]
pub fn subject_of(key: &[u8]) -> Option<SubjectKey> {
    SubjectKey::of_stop_key(std::str::from_utf8(key).ok()?)
}

#[derive(Serialize, Deserialize)]
struct StoredStop {
    command_id: [u8; 16],
    episode: [u8; 16],
    actor: String,
    reason: String,
    fails_closed: bool,
    issued_at: i64,
    expires_at: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredState {
    epoch: i64,
    seq: u64,
    time: i64,
    recent_events: Vec<[u8; 8]>,
    in_force: Option<StoredStop>,
    forgotten_at: i64,
}

/// Bytes of what is known of a subject.
///
/// # Errors
/// As [`codec::encode`].
pub fn encode(state: &StopState) -> Result<Vec<u8>, StoreError> {
    let in_force = state.in_force.as_ref().map(|stop| StoredStop {
        command_id: stop.command_id.0,
        episode: stop.episode.0,
        actor: stop.actor.clone(),
        reason: stop.reason.clone(),
        fails_closed: stop.fails_closed,
        issued_at: stop.issued_at.0,
        expires_at: stop.expires_at.0,
    });
    let stored = StoredState {
        epoch: state.epoch,
        seq: state.seq,
        time: state.time.0,
        recent_events: state.recent_events.iter().map(|hash| hash.0.to_be_bytes()).collect(),
        in_force,
        forgotten_at: state.forgotten_at.0,
    };
    codec::encode(&stored)
}

/// Reads what is known of a subject.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode(bytes: &[u8]) -> Result<StopState, StoreError> {
    let stored: StoredState = codec::decode(KeyFamily::Stop.as_str(), bytes)?;
    let in_force = stored.in_force.map(|stop| InForceStop {
        command_id: CommandId(stop.command_id),
        episode: CommandId(stop.episode),
        actor: stop.actor,
        reason: stop.reason,
        fails_closed: stop.fails_closed,
        issued_at: EventTime(stop.issued_at),
        expires_at: EventTime(stop.expires_at),
    });
    let recent_events: VecDeque<Hash64> =
        stored.recent_events.into_iter().map(|bytes| Hash64(u64::from_be_bytes(bytes))).collect();
    Ok(StopState {
        epoch: stored.epoch,
        seq: stored.seq,
        time: EventTime(stored.time),
        recent_events,
        in_force,
        forgotten_at: EventTime(stored.forgotten_at),
    })
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::StopScope;

    use super::*;

    #[test]
    fn its_bytes_and_its_key_read_back() {
        let stop = InForceStop {
            command_id: CommandId([1; 16]),
            episode: CommandId([2; 16]),
            actor: "alice".to_owned(),
            reason: "runaway".to_owned(),
            fails_closed: true,
            issued_at: EventTime(7),
            expires_at: EventTime(9),
        };
        let state = StopState {
            epoch: 5,
            seq: 3,
            time: EventTime(7),
            recent_events: [Hash64(1), Hash64(2)].into(),
            in_force: Some(stop),
            forgotten_at: EventTime(99),
        };
        assert_eq!(decode(&encode(&state).unwrap()).unwrap(), state);
        let bytes = [
            &[b'1', 10, 3, 14, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1][..],
            &[1; 16],
            &[2; 16],
            b"\x05alice\x07runaway\x01\x0e\x12",
            &[198, 1],
        ];
        assert_eq!(encode(&state).unwrap(), bytes.concat());
        for scope in StopScope::LIST {
            let subject = SubjectKey::stop(scope, "acme", "name");
            assert_eq!(subject_of(&key(&subject).bytes), Some(subject));
        }
        for other in [&b"stop"[..], b"stop\x1fa\x1fplanet\x1f", b"agent\x1f\x1fs\x1fa", b"\xff"] {
            assert_eq!(subject_of(other), None, "{other:?}");
        }
    }
}
