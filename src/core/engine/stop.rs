//! Stops of operators: what is in force for one subject, and what an event or the passing of time makes of it.
//!
//! A stop stands beside what detectors have placed and never touches it: whoever is released is as if there had been no stop.

use std::collections::VecDeque;

use crate::detect::Advice;
use crate::engine::publishing::command::{Action, Command, CommandId, Fact, Origin, ReasonCode, Scope, ScopeKind};
use crate::engine::{input::SourcePosition, recording::lifecycle::remember, subject::SubjectKey};
use crate::event::{ACTOR, Event, EventKind, EventTime, StopScope};
use crate::identity::{Hash64, hash_text};
use crate::limits::STOP_REMEMBERED_MS;

/// The rung of the ladder that refuses all calls and ends the turn.
const LEVEL: u8 = 4;

/// A stop that holds until it ends or is released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForceStop {
    /// The command that placed it.
    pub command_id: CommandId,
    /// The first command about it.
    pub episode: CommandId,
    /// Who stops; empty where the event names nobody.
    pub actor: String,
    /// Why, in the words of whoever stops.
    pub reason: String,
    /// Whoever was stopped and can ask no guard any more goes on being stopped.
    pub fails_closed: bool,
    pub issued_at: EventTime,
    pub expires_at: EventTime,
}

impl InForceStop {
    /// Text for the model of an agent that is refused.
    #[must_use]
    pub fn message(&self) -> String {
        format!(
            "[System] An operator has stopped this agent until {}: {}. Call no tool, and end your turn.",
            self.expires_at.to_rfc3339(),
            self.reason.trim_end_matches('.')
        )
    }
}

/// All that is known of one subject.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StopState {
    /// Record timestamp (ms) at which this state began.
    pub epoch: i64,
    /// Number of commands so far.
    pub seq: u64,
    /// Largest event time so far.
    pub time: EventTime,
    /// Ids of the last events, oldest first.
    pub recent_events: VecDeque<Hash64>,
    pub in_force: Option<InForceStop>,
    /// Then nothing of it can be delivered again and still mean anything.
    pub forgotten_at: EventTime,
}

/// What came of an event, for whoever keeps the state.
#[derive(Debug, Default)]
pub struct StopEffects {
    pub command: Option<Command>,
    /// Its state row is to be written, or its tombstone.
    pub row_changed: bool,
    /// The event was delivered before.
    pub is_duplicate: bool,
}

impl StopState {
    /// When its timer is due.
    #[must_use]
    pub fn due(&self) -> EventTime {
        self.in_force.as_ref().map_or(self.forgotten_at, |stop| stop.expires_at)
    }

    /// Takes an event of its subject. One that is over when it comes, or repeats what holds already, publishes nothing.
    pub fn apply(&mut self, app: &str, event: &Event<'_>, place: SourcePosition<'_>) -> StopEffects {
        // A release that has the id of its stop is no copy of it.
        let kind = if matches!(event.kind, EventKind::Stop(_)) { "stop" } else { "release" };
        let id = hash_text(&format!("{kind}\n{}", event.id)).hash64();
        if self.recent_events.contains(&id) {
            return StopEffects { is_duplicate: true, ..StopEffects::default() };
        }
        remember(&mut self.recent_events, id);
        if self.epoch == 0 {
            self.epoch = event.record_time.0.max(1);
        }
        self.time = self.time.max(event.time);
        self.forgotten_at = self.forgotten_at.max(self.time.plus_ms(STOP_REMEMBERED_MS));
        let now = self.time.max(event.record_time);
        let mut effects = StopEffects::default();
        if self.in_force.as_ref().is_some_and(|stop| stop.expires_at <= now) {
            self.in_force = None;
            effects.row_changed = true;
        }
        let command = match &event.kind {
            EventKind::Stop(stop) => {
                self.forgotten_at = self.forgotten_at.max(stop.until.plus_ms(STOP_REMEMBERED_MS));
                let holds = self.in_force.as_ref().is_some_and(|held| {
                    held.expires_at == stop.until && held.reason == *stop.reason && held.fails_closed == stop.fails_closed
                });
                if holds || stop.until <= now {
                    return effects;
                }
                self.stop(app, event, place, now)
            }
            EventKind::Release(release) => {
                let Some(stop) = self.in_force.take() else { return effects };
                let origin = self.origin(app, event, place, now);
                let command = Command {
                    episode: stop.episode,
                    evidence: facts(actor(event), release.reason.as_deref(), false),
                    ..Command::new(origin, Action::Unblock, ReasonCode::Release, scope_of(event), LEVEL, stop.expires_at)
                };
                Some(Command { summary: summary("released", actor(event)), ..command })
            }
            _ => None,
        };
        effects.row_changed |= command.is_some();
        effects.command = command.map(|command| Command { labels: event.owned_labels(), ..command });
        effects
    }

