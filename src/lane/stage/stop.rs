//! An operator's `stop` or `release`: one subject of its own, in the task that its record key leads to.

use loopwarden_core::engine::{Board, SourcePosition, StopState, SubjectKey, TimerChange, TimerKind, joined};
use loopwarden_core::event::{Event, EventKind, EventTime, Reason, Record, Rejected};
use loopwarden_core::limits::{STOPS_KEPT_MAX, STOPS_MAX};
use loopwarden_core::whom::Kind;
use loopwarden_state::TimerKey;

use crate::stage::context::{Cause, Halt, RecordContext, Work};
use crate::stage::effects::{Decided, finish};

/// Bytes that a changed stop counts for: its state, with the ids of its events.
const STOP_BYTES: usize = 2_048;

impl RecordContext<'_> {
    /// Takes an event of an operator. One that may not change what is in force, or for which there is no room, is a dead letter.
    pub(crate) fn act(
        &mut self,
        record: &Record<'_>,
        event: &Event<'_>,
        place: SourcePosition<'_>,
        cause: Cause,
    ) -> Result<(), Halt> {
        let subject = SubjectKey::of_event(event);
        let key = subject.row_key().into_bytes();
        let known = self.task.stops.get(&key, &*self.work.store, self.id)?;
        let was = known.as_ref().map(StopState::due);
        let is_new =
            known.as_ref().is_none_or(|known| known.in_force(event.record_time).is_none() && !known.has_seen("stop", &event.id));
        match &event.kind {
            // Whom nobody has stopped, nobody releases. It is remembered still: delivered again it would end a stop that came between.
            EventKind::Release(release) if release.scope < Kind::Tenant && was.is_none() => {
                self.has_room(event, &key, cause)?;
            }
            // What the operator of one tenant fills is the share of that tenant, and never the place of its own stop as a whole, or of all.
            EventKind::Stop(stop) if stop.scope < Kind::Tenant && is_new && !self.has_room(event, &key, cause)? => {
                self.work.overlay.stats.limit_stops += 1;
                return self.dead_letter(record, &Rejected::at(Reason::TooManyStops, "scope"));
            }
            _ => {}
        }
        let state = self.task.stops.get(&key, &*self.work.store, self.id)?.get_or_insert_default();
        let effects = state.apply(self.work.engine.app(), event, place);
        if effects.is_duplicate {
            self.work.overlay.stats.duplicates += 1;
            return Ok(());
        }
        self.work.effects.clear();
        self.work.effects.commands.extend(effects.command);
        self.finish_stop(&subject, &key, was, effects.row_changed, cause)?;
        if effects.is_refused { self.dead_letter(record, &Rejected::at(Reason::WiderStop, "reach")) } else { Ok(()) }
    }

    /// Whether one more stop of its tenant has room: only what is in force takes any. Where too many are remembered, that one of those that
    /// are over is forgotten which would be first.
    fn has_room(&mut self, event: &Event<'_>, own: &[u8], cause: Cause) -> Result<bool, Halt> {
        let prefix = joined(&["stop", event.tenant.as_deref().unwrap_or_default(), ""]);
        let (mut in_force, mut over, mut first) = (0, 0, None);
        self.task.stops.visit(prefix.as_bytes(), &*self.work.store, self.id, |key, state| {
            if state.in_force(event.record_time).is_some() {
                in_force += 1;
                return;
            }
            over += 1;
            let place = (state.forgotten_at, key.to_vec());
            if key != own && first.as_ref().is_none_or(|first| place < *first) {
                first = Some(place);
            }
        })?;
        if in_force + over >= STOPS_KEPT_MAX
            && let Some((_, key)) = first
            && let Some(subject) = loopwarden_state::stop::subject_of(&key)
            && let Some(state) = self.task.stops.get(&key, &*self.work.store, self.id)?.take()
        {
            self.work.effects.clear();
            self.finish_stop(&subject, &key, Some(state.due()), !state.board.verdicts.is_empty(), cause)?;
        }
        Ok(in_force < STOPS_MAX)
    }

    /// Fires the timer of a stop: it has ended, or can be forgotten.
    pub(crate) fn fire_stop(&mut self, timer: &TimerKey<'_>, cause: Cause) -> Result<(), Halt> {
        let Some(subject) = loopwarden_state::stop::subject_of(timer.subject) else { return Ok(()) };
        let known = self.task.stops.get(timer.subject, &*self.work.store, self.id)?;
        let Some(state) = known else { return Ok(()) };
        let row_changed = state.fire(timer.due);
        if state.due() <= timer.due {
            *known = None;
        }
        self.work.effects.clear();
        self.finish_stop(&subject, timer.subject, None, row_changed, cause)
    }

    /// Brings a stop as it is now into the overlay, with what the effects hold of its commands. `was`: where its timer stands.
    fn finish_stop(
        &mut self,
        subject: &SubjectKey,
        key: &[u8],
        was: Option<EventTime>,
        row_changed: bool,
        cause: Cause,
    ) -> Result<(), Halt> {
        let Work { effects, overlay, encoder, store, .. } = &mut *self.work;
        let state = self.task.stops.get(key, &**store, self.id)?;
        let now = state.as_ref().map(StopState::due);
        let nothing = Board::default();
        let board = state.as_ref().map_or(&nothing, |state| &state.board);
        effects.timers.extend((was != now).then_some(TimerChange { kind: TimerKind::Stop, was, now }));
        let row = row_changed.then(|| encoder.row(subject, board, cause.at, self.id)).flatten();
        finish(self.id, self.task, encoder, overlay, Decided { key, effects, row }, cause);
        self.work.overlay.bytes += STOP_BYTES;
        Ok(())
    }
}
