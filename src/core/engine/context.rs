//! What is known of the event that is decided about.

use crate::engine::effects::{RecipeForm, SwarmCall, SwarmCallKey};
use crate::engine::{command::Origin, input::SourcePosition, subject::SubjectKey};
use crate::event::{Event, EventTime};
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
            issued_at: self.issued_at(),
            trigger: self.place.trigger(self.event, self.time),
        }
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
