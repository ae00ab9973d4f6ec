//! The answer to a check, as it goes over the wire.

use serde::{Deserialize, Serialize};

/// What an agent may do next, and what its model should read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Version of this form: 1.
    pub v: u32,
    /// Whether the call may run.
    pub decision: Decision,
    /// What the answer comes from.
    pub action: Action,
    /// Text for the model; with `deny` always there and never empty. At most [`crate::MESSAGE_CHARS_MAX`] characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where the text goes, chosen among what the caller can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The command behind the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
    /// The first command about this loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<String>,
    /// Rung of the ladder, 1 to 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
    /// Why the command was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// When the command ends. RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The message in one word, for orchestrators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// What to do about this agent where no guard answers any more, until the command ends; absent: let it go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<Fail>,
    /// End the turn: only at level 4, with the advice `stop`, to a caller that can.
    #[serde(default)]
    pub stop: bool,
    /// How much the guard knows.
    pub state: Freshness,
    /// Whether the event of the check was taken.
    #[serde(default)]
    pub recorded: bool,
    /// Why it was not; absent where nobody asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Dropped>,
}

/// Whether a call may run. A nudge is `allow` with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    /// It may not; the model gets the message in its place.
    Deny,
}

/// What whoever was refused does where no guard answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fail {
    /// It refuses calls itself until the command ends.
    Closed,
}

/// What an answer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    None,
    Nudge,
    Block,
}

/// Where a text for the model goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// In front of the call's result: as the refusal, or as context of the call.
    Before,
    /// Behind the result of the call that has run.
    AppendToResult,
    /// In front of the agent's next turn.
    NextTurn,
}

/// Why a command was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The detector that found the loop.
    pub code: String,
    /// For people; absent where the guard follows the state topic, whose rows have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// How much the guard knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freshness {
    /// Time up to which verdicts are known. RFC 3339; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
    /// How far that is behind. Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<u64>,
    /// The decision was made without fresh verdicts.
    pub stale: bool,
    pub source: Source,
}

/// Where the verdicts of a guard come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The engine of this process.
    Embedded,
    /// The topic of state rows.
    Kafka,
    /// Another process, asked over HTTP.
    Upstream,
}

/// Why an event was not taken. None of them is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
    /// Too many events wait to be sent.
    QueueFull,
    /// The log takes no events now.
    Unavailable,
    /// The same failure of a call that the guard has refused, reported by the agent: already recorded as denied.
    Echo,
}

impl Answer {
    /// The call may run, without a text for the model.
    #[must_use]
    pub const fn allow(state: Freshness) -> Self {
        Self {
            v: 1,
            decision: Decision::Allow,
            action: Action::None,
            message: None,
            placement: None,
            command_id: None,
            episode: None,
            level: None,
            reason: None,
            expires_at: None,
            advice: None,
            fail: None,
            stop: false,
            state,
            recorded: false,
            dropped: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freshness() -> Freshness {
        Freshness { as_of: None, lag_ms: None, stale: true, source: Source::Kafka }
    }

    #[test]
    fn an_answer_without_a_word_is_short_and_comes_back() {
        let answer = Answer::allow(freshness());
        let text = serde_json::to_string(&answer).unwrap();
        let short =
            r#"{"v":1,"decision":"allow","action":"none","stop":false,"state":{"stale":true,"source":"kafka"},"recorded":false}"#;
        assert_eq!(text, short);
        assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), answer);
    }

    #[test]
    fn a_client_refuses_a_decision_that_nobody_knows() {
        let text = r#"{"v":1,"decision":"maybe","action":"none","state":{"stale":true,"source":"kafka"}}"#;
        assert!(serde_json::from_str::<Answer>(text).is_err());
        let new =
            r#"{"v":1,"decision":"deny","action":"block","message":"m","state":{"stale":false,"source":"embedded"},"new":[1]}"#;
        assert_eq!(serde_json::from_str::<Answer>(new).unwrap().decision, Decision::Deny);
    }
}
