//! What is known of the event that is decided about.

use crate::engine::effects::{RecipeForm, SwarmCall, SwarmCallKey};
use crate::engine::input::SourcePosition;
use crate::engine::publishing::command::{Origin, Trigger};
use crate::engine::subject::SubjectKey;
use crate::event::{Event, EventKind, EventTime};
use crate::identity::Hash64;
use crate::policy::{Evaluate, Policy};

/// What every decision about one event needs to know.
pub(super) struct Context<'a> {
    pub app: &'a str,
    /// What it is judged under.
    pub policy: &'a Policy,
    pub subject: &'a SubjectKey,
    pub event: &'a Event<'a>,
    /// Hash of the event's id.
    pub id: Hash64,
    pub place: SourcePosition<'a>,
    /// Time of the session at the event; it never goes back.
    pub time: EventTime,
    /// Event time since the event before it, milliseconds.
    pub pause_ms: i64,
    /// First step that counted before the event: what was called earlier belongs to what was reset.
    pub floor: u64,
}

impl Context<'_> {
    /// Later of the event time and the record timestamp: what commands are issued at.
    pub(super) fn issued_at(&self) -> EventTime {
        self.time.max(self.event.record_time)
    }

    pub(super) fn tenant(&self) -> &str {
        self.event.tenant.as_deref().unwrap_or_default()
    }

    /// The call the event is about, where it names one.
    pub(super) fn call_id(&self) -> Option<&str> {
        match &self.event.kind {
            EventKind::ToolCall(call) | EventKind::Tool(call, _) => call.call_id.as_deref(),
            EventKind::ToolResult(result) => result.call_id.as_deref(),
            _ => None,
        }
    }

    pub(super) fn trigger(&self) -> Trigger {
        Trigger::Event {
            event_id: self.event.id.clone().into_owned(),
            call_id: self.call_id().map(str::to_owned),
            topic: self.place.topic.to_owned(),
            partition: self.place.partition,
            offset: self.place.offset,
            time: self.time,
            traceparent: self.event.traceparent.as_deref().map(str::to_owned),
        }
    }

    /// Turn of the event + 1; 0 = unknown.
    pub(super) fn turn(&self) -> u64 {
        self.event.turn.map_or(0, |turn| turn.saturating_add(1))
    }

    /// Whether `exact_repeat` judges all calls of a turn together.
    pub(super) fn judges_by_turn(&self) -> bool {
        let settings = &self.policy.detectors.exact_repeat;
        settings.evaluate == Evaluate::Turn && settings.mode.is_on()
    }

    /// Where a command about this event comes from.
    pub(super) fn origin(&self, epoch: i64, seq: u64) -> Origin<'_> {
        Origin {
            app: self.app,
            subject: self.subject.clone(),
            epoch,
            seq,
            cause: &self.event.id,
            issued_at: self.issued_at(),
            trigger: self.trigger(),
        }
    }

    /// What commands carry of the event.
    pub(super) fn labels(&self) -> Vec<(String, String)> {
        self.event.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    pub(super) fn swarm_call(&self, key: SwarmCallKey, tool: &str, form: RecipeForm) -> SwarmCall {
        SwarmCall {
            key,
            tool: tool.to_owned(),
            form,
            session_id: self.event.session_id.clone().into_owned(),
            agent_id: self.event.agent_id.clone().into_owned(),
            time: self.time,
            record_time: self.event.record_time,
        }
    }
}