    /// Time has come to `at`. Whether the row changes.
    pub fn fire(&mut self, at: EventTime) -> bool {
        let is_over = self.in_force.as_ref().is_some_and(|stop| stop.expires_at <= at);
        if is_over {
            self.in_force = None;
        }
        is_over
    }

    fn stop(&mut self, app: &str, event: &Event<'_>, place: SourcePosition<'_>, now: EventTime) -> Option<Command> {
        let EventKind::Stop(stop) = &event.kind else { return None };
        let origin = self.origin(app, event, place, now);
        let command = Command::new(origin, Action::Block, ReasonCode::Stop, scope_of(event), LEVEL, stop.until);
        let in_force = InForceStop {
            command_id: command.id,
            episode: self.in_force.as_ref().map_or(command.id, |held| held.episode),
            actor: actor(event).to_owned(),
            reason: stop.reason.clone().into_owned(),
            fails_closed: stop.fails_closed,
            issued_at: now,
            expires_at: stop.until,
        };
        let command = Command {
            episode: in_force.episode,
            confidence: Some(1.0),
            summary: summary("stopped", actor(event)),
            evidence: facts(actor(event), Some(&stop.reason), stop.fails_closed),
            message: Some(in_force.message()),
            advice: Some(Advice::Stop),
            ..command
        };
        self.in_force = Some(in_force);
        Some(command)
    }

    fn origin<'a>(&mut self, app: &'a str, event: &'a Event<'_>, place: SourcePosition<'_>, now: EventTime) -> Origin<'a> {
        self.seq += 1;
        Origin {
            app,
            subject: SubjectKey::of_event(event),
            epoch: self.epoch,
            seq: self.seq,
            issued_at: now,
            trigger: place.trigger(event, event.time),
        }
    }
}

/// Whom the command of an event binds.
fn scope_of(event: &Event<'_>) -> Scope {
    let kind = ScopeKind::of_stop(event.kind.stop_scope().unwrap_or(StopScope::Session));
    Scope { kind, tool: None, tools: Vec::new(), fingerprint: None, only: Vec::new() }
}

/// Who acts, as far as the event names anybody; else empty.
fn actor<'a>(event: &'a Event<'_>) -> &'a str {
    event.labels.iter().find(|(name, _)| name == ACTOR).map(|(_, value)| &**value).unwrap_or_default()
}

fn summary(what: &str, actor: &str) -> String {
    if actor.is_empty() { format!("{what} by an operator") } else { format!("{what} by {actor}") }
}

fn facts(actor: &str, reason: Option<&str>, fails_closed: bool) -> Vec<(&'static str, Fact)> {
    let text = |name, text: &str| (name, Fact::Text(text.to_owned()));
    let actor = Some(actor).filter(|actor| !actor.is_empty()).map(|actor| text("actor", actor));
    let reason = reason.map(|reason| text("reason", reason));
    actor.into_iter().chain(reason).chain(fails_closed.then(|| text("fail", "closed"))).collect()
}
