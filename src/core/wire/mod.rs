//! Commands and state rows as JSON: which fields there are, in which order, and the words in them (`config/schemas`).
//!
//! The structs are made of what the engine decides and written in the order of their fields. Guards and reports read the same structs. A
//! reader ignores fields that it does not know, and reads those that only explain where their form is known. The schemas describe each
//! field; a comment stands here where the form is not the whole meaning.

mod command;
mod row;
mod scope;
mod subject;
mod time;

use std::borrow::Cow;

pub use command::{Command, Engine, Evidence, Fact, Ratio, Reason, Trigger};
pub use row::{Row, Verdict};
pub use scope::{AgentName, Identity, Scope};
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Deserializer, Serialize};
use serde_json::value::RawValue;
pub use subject::{Subject, whom};

/// Version of commands and of rows.
pub const VERSION: u64 = 1;
/// `mode` of a command that is to be obeyed.
pub const LIVE: &str = "live";
/// `mode` of a command that is to be looked at.
pub const SHADOW: &str = "shadow";
/// Room for an ordinary command or row. Bytes.
const DOCUMENT_BYTES: usize = 1_536;

/// A text: of the engine's values where a document is written, its own where one is read.
pub type Text<'a> = Cow<'a, str>;

/// The JSON of a command or a row.
#[must_use]
pub fn to_json(document: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(DOCUMENT_BYTES);
    // Structs, texts and numbers that go into memory cannot fail.
    _ = serde_json::to_writer(&mut json, document);
    json
}

fn is_empty<T>(list: &[T]) -> bool {
    list.is_empty()
}

/// What only explains: its default where it has a form that is not known.
fn if_known<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(deserializer: D) -> Result<T, D::Error> {
    let source = Box::<RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(source.get()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::detect::Detector;
    use crate::engine::{self, Action, Advice, Board, CommandId, IdentityRecipe, PlacedBy, Placement, SubjectKey};
    use crate::event::EventTime;
    use crate::identity::Hash128;

    fn text(document: &impl Serialize) -> String {
        String::from_utf8(to_json(document)).unwrap()
    }

    #[test]
    fn a_share_has_four_decimals_and_what_is_no_number_is_none() {
        let written = [1.0, 0.4 + 0.55, 0.123_44, f64::NAN, f64::INFINITY].map(|share| text(&Ratio(share)));
        assert_eq!(written, ["1.0", "0.95", "0.1234", "0", "0"]);
    }

    #[test]
    fn a_row_is_written_in_the_order_of_its_fields() {
        let verdict = engine::Verdict {
            command_id: CommandId([0; 16]),
            action: Action::Nudge,
            scope: engine::Scope {
                tool: Some("Bash".to_owned()),
                tools: Vec::new(),
                fingerprint: Some((Hash128(0xa), IdentityRecipe::Coarse(["path".to_owned()].into()))),
                only: vec![("s".to_owned(), "main".to_owned())],
            },
            level: 1,
            episode: CommandId([0; 16]),
            by: PlacedBy::Detector(Detector::SwarmRepeat),
            message: "a \"b\"".to_owned(),
            placement: Placement::AppendToResult { call_id: Some("c".to_owned()) },
            advice: Some(Advice::Stop),
            issued_at: EventTime(1),
            expires_at: EventTime(3),
        };
        let of = SubjectKey::Swarm { tenant: "t".to_owned(), swarm_id: "w".to_owned(), fingerprint: Hash128(0xa) };
        let board = Board { epoch: -1, seq: 2, verdicts: vec![verdict.clone()].into(), ..Board::default() };
        let row = Row::of(&of, &board, EventTime(2)).unwrap();
        let expected = concat!(
            r#"{"v":1,"subject":{"kind":"swarm","tenant":"t","swarm_id":"w","fingerprint":"0000000000000000000000000000000a"},"#,
            r#""status":"nudged","epoch":0,"seq":2,"updated_at":"1970-01-01T00:00:00.002Z","expires_at":"1970-01-01T00:00:00.003Z","#,
            r#""active":[{"command_id":"00000000000000000000000000","action":"nudge","scope":{"kind":"swarm","tool":"Bash","#,
            r#""fingerprint":"0000000000000000000000000000000a","identity":{"kind":"coarse","args":["path"]},"#,
            r#""only":[{"session_id":"s","agent_id":"main"}]},"level":1,"episode":"00000000000000000000000000","#,
            r#""code":"swarm_repeat","message":"a \"b\"","placement":"append_to_result","call_id":"c","advice":"stop","#,
            r#""issued_at":"1970-01-01T00:00:00.001Z","expires_at":"1970-01-01T00:00:00.003Z"}]}"#,
        );
        assert_eq!(text(&row), expected);
        let read: Row<'_> = serde_json::from_str(expected).unwrap();
        let [active] = <[Verdict<'_>; 1]>::try_from(read.active).unwrap();
        assert_eq!((active.scope.read(), active.expires_at), (Some(verdict.scope), Some(EventTime(3))));
        assert!(Row::of(&of, &Board::default(), EventTime(2)).is_none());
    }

    #[test]
    fn a_reader_refuses_what_it_needs_and_does_not_know_and_nothing_else() {
        let command = json!({
            "v": 1, "id": "c", "action": "nudge", "session_id": "s", "level": 1, "epoch": 1, "seq": 1, "episode": "c",
            "scope": { "kind": "session", "agent_id": "main", "new": 1 }, "issued_at": "soon", "expires_at": "2026-01-01T00:00:00Z",
            "mode": "live", "reason": { "code": "stuck", "evidence": { "count": 3, "new": {} } }, "labels": 1, "engine": []
        });
        let read = |command: &serde_json::Value| serde_json::from_value::<Command<'static>>(command.clone()).ok();
        let found = read(&command).unwrap();
        assert!(matches!(found.reason.evidence.get("count"), Some(Fact::Count(3))));
        assert_eq!((found.issued_at, found.expires_at.is_some(), found.trigger.event_id), (None, true, None));
        for (field, value, is_read) in
            [("trigger", json!(5), true), ("trigger", json!({ "event_id": 5 }), true), ("level", json!("1"), false)]
        {
            let mut changed = command.clone();
            changed[field] = value;
            assert_eq!(read(&changed).is_some(), is_read, "{field}");
        }
    }
}
