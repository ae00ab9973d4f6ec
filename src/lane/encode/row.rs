//! A state row as JSON (`session_state.v1`): the verdicts in force for a subject.

use loopwarden_core::engine::{Action, Head, Placement, SubjectKey, SwarmCounter, Verdict};
use loopwarden_core::event::EventTime;

use super::part::{id_text, scope, subject};
use crate::encode::json;
use crate::encode::json::Object;

/// What a state row says of its subject.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Verdicts in force.
    pub verdicts: &'a [Verdict],
    /// Epoch of the last live command.
    pub epoch: i64,
    /// Its number.
    pub seq: u64,
}

impl<'a> Row<'a> {
    /// Of a session's agent.
    pub fn of_head(head: &'a Head) -> Self {
        Self { verdicts: &head.verdicts, epoch: head.epoch, seq: head.live_seq }
    }

    /// Of a counter: of periods that overlap in time, the last.
    pub fn of_counter(counter: &'a SwarmCounter) -> Self {
        let last = counter.periods.values().map(|period| (period.epoch, period.seq)).max();
        let (epoch, seq) = last.unwrap_or_default();
        Self { verdicts: &counter.verdicts, epoch, seq }
    }

    /// The row as JSON, as of an input at `at`; none where no verdict holds.
    pub fn text(&self, of: &SubjectKey, at: EventTime) -> Option<String> {
        document(of, self, at)
    }
}

/// The document of a row after an input at `at`; none where no verdict holds.
pub(super) fn document(of: &SubjectKey, row: &Row<'_>, at: EventTime) -> Option<String> {
    let expires_at = row.verdicts.iter().map(|verdict| verdict.expires_at).max()?;
    let is_blocked = row.verdicts.iter().any(|verdict| verdict.action == Action::Block);
    Some(json::document(|json| {
        json.number("v", 1_u64);
        let mut agent_id = None;
        json.object("subject", |json| {
            json.text(
                "kind",
                match of {
                    SubjectKey::Agent { .. } => "agent",
                    SubjectKey::Swarm { .. } => "swarm",
                    SubjectKey::Fleet { .. } => "fleet",
                },
            );
            agent_id = subject(json, of);
            if let Some(agent_id) = agent_id {
                json.text("agent_id", agent_id);
            }
            if let SubjectKey::Swarm { fingerprint, .. } | SubjectKey::Fleet { fingerprint, .. } = of {
                json.text("fingerprint", &fingerprint.to_string());
            }
        });
        json.text("status", if is_blocked { "blocked" } else { "nudged" });
        json.number("epoch", row.epoch.max(0));
        json.number("seq", row.seq);
        json.time("updated_at", at);
        json.time("expires_at", expires_at);
        json.list("active", row.verdicts, |active, out| json::object(out, |json| verdict(json, active, agent_id)));
    }))
}

fn verdict(json: &mut Object<'_>, verdict: &Verdict, agent_id: Option<&str>) {
    json.text("command_id", &id_text(&verdict.command_id));
    json.text("action", verdict.action.as_str());
    json.object("scope", |json| scope(json, &verdict.scope, agent_id));
    json.number("level", verdict.level);
    json.text("episode", &id_text(&verdict.episode));
    json.text("code", verdict.detector.as_str());
    json.text("message", &verdict.message);
    if let Placement::AppendToResult { call_id } = &verdict.placement {
        json.text("placement", "append_to_result");
        if let Some(call_id) = call_id {
            json.text("call_id", call_id);
        }
    }
    if let Some(advice) = verdict.advice {
        json.text("advice", advice.as_str());
    }
    json.time("issued_at", verdict.issued_at);
    json.time("expires_at", verdict.expires_at);
}
