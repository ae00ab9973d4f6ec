//! Whom operators stop: key and encoding.

use loopwarden_core::engine::{StopState, SubjectKey};
use loopwarden_core::event::EventTime;
use serde::{Deserialize, Serialize};

use crate::board::StoredBoard;
use crate::{KeyFamily, StoreError, Stored, codec};

/// The subject of a key; `None` for bytes that are no such key.
#[must_use]
pub fn subject_of(key: &[u8]) -> Option<SubjectKey> {
    SubjectKey::of_row_key(std::str::from_utf8(key).ok()?).filter(|subject| matches!(subject, SubjectKey::Stop(_)))
}

#[derive(Serialize, Deserialize)]
struct StoredStop<'a> {
    #[serde(borrow)]
    board: StoredBoard<'a>,
    time: i64,
    forgotten_at: i64,
}

/// What is known of whom an operator stops, under the key of the state row.
impl Stored for StopState {
    const FAMILY: KeyFamily = KeyFamily::Stop;

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let StoredStop { board, time, forgotten_at } = codec::decode(Self::FAMILY.as_str(), bytes)?;
        Ok(Self { board: board.into_board()?, time: EventTime(time), forgotten_at: EventTime(forgotten_at) })
    }

    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let board = StoredBoard::of(&self.board);
        codec::encode(&StoredStop { board, time: self.time.0, forgotten_at: self.forgotten_at.0 })
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::{Action, Advice, Board, CommandId, OperatorStop, PlacedBy, Placement, Scope, Verdict};
    use loopwarden_core::event::Reach;
    use loopwarden_core::identity::Hash64;
    use loopwarden_core::whom::{Kind, Whom};

    use super::*;

    #[test]
    fn its_bytes_and_its_key_read_back() {
        let (actor, reason) = ("alice".to_owned(), "runaway".to_owned());
        let stop = OperatorStop { actor, reason, fails_closed: true, reach: Reach::Tenant };
        let verdict = Verdict {
            command_id: CommandId([1; 16]),
            action: Action::Block,
            scope: Scope::default(),
            level: 4,
            episode: CommandId([2; 16]),
            by: PlacedBy::Operator(Box::new(stop)),
            message: "stop".to_owned(),
            placement: Placement::NextTurn,
            advice: Some(Advice::Stop),
            issued_at: EventTime(7),
            expires_at: EventTime(9),
        };
        let seen = [Hash64(1), Hash64(2)].into();
        let board = Board { epoch: 5, seq: 3, verdicts: vec![verdict].into(), seen };
        let state = StopState { board, time: EventTime(7), forgotten_at: EventTime(99) };
        assert_eq!(StopState::decode(&state.encode().unwrap()).unwrap(), state);
        let bytes = [
            &b"1\x0a\x03\x01"[..],
            &[1; 16],
            b"\x01\x00\x00\x00\x04",
            &[2; 16],
            b"\x01\x05alice\x07runaway\x03\x04stop\x00\x01\x04\x0e\x12",
            &[2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2],
            &[14, 198, 1],
        ];
        assert_eq!(state.encode().unwrap(), bytes.concat());
        for kind in Kind::stopped() {
            let subject = SubjectKey::Stop(Whom::new("acme", kind, "name"));
            assert_eq!(subject_of(subject.row_key().as_bytes()), Some(subject));
        }
        for other in [&b"stop"[..], b"stop\x1fa\x1fplanet\x1f", b"agent\x1f\x1fs\x1fa", b"\xff"] {
            assert_eq!(subject_of(other), None, "{other:?}");
        }
    }
}
