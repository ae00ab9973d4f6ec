//! A state row (`session_state.v1`): the verdicts in force for a subject.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::engine::{self, Board, Placement, SubjectKey};
use crate::event::EventTime;
use crate::identity::base32;
use crate::wire::{Text, VERSION, scope::Scope, subject::Subject, time, to_json};

/// A state row. What only people read of it is not read back.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row<'a> {
    pub v: u64,
    /// Whose verdicts they are; the key of the row says the same.
    #[serde(skip_deserializing)]
    pub subject: Subject<'a>,
    /// `blocked`, or `nudged`.
    #[serde(skip_deserializing)]
    pub status: &'static str,
    /// Epoch of the last live command.
    pub epoch: u64,
    /// Number of the last live command in its epoch.
    pub seq: u64,
    /// Time of the input that changed the row.
    #[serde(skip_deserializing, serialize_with = "time::serialize")]
    pub updated_at: Option<EventTime>,
    /// When the last of the verdicts ends.
    #[serde(skip_deserializing, serialize_with = "time::serialize")]
    pub expires_at: Option<EventTime>,
    pub active: Vec<Verdict<'a>>,
}

/// A verdict in force.
#[derive(Debug, Serialize, Deserialize)]
pub struct Verdict<'a> {
    /// The command that placed it.
    pub command_id: Text<'a>,
    /// Word of an [`engine::Action`]: a nudge or a block.
    pub action: Text<'a>,
    pub scope: Scope<'a>,
    pub level: u8,
    pub episode: Text<'a>,
    pub code: Text<'a>,
    pub message: Text<'a>,
    /// Where the text belongs; none: into the agent's next turn.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub placement: Option<&'static str>,
    /// The call behind whose result the text belongs, where the event names it.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Text<'a>>,
    /// Of a stop: who stops, and why.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Text<'a>>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text<'a>>,
    /// Of a stop: `closed` where it holds for whoever can ask no guard any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<Text<'a>>,
    #[serde(with = "time")]
    pub issued_at: Option<EventTime>,
    #[serde(with = "time")]
    pub expires_at: Option<EventTime>,
}

impl<'a> Row<'a> {
    /// The row of a subject after an input at `at`; none where no verdict holds.
    #[must_use]
    pub fn of(subject: &'a SubjectKey, board: &'a Board, at: EventTime) -> Option<Self> {
        let expires_at = board.verdicts.iter().map(|verdict| verdict.expires_at).max()?;
        let is_blocked = board.verdicts.blocks().next().is_some();
        let subject = Subject::of(subject);
        Some(Self {
            v: VERSION,
            status: if is_blocked { "blocked" } else { "nudged" },
            epoch: board.epoch.max(0).unsigned_abs(),
            seq: board.seq,
            updated_at: Some(at),
            expires_at: Some(expires_at),
            active: board.verdicts.iter().map(|verdict| Verdict::of(verdict, &subject)).collect(),
            subject,
        })
    }

    /// Its JSON.
    #[must_use]
    pub fn json(subject: &'a SubjectKey, board: &'a Board, at: EventTime) -> Option<Vec<u8>> {
        Self::of(subject, board, at).map(|row| to_json(&row))
    }
}

impl<'a> Verdict<'a> {
    fn of(verdict: &'a engine::Verdict, subject: &Subject<'a>) -> Self {
        let stop = verdict.stop();
        Self {
            command_id: base32(&verdict.command_id.0).into(),
            action: verdict.action.as_str().into(),
            scope: Scope::of(&verdict.scope, subject),
            level: verdict.level,
            episode: base32(&verdict.episode.0).into(),
            code: verdict.by.as_str().into(),
            message: Cow::Borrowed(&verdict.message),
            placement: placement(&verdict.placement),
            call_id: call_id(&verdict.placement),
            advice: verdict.advice.map(|advice| advice.as_str().into()),
            actor: stop.map(|stop| Cow::Borrowed(stop.actor.as_str())).filter(|actor| !actor.is_empty()),
            reason: stop.map(|stop| Cow::Borrowed(stop.reason.as_str())),
            fail: stop.filter(|stop| stop.fails_closed).map(|_| "closed".into()),
            issued_at: Some(verdict.issued_at),
            expires_at: Some(verdict.expires_at),
        }
    }
}

/// Word of a placement; none of the usual one, the agent's next turn.
pub(super) const fn placement(placement: &Placement) -> Option<&'static str> {
    match placement {
        Placement::NextTurn => None,
        Placement::AppendToResult { .. } => Some("append_to_result"),
    }
}

/// The call behind whose result a text belongs.
pub(super) fn call_id(placement: &Placement) -> Option<&str> {
    match placement {
        Placement::NextTurn => None,
        Placement::AppendToResult { call_id } => call_id.as_deref(),
    }
}
