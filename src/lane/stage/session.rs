//! The session stage: one record's way from bytes to effects in the overlay.
//!
//! Skip what is below the next offset (C12); decode; move the watermark; fire the timers that fell due, in their order; apply (I4: per
//! record, never per batch). The session comes from the cache, else from the store.

use loopwarden_core::engine::{Input, SourcePosition, SubjectKey, TimerKind, TreeFact};
use loopwarden_core::event::{Content, Event, EventKind, EventTime, Reason, Record, Rejected, Stage as TaskStage, partition_of};
use loopwarden_core::limits::{LETTERS_WHOLE_PER_MINUTE, TIMERS_PER_COMMIT};
use loopwarden_state::report::Sum;
use loopwarden_state::{StoreError, TenantMinute, TimerKey, session as stored};

use crate::encode::dead_letter_id;
use crate::metrics::stats::{Kind, Placement, Stats, Without, bump, count};
use crate::settings::{LaneSettings, OnTrouble};
use crate::stage::context::{Cause, Halt, RecordContext, Work};
use crate::stage::effects::{Decided, finish};
use crate::task::poison::{Culprit, Sender, guarded};
use crate::{commit::overlay::Audited, memory::cache::EntryId};

impl RecordContext<'_> {
    /// Takes one record, or the sum that stands for its value.
    pub(crate) fn record(&mut self, record: &Record<'_>, sum: Option<&Sum>) -> Result<(), Halt> {
        let offset = record.meta.offset;
        if let Some(reason) = self.work.marks.get(self.id, &Culprit::Record(offset.0)) {
            if reason == Reason::Panic {
                self.pass_time(record, sum)?;
            }
            if reason == Reason::Panic && self.task.window.note_panic(Sender::of(record), record.meta.timestamp) {
                self.trip(|| "records of too many senders panic".to_owned())?;
            }
            self.dead_letter(record, &Rejected::whole(reason))?;
            // The next one may kill too, and what is known of this one dies with the process.
            self.work.overlay.must_go |= reason == Reason::Crash;
        } else if self.work.settings.tick_header.is_some_and(|tick| record.meta.headers.iter().any(|(name, _)| *name == tick)) {
            // Time passes although no agent says anything: a record like any other, so a replay sees it too.
            self.task.advance_watermark(record.meta.timestamp, self.work.settings.lateness_ms);
            self.fire_due(record)?;
        } else if self.id.stage == TaskStage::Swarm {
            self.swarm_record(record, sum)?;
        } else {
            match record.decode() {
                Err(rejected) => self.dead_letter(record, &rejected)?,
                Ok(mut event) => {
                    self.work.overlay.stats.unpriced_tokens += self.work.engine.policy().prices.fill(&mut event);
                    self.event(record, &event)?;
                }
            }
        }
        self.work.overlay.note_record(self.id.stage, record.value.map_or(0, <[u8]>::len));
        self.task.now.next_offset = offset.next();
        self.task.reading.recorded = record.meta.timestamp;
        self.task.halfway = None;
        Ok(())
    }

    /// A record that panics has moved the watermark before, and where a commit came between two of the timers that fell due, that stays:
    /// so its time counts always. What kills the process may do so while it is decoded, and has none.
    fn pass_time(&mut self, record: &Record<'_>, sum: Option<&Sum>) -> Result<(), Halt> {
        match self.id.stage {
            TaskStage::Swarm => self.pass_swarm_time(record, sum),
            TaskStage::Session => {
                if let Ok(event) = record.decode() {
                    self.task.advance_watermark(event.time, self.work.settings.lateness_ms);
                }
            }
        }
        self.fire_due(record)
    }

    fn event(&mut self, record: &Record<'_>, event: &Event<'_>) -> Result<(), Halt> {
        self.task.advance_watermark(event.time, self.work.settings.lateness_ms);
        self.fire_due(record)?;
        if !self.is_within_limit(event)? {
            return self.dead_letter(record, &Rejected::at(Reason::TenantLimit, "tenant"));
        }
        let place = SourcePosition {
            topic: record.meta.topic,
            partition: record.meta.partition,
            offset: record.meta.offset.0,
            watermark: self.task.now.watermark,
        };
        let cause = Cause { offset: record.meta.offset.0, at: event.time.max(event.record_time), record_time: event.record_time };
        if event.kind.stop_scope().is_some() {
            if !self.is_of_its_key(record, event) {
                return self.dead_letter(record, &Rejected::whole(Reason::WrongKey));
            }
            self.act(record, event, place, cause)?;
        } else {
            // The sender of a reset that a commit has cut in two has it already.
            let mut reaches_others = true;
            if self.task.halfway != Some(record.meta.offset) {
                let tenant = event.tenant.as_deref().unwrap_or_default();
                let id = if let Some(id) = self.work.cache.find(self.id, tenant, &event.session_id, &event.agent_id) {
                    id
                } else {
                    let key = SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, &event.agent_id);
                    self.load(SubjectKey::of_event(event), key.as_bytes())?
                };
                self.apply(id, Input::Event(event, place), cause, || Culprit::Record(record.meta.offset.0))?;
                reaches_others = self.work.effects.reaches_others;
            }
            if reaches_others {
                self.reset_others(event, place, cause)?;
            }
        }
        self.task.window.note_event();
        count_event(&mut self.work.overlay.stats, record, event, &self.work.settings);
        Ok(())
    }

    /// Whether an act of an operator has the key of those whom it means, and lies where all acts about them do: in another partition its
    /// release would not find it. Where partitions are not known there are no keys to go by.
    fn is_of_its_key(&self, record: &Record<'_>, event: &Event<'_>) -> bool {
        let key = event.session_id.as_bytes();
        match (record.meta.key, self.work.settings.partitions) {
            (Some(given), Some(partitions)) => given == key && partition_of(key, partitions.session) == record.meta.partition,
            (Some(given), None) => given == key,
            (None, partitions) => partitions.is_none(),
        }
    }

    /// Fires every timer due at the watermark, in the order of (due time, kind, subject).
    pub(crate) fn fire_due(&mut self, record: &Record<'_>) -> Result<(), Halt> {
        let mut fired = 0;
        while let Some(bytes) = self.task.timers.due(&*self.work.store, self.id, self.task.now.watermark)? {
            if fired > 0 && (self.work.is_full() || fired >= TIMERS_PER_COMMIT) {
                return Err(Halt::Full);
            }
            fired += 1;
            self.fire(&bytes, record)?;
        }
        Ok(())
    }

    /// Fires one timer.
    pub(crate) fn fire(&mut self, bytes: &[u8], record: &Record<'_>) -> Result<(), Halt> {
        // Nearly always empty: the key is copied only to ask for it.
        if !self.work.marks.is_empty()
            && let Some(reason) = self.work.marks.get(self.id, &Culprit::Timer(bytes.to_vec()))
        {
            // Before its key goes: a task that stops here must find the timer again.
            self.put_aside(bytes, record, reason)?;
            self.task.timers.remove(bytes);
            self.work.overlay.stats.timers_fired += 1;
            return Ok(());
        }
        // Its key goes first: whatever it does, it does once.
        self.task.timers.remove(bytes);
        self.work.overlay.stats.timers_fired += 1;
        let Some(timer) = TimerKey::decode(bytes) else { return Ok(()) };
        let Some(kind) = TimerKind::from_number(timer.kind) else { return Ok(()) };
        if self.id.stage == TaskStage::Swarm {
            return self.fire_counter(timer, kind, bytes, record.meta.offset.0);
        }
        if kind == TimerKind::Stop {
            let cause = Cause { offset: record.meta.offset.0, at: timer.due, record_time: timer.due };
            return self.fire_stop(&timer, cause);
        }
        let id = if let Some(id) = self.work.cache.find_key(self.id, timer.subject) {
            id
        } else {
            // What is the key of no session is none in the cache either.
            let Some(subject) = stored::subject_of(timer.subject) else { return Ok(()) };
            self.load(subject, timer.subject)?
        };
        // A timer of a session that is gone: nothing is left to do.
        if !self.work.cache.get_mut(id).is_some_and(|entry| entry.session.has_begun) {
            return Ok(());
        }
        let cause = Cause { offset: record.meta.offset.0, at: timer.due, record_time: timer.due };
        self.apply(id, Input::Timer(kind, timer.due), cause, || Culprit::Timer(bytes.to_vec()))
    }

    /// A timer that panicked becomes a dead letter.
    fn put_aside(&mut self, bytes: &[u8], record: &Record<'_>, reason: Reason) -> Result<(), Halt> {
        let timer = TimerKey::decode(bytes);
        let of = timer.as_ref().map_or_else(|| Sender::of(record), |timer| Sender::named(timer.subject));
        if self.task.window.note_panic(of, record.meta.timestamp) {
            self.trip(|| "timers of too many sessions panic".to_owned())?;
        }
        let kind = timer.and_then(|timer| TimerKind::from_number(timer.kind));
        // The record that moved the watermark is not to blame: the letter names its place and the timer, and has no value.
        let rejected = Rejected { reason, field: format!("timer:{}", kind.map_or("unknown", TimerKind::as_str)) };
        let blamed = Record::new(record.meta.clone(), None);
        self.dead_letter(&blamed, &rejected)
    }

    pub(crate) fn load(&mut self, subject: SubjectKey, key: &[u8]) -> Result<EntryId, StoreError> {
        let history_steps = self.work.engine.policy().history_steps;
        self.work.cache.make_room(&mut *self.work.store)?;
        let loaded = stored::load(&*self.work.store, self.id, key, history_steps)?;
        Ok(self.work.cache.insert(self.id, subject, key, loaded, history_steps))
    }

    pub(crate) fn apply(
        &mut self,
        id: EntryId,
        input: Input<'_>,
        cause: Cause,
        culprit: impl FnOnce() -> Culprit,
    ) -> Result<(), Halt> {
        let Some(entry) = self.work.cache.get_mut(id) else { return Ok(()) };
        let (engine, observer, effects) = (&self.work.engine, &mut self.work.observer, &mut self.work.effects);
        effects.clear();
        entry.begin();
        let held = &mut **entry;
        let applied = guarded(|| {
            let before = held.session.history.next_sequence();
            engine.apply(&held.subject, &mut held.session, input, effects);
            if let Some(observer) = observer {
                observer.applied(input, &held.subject, &held.session, before, effects);
            }
        });
        if applied.is_err() {
            // Half changed: nobody may see it again.
            self.note_touched(id);
            return Err(Halt::Panicked(culprit()));
        }
        self.work.overlay.note_rewritten(entry.session.changed_steps.len().saturating_sub(1));
        if effects.forgotten {
            entry.forget(engine.policy().history_steps);
            self.work.overlay.stats.sessions_forgotten += 1;
        }
        let (encoder, board) = (&self.work.encoder, &entry.session.head.board);
        let row = effects.verdicts_changed.then(|| encoder.row(&entry.subject, board, cause.at, self.id)).flatten();
        let decided = Decided { key: entry.key(), effects, row };
        finish(self.id, self.task, encoder, &mut self.work.overlay, decided, cause);
        self.note_touched(id);
        self.hand_on(cause);
        let effects = &self.work.effects;
        Ok(self.task.census.note(&effects.counters, effects.forgotten, &*self.work.store, self.id)?)
    }

    /// A session was applied to: the next commit writes it.
    fn note_touched(&mut self, id: EntryId) {
        if self.work.cache.touched(id) {
            self.work.overlay.note_session();
        }
    }

    /// What is not of the session alone: sums for the swarm stage, and findings for the audit.
    fn hand_on(&mut self, cause: Cause) {
        let Work { effects, overlay, engine, settings, .. } = &mut *self.work;
        if settings.swarm {
            for call in effects.counts.drain(..) {
                overlay.bytes += overlay.sums.add(call, engine.policy());
            }
            for used in effects.uses.drain(..) {
                overlay.bytes += overlay.sums.add_use(used);
            }
            for seen in effects.trees.drain(..) {
                overlay.grows_tree |= !matches!(seen.what, TreeFact::Used(_));
                overlay.bytes += overlay.sums.add_tree(seen, engine.policy());
            }
            if let Some(reset) = effects.swarm_reset.take() {
                overlay.bytes += overlay.sums.reset(reset, cause.record_time);
            }
        }
        for finding in effects.findings.drain(..) {
            if let Some(by_mode) = overlay.stats.detections.get_mut(usize::from(finding.detector.number())) {
                bump(by_mode, finding.mode as usize);
            }
            overlay.audit.push(Audited { task: self.id, offset: cause.offset, finding });
        }
    }

    pub(crate) fn dead_letter(&mut self, record: &Record<'_>, rejected: &Rejected) -> Result<(), Halt> {
        let sender = Sender::of(record);
        // Nothing that an agent says is a sign of a bad deploy. What the swarm stage reads, this program wrote.
        let is_sign = rejected.reason.is_of_the_form()
            || (self.id.stage == TaskStage::Swarm && !matches!(rejected.reason, Reason::Panic | Reason::Crash));
        if is_sign && self.task.window.note_malformed(sender) {
            self.trip(|| "too many senders send what is no event".to_owned())?;
        }
        let is_whole = self.admits(TenantMinute::LETTERS, &sender.name(), LETTERS_WHOLE_PER_MINUTE, record.meta.timestamp)?;
        let ordinal = self.task.count_output(dead_letter_id(record).as_bytes());
        let letter = self.work.encoder.dead_letter((record, is_whole), rejected, self.id, ordinal);
        let stats = &mut self.work.overlay.stats;
        bump(&mut stats.rejected, rejected.reason as usize);
        stats.limit_dead_letters += u64::from(letter.headers.get("dlq.bytes").is_some());
        self.work.overlay.push_output((self.id, record.meta.offset), letter);
        Ok(())
    }

    /// Counts an event; false where its tenant has had its share. An act of a person is never refused.
    fn is_within_limit(&mut self, event: &Event<'_>) -> Result<bool, Halt> {
        let tenant = event.tenant.as_deref().unwrap_or_default();
        let limit = self.work.engine.policy().tenants.events_per_minute(tenant);
        match limit.filter(|_| !event.kind.is_act()) {
            Some(limit) => self.admits(TenantMinute::EVENTS, tenant, limit, event.record_time),
            None => Ok(true),
        }
    }

    /// Counts what a record of a tenant, or of a sender, brought; false where its minute has had the limit.
    fn admits(&mut self, of: &[u8], name: &str, limit: u32, recorded: EventTime) -> Result<bool, Halt> {
        let minute = self.task.minutes.get(of, &*self.work.store, self.id)?;
        Ok(minute.get_or_insert_default().admits(recorded, name, limit))
    }

    /// A record of one sender too many that sends bad ones: it is counted, and stops the task where that is asked for.
    pub(crate) fn trip(&mut self, why: impl FnOnce() -> String) -> Result<(), Halt> {
        match self.work.settings.on_bad_records {
            OnTrouble::Stop => Err(Halt::Tripped(why())),
            OnTrouble::Continue => {
                self.work.overlay.stats.wave_records += 1;
                Ok(())
            }
        }
    }
}

