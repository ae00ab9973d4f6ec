//! Stops of operators: what is in force for one subject, and what an event or the passing of time makes of it.
//!
//! A stop stands beside what detectors have placed and never touches it: whoever is released is as if there had been no stop. It keeps the
//! reach of whoever has placed it: one who reaches less far may prolong it, and neither ends nor shortens it.

use crate::detect::Advice;
use crate::engine::command::{Action, Command, Fact, Origin, ReasonCode, Scope};
use crate::engine::publishing::board::{Board, OperatorStop, PlacedBy, Verdict};
use crate::engine::{input::SourcePosition, subject::SubjectKey};
use crate::event::{ACTOR, Event, EventKind, EventTime, Release, Stop};
use crate::identity::{Hash64, hash_text};
use crate::limits::STOP_REMEMBERED_MS;

/// The rung of the ladder that refuses all calls and ends the turn.
const LEVEL: u8 = 4;

/// All that is known of one subject.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StopState {
    /// Its verdict is the stop in force, if there is one.
    pub board: Board,
    /// Largest event time so far.
    pub time: EventTime,
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
    /// What is in force is of somebody who reaches farther, and stays as it is.
    pub is_refused: bool,
}

/// What a release that has ended a stop is remembered as, beside the kinds of acts.
pub const RELEASED: &str = "released";

/// An act as it is remembered. A release that has the id of its stop is no copy of it.
fn seen(what: &str, id: &str) -> Hash64 {
    hash_text(&format!("{what}\n{id}")).hash64()
}

impl StopState {
    /// When its timer is due.
    #[must_use]
    pub fn due(&self) -> EventTime {
        self.board.verdicts.next_expiry().unwrap_or(self.forgotten_at)
    }

    /// Whether an act of a kind and an id was among the last ones; or, of [`RELEASED`], was one and has ended a stop.
    #[must_use]
    pub fn has_seen(&self, what: &str, id: &str) -> bool {
        self.board.has_seen(seen(what, id))
    }

    /// The stop that holds at a time.
    #[must_use]
    pub fn in_force(&self, at: EventTime) -> Option<&Verdict> {
        self.board.verdicts.first().filter(|held| held.expires_at > at)
    }

    /// Takes an event of its subject. One that is over when it comes, or repeats what holds already, publishes nothing.
    pub fn apply(&mut self, app: &str, event: &Event<'_>, place: SourcePosition<'_>) -> StopEffects {
        let kind = if matches!(event.kind, EventKind::Stop(_)) { "stop" } else { "release" };
        if !self.board.takes(seen(kind, &event.id)) {
            return StopEffects { is_duplicate: true, ..StopEffects::default() };
        }
        if self.board.epoch == 0 {
            self.board.epoch = event.record_time.0.max(1);
        }
        self.time = self.time.max(event.time);
        self.forgotten_at = self.forgotten_at.max(self.time.plus_ms(STOP_REMEMBERED_MS));
        let now = self.time.max(event.record_time);
        let row_changed = self.fire(now);
        let command = match &event.kind {
            _ if self.is_wider_than(&event.kind) => {
                return StopEffects { row_changed, is_refused: true, ..StopEffects::default() };
            }
            EventKind::Stop(stop) => self.stop(app, event, stop, place, now),
            EventKind::Release(release) => self.release(app, event, release, place, now),
            _ => None,
        };
        let command = command.map(|command| Command { labels: event.owned_labels(), ..command });
        StopEffects { row_changed: row_changed || command.is_some(), command, ..StopEffects::default() }
    }

    /// Whether an act would end or shorten a stop of somebody who reaches farther than whoever acts.
    fn is_wider_than(&self, kind: &EventKind<'_>) -> bool {
        let Some((held, by)) = self.board.verdicts.first().and_then(|held| Some((held, held.stop()?))) else { return false };
        match kind {
            EventKind::Stop(stop) => stop.reach < by.reach && stop.until < held.expires_at,
            EventKind::Release(release) => release.reach < by.reach,
            _ => false,
        }
    }

    /// Time has come to `at`. Whether the row changes.
    pub fn fire(&mut self, at: EventTime) -> bool {
        !self.board.verdicts.expire(at).is_empty()
    }

    fn stop(
        &mut self,
        app: &str,
        event: &Event<'_>,
        stop: &Stop<'_>,
        place: SourcePosition<'_>,
        now: EventTime,
    ) -> Option<Command> {
        self.forgotten_at = self.forgotten_at.max(stop.until.plus_ms(STOP_REMEMBERED_MS));
        let held = self.board.verdicts.first();
        let is_same = |held: &Verdict| {
            let words = held.stop();
            held.expires_at == stop.until
                && words.is_some_and(|words| words.reason == *stop.reason && words.fails_closed == stop.fails_closed)
        };
        if held.is_some_and(is_same) || stop.until <= now {
            return None;
        }
        let (episode, by) = (held.map(|held| held.episode), held.and_then(Verdict::stop));
        // Who prolongs a stop of a farther reach takes nothing from it.
        let is_wider = by.is_some_and(|by| by.reach > stop.reach);
        let reach = by.map_or(stop.reach, |by| by.reach.max(stop.reach));
        let fails_closed = stop.fails_closed || is_wider && by.is_some_and(|by| by.fails_closed);
        let origin = self.origin(app, event, place, now);
        let begun = Command::new(origin, Action::Block, ReasonCode::Stop, Scope::default(), LEVEL, stop.until);
        let command = Command {
            episode: episode.unwrap_or(begun.id),
            confidence: Some(1.0),
            summary: summary("stopped", actor(event)),
            evidence: facts(actor(event), Some(&stop.reason), fails_closed),
            message: Some(message(&stop.reason, stop.until)),
            advice: Some(Advice::Stop),
            ..begun
        };
        let (actor, reason) = (actor(event).to_owned(), stop.reason.clone().into_owned());
        let by = PlacedBy::Operator(Box::new(OperatorStop { actor, reason, fails_closed, reach }));
        self.board.verdicts = vec![Verdict::of(&command, by)].into();
        Some(command)
    }

    fn release(
        &mut self,
        app: &str,
        event: &Event<'_>,
        release: &Release<'_>,
        place: SourcePosition<'_>,
        now: EventTime,
    ) -> Option<Command> {
        let held = self.board.verdicts.first()?.clone();
        self.board.verdicts.clear();
        self.board.note_seen(seen(RELEASED, &event.id));
        let origin = self.origin(app, event, place, now);
        Some(Command {
            episode: held.episode,
            evidence: facts(actor(event), release.reason.as_deref(), false),
            summary: summary("released", actor(event)),
            ..Command::new(origin, Action::Unblock, ReasonCode::Release, Scope::default(), LEVEL, held.expires_at)
        })
    }

    fn origin<'a>(&mut self, app: &'a str, event: &Event<'_>, place: SourcePosition<'_>, now: EventTime) -> Origin<'a> {
        let (epoch, seq) = (self.board.epoch, self.board.next_seq());
        let trigger = place.trigger(event, event.time);
        Origin { app, subject: SubjectKey::of_event(event), epoch, seq, issued_at: now, trigger }
    }
}

/// Text for the model of an agent that is refused.
fn message(reason: &str, until: EventTime) -> String {
    format!(
        "[System] An operator has stopped this agent until {}: {}. Call no tool, and end your turn.",
        until.to_rfc3339(),
        reason.trim_end_matches('.')
    )
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