fn count_event(stats: &mut Stats, record: &Record<'_>, event: &Event<'_>, settings: &LaneSettings) {
    let (kind, has_args, has_result) = match &event.kind {
        EventKind::ToolCall(call) => (Kind::ToolCall, call.args != Content::Absent, true),
        EventKind::ToolResult(result) => {
            (Kind::ToolResult, true, result.result != Content::Absent || result.stable_result != Content::Absent)
        }
        EventKind::Tool(call, result) => (
            Kind::Tool,
            call.args != Content::Absent,
            result.result != Content::Absent || result.stable_result != Content::Absent,
        ),
        EventKind::Message(_) => (Kind::Message, true, true),
        EventKind::SessionStart => (Kind::SessionStart, true, true),
        EventKind::SessionEnd => (Kind::SessionEnd, true, true),
        EventKind::Progress => (Kind::Progress, true, true),
        EventKind::Reset(_) => (Kind::Reset, true, true),
        EventKind::Ack(_) => (Kind::Ack, true, true),
        EventKind::Stop(_) => (Kind::Stop, true, true),
        EventKind::Release(_) => (Kind::Release, true, true),
        EventKind::Answer(_) => (Kind::Answer, true, true),
    };
    bump(&mut stats.events, kind as usize);
    let has = [
        (Without::Args, has_args),
        (Without::Result, has_result),
        (Without::Time, event.has_time),
        (Without::Agent, event.has_agent),
    ];
    for (what, has_it) in has {
        count(&mut stats.without, what as usize, u64::from(!has_it));
    }
    stats.in_seconds += u64::from(event.has_time && event.time.looks_like_seconds());
    stats.limit_texts += u64::from(event.texts_cut);
    let key = record.meta.key.unwrap_or_default();
    stats.key_mismatch += u64::from(key != event.session_id.as_bytes());
    if let Some(partitions) = settings.partitions {
        let is_there = partition_of(key, partitions.session) == record.meta.partition;
        let placement = if is_there { Placement::Murmur2 } else { Placement::Other };
        bump(&mut stats.placement, placement as usize);
    }
}
