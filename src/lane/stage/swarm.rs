//! The swarm stage: what session tasks add up for it, and the way of one such record to effects in the overlay.
//!
//! The way is the session stage's: skip, decode, move the watermark, fire what is due, apply (`session`). The watermark follows the
//! calls' event times, as far as every source has come (`sources`); a pane whose timer has fired takes no call any more, so what it told
//! cannot be told twice.

use std::ops::ControlFlow;

use loopwarden_core::engine::{SwarmCallKey, SwarmInput, SwarmReport, TimerChange, TimerKind};
use loopwarden_core::event::{EventTime, Reason, Record, Rejected};
use loopwarden_core::{limits::RESET_COUNTERS, policy::Detector};
use loopwarden_state::report::{SOURCES_HEADER, Sum, SwarmRecord, decode_sources, is_reset_key, parse_report_key, reset_key_of};
use loopwarden_state::swarm::{CounterKind, Floor};
use loopwarden_state::{KeyFamily, StoreError, TimerKey, swarm, try_scan};

use crate::stage::context::{Cause, Halt, RecordContext, Work};
use crate::stage::effects::{Decided, finish, move_timers};
use crate::task::poison::{Culprit, guarded};
use crate::{memory::counters::CounterId, sums::aggregates::SUM_BYTES};

/// Counters that are spared for one that comes; more would make a newcomer dear. Each is spared once in as many as may be kept.
const SPARED_MAX: usize = 4;

/// How late it is with a sum: the time of the last call in it, or of the reset.
fn time_of(sum: &Sum) -> EventTime {
    match sum {
        Sum::Report(_, report) => report.last().unwrap_or(report.record_time),
        Sum::Reset(time) => *time,
    }
}

fn calls_of(sum: &Sum) -> u64 {
    match sum {
        Sum::Report(_, report) => {
            let used = report.used.map_or(0, |window| window.used.calls);
            report.entries.iter().map(|entry| u64::from(entry.calls)).fold(used, u64::saturating_add)
        }
        Sum::Reset(_) => 0,
    }
}

/// When the last event behind a sum was recorded.
const fn recorded(sum: &Sum, record: &Record<'_>) -> EventTime {
    match sum {
        Sum::Report(_, report) => report.record_time,
        Sum::Reset(_) => record.meta.timestamp,
    }
}

/// Reads a record of `swarm-counts`.
fn read(key: &[u8], value: Option<&[u8]>) -> Result<Result<Sum, Rejected>, StoreError> {
    let reject = |reason, field: &str| Ok(Err(Rejected { reason, field: field.to_owned() }));
    let Some(value) = value else { return reject(Reason::NullValue, "") };
    match SwarmRecord::decode(value) {
        Ok(SwarmRecord::Report(report)) => match parse_report_key(key) {
            Some(key) => Ok(Ok(Sum::Report(key, report))),
            None => reject(Reason::BadValue, "key"),
        },
        Ok(SwarmRecord::Reset(time)) if is_reset_key(key) => Ok(Ok(Sum::Reset(time))),
        Ok(SwarmRecord::Reset(_)) => reject(Reason::BadValue, "key"),
        // A newer program of the group wrote it: this one must not go on without it.
        Err(error @ StoreError::OtherFormat(_)) => Err(error),
        Err(_) => reject(Reason::BadValue, ""),
    }
}

fn header<'a>(record: &Record<'a>, name: &str) -> Option<&'a [u8]> {
    record.meta.headers.iter().find(|(found, _)| *found == name)?.1
}

const fn kind_of(key: &SwarmCallKey) -> CounterKind {
    match key {
        SwarmCallKey::Swarm { .. } => CounterKind::Swarm,
        SwarmCallKey::Fleet { .. } => CounterKind::Fleet,
        SwarmCallKey::Budget { .. } | SwarmCallKey::Tree { .. } => CounterKind::Budget,
    }
}

impl RecordContext<'_> {
    /// Takes a record of `swarm-counts`, or the sum that stands for its value.
    pub(crate) fn swarm_record(&mut self, record: &Record<'_>, sum: Option<&Sum>) -> Result<(), Halt> {
        if let (Some(sources), Some(header)) = (self.work.settings.sources(), header(record, SOURCES_HEADER)) {
            return self.sources_moved(record, sources, header);
        }
        let key = record.meta.key.unwrap_or_default();
        let sum = match sum {
            // Its log keeps it until it is committed.
            Some(sum) => sum.clone(),
            None => match read(key, record.value)? {
                Ok(sum) => sum,
                Err(rejected) => return self.dead_letter(record, &rejected),
            },
        };
        self.time_passes(record, &sum);
        self.fire_due(record)?;
        self.sum(record, key, sum)
    }

    /// Moves the watermark as the record does that was read before it panicked.
    pub(crate) fn pass_swarm_time(&mut self, record: &Record<'_>, sum: Option<&Sum>) {
        if let Some(sum) = sum {
            self.time_passes(record, sum);
        } else if let Ok(Ok(sum)) = read(record.meta.key.unwrap_or_default(), record.value) {
            self.time_passes(record, &sum);
        }
    }

    fn time_passes(&mut self, record: &Record<'_>, sum: &Sum) {
        let time = time_of(sum);
        if self.work.settings.sources().is_some() {
            let (time, calls_max) = (time.minus_ms(self.work.settings.lateness_ms), self.work.settings.lag_calls_max);
            self.task.sources.note(recorded(sum, record), time, calls_of(sum), calls_max);
            self.follow_sources();
        } else {
            self.task.advance_watermark(time, self.work.settings.lateness_ms);
        }
    }

    fn follow_sources(&mut self) {
        let time = self.task.sources.time();
        self.task.advance_watermark(time, 0);
    }

    /// Partitions of events say how far they have been read.
    fn sources_moved(&mut self, record: &Record<'_>, sources: u32, header: &[u8]) -> Result<(), Halt> {
        match decode_sources(header) {
            Ok(watermarks) => {
                for (partition, watermark) in watermarks {
                    self.task.sources.moved(sources, partition, watermark);
                }
                self.follow_sources();
                self.fire_due(record)
            }
            // A newer program of the group wrote it: this one must not go on without it.
            Err(error @ StoreError::OtherFormat(_)) => Err(error.into()),
            Err(_) => self.dead_letter(record, &Rejected { reason: Reason::BadValue, field: SOURCES_HEADER.to_owned() }),
        }
    }

    fn sum(&mut self, record: &Record<'_>, key: &[u8], sum: Sum) -> Result<(), Halt> {
        match sum {
            Sum::Report(of, report) => {
                self.report(record, &of, key, report)?;
                self.task.window.note_event();
                self.work.overlay.stats.swarm_reports += 1;
            }
            Sum::Reset(time) => {
                self.swarm_reset(record, key, time)?;
                self.task.window.note_event();
            }
        }
        Ok(())
    }

    fn report(&mut self, record: &Record<'_>, of: &SwarmCallKey, key: &[u8], mut report: SwarmReport) -> Result<(), Halt> {
        if let Some(life_ms) = self.work.swarm.pane_life_ms(of) {
            let watermark = self.task.now.watermark;
            // What the slowest source would still have let pass.
            let released = self.work.settings.sources().map_or(watermark, |_| self.task.sources.released());
            let (mut late, mut lagging) = (0_u64, 0_u64);
            let mut is_in_time = |start: EventTime, calls: u64| {
                let dies = start.plus_ms(life_ms);
                match () {
                    () if dies > watermark => return true,
                    () if dies > released => lagging = lagging.saturating_add(calls),
                    () => late = late.saturating_add(calls),
                }
                false
            };
            report.entries.retain(|entry| is_in_time(entry.pane, u64::from(entry.calls)));
            // A whole life has no start from which it could be late.
            report.used = report.used.filter(|window| window.start.is_none_or(|start| is_in_time(start, window.used.calls)));
            report.spawned = report.spawned.filter(|window| is_in_time(window.start, 0));
            self.work.overlay.stats.swarm_late += late;
            self.work.overlay.stats.limit_swarm_lag += lagging;
        }
        if report.entries.is_empty() && report.used.is_none() && report.spawned.is_none() {
            return Ok(());
        }
        let place = self.work.counters.find(self.id, key, &*self.work.store)?;
        if self.work.counters.get(place)?.seen.is_none()
            && let Some(swarm) = reset_key_of(key).filter(|_| matches!(of, SwarmCallKey::Swarm { .. }))
        {
            let floor = *self.floor(swarm)?;
            self.work.counters.get(place)?.counter.floor = floor.map(|floor| floor.time);
        }
        let at = report.last().unwrap_or_default().max(report.record_time);
        let cause = Cause { offset: record.meta.offset.0, at, record_time: report.record_time };
        let culprit = || Culprit::Record(record.meta.offset.0);
        self.apply_counter((place, key), of, SwarmInput::Report(report), cause, culprit)
    }

    /// What a swarm remembers of its last reset.
    fn floor(&mut self, swarm: &[u8]) -> Result<&mut Option<Floor>, StoreError> {
        self.task.floors.get(swarm, &*self.work.store, self.id)
    }

    /// Forgets what every counter of a swarm holds up to a time, those that begin later included. As many counters as a commit takes:
    /// then the record is read again, and those that have it already are skipped.
    fn swarm_reset(&mut self, record: &Record<'_>, swarm: &[u8], time: EventTime) -> Result<(), Halt> {
        let floor = *self.floor(swarm)?;
        if floor.is_some_and(|floor| floor.time > time) {
            return Ok(());
        }
        self.set_floor(swarm, floor, time)?;
        // The record's own timestamp is the broker's: a replay could not know it.
        let cause = Cause { offset: record.meta.offset.0, at: time, record_time: time };
        let (mut from, mut is_over, mut applied) = (swarm.to_vec(), false, 0);
        while !is_over {
            let (mut keys, mut next) = (Vec::new(), None);
            let (task, counters) = (self.id, &self.work.counters);
            try_scan(&*self.work.store, task, KeyFamily::SwarmCounter, swarm, &from, |key, value| {
                if keys.len() == RESET_COUNTERS {
                    next = Some(key.to_vec());
                    return Ok(ControlFlow::Break(()));
                }
                if swarm::decode_head(value)?.counter.floor < Some(time) && !counters.is_changed(task, key) {
                    keys.push(key.to_vec());
                }
                Ok(ControlFlow::Continue(()))
            })?;
            is_over = next.is_none();
            from = next.unwrap_or(from);
            if is_over {
                keys.extend(self.work.counters.changed(task, swarm));
            }
            for key in keys {
                let Some(of) = parse_report_key(&key) else { continue };
                let place = self.work.counters.find(task, &key, &*self.work.store)?;
                if self.work.counters.get(place)?.counter.floor >= Some(time) {
                    continue;
                }
                if applied > 0 && self.work.overlay.is_full(&self.work.settings) {
                    return Err(Halt::Full);
                }
                applied += 1;
                let culprit = || Culprit::Record(cause.offset);
                self.apply_counter((place, &key), &of, SwarmInput::Reset(time), cause, culprit)?;
            }
        }
        Ok(())
    }

    fn set_floor(&mut self, swarm: &[u8], before: Option<Floor>, time: EventTime) -> Result<(), Halt> {
        let due = self.work.swarm.floor_life_ms().map(|life_ms| time.plus_ms(life_ms));
        let was = before.and_then(|floor| floor.due);
        move_timers(self.task, &[TimerChange { kind: TimerKind::Panes, was, now: due }], swarm);
        // One that is kept for ever leaves by its age where there are too many, like a counter: else floors alone would fill the task.
        let (until, of) = (due.unwrap_or(time), (CounterKind::Swarm, swarm));
        let seen = self.task.seen.note(of, before.map(|floor| floor.seen), until, &*self.work.store, self.id)?;
        *self.floor(swarm)? = Some(Floor { time, due, seen });
        self.work.overlay.bytes += SUM_BYTES;
        self.make_room_for(CounterKind::Swarm, swarm, seen)
    }

    fn forget_floor(&mut self, swarm: &[u8], floor: Floor) -> Result<(), Halt> {
        move_timers(self.task, &[TimerChange { kind: TimerKind::Panes, was: floor.due, now: None }], swarm);
        self.task.seen.forget((CounterKind::Swarm, swarm), floor.seen, &*self.work.store, self.id)?;
        *self.floor(swarm)? = None;
        self.work.overlay.bytes += SUM_BYTES;
        Ok(())
    }

    /// Fires a timer of a counter, or of a swarm's floor.
    pub(crate) fn fire_counter(&mut self, timer: TimerKey<'_>, kind: TimerKind, bytes: &[u8], offset: u64) -> Result<(), Halt> {
        let key = timer.subject;
        let Some(of) = parse_report_key(key) else {
            let floor = self.floor(key)?.filter(|floor| floor.due == Some(timer.due));
            return floor.map_or(Ok(()), |floor| self.forget_floor(key, floor));
        };
        let place = self.work.counters.find(self.id, key, &*self.work.store)?;
        if self.work.counters.get(place)?.seen.is_none() {
            return Ok(());
        }
        let cause = Cause { offset, at: timer.due, record_time: timer.due };
        let culprit = || Culprit::Timer(bytes.to_vec());
        self.apply_counter((place, key), &of, SwarmInput::Timer(kind, timer.due), cause, culprit)
    }

    pub(super) fn apply_counter(
        &mut self,
        (place, key): (CounterId, &[u8]),
        of: &SwarmCallKey,
        input: SwarmInput,
        cause: Cause,
        culprit: impl FnOnce() -> Culprit,
    ) -> Result<(), Halt> {
        let entry = self.work.counters.get(place)?;
        let (engine, effects) = (&self.work.swarm, &mut self.work.effects);
        effects.clear();
        let was = entry.seen;
        let had_verdicts = !entry.counter.board.verdicts.is_empty();
        // A pane that is gone afterwards is not written.
        let touched: Vec<EventTime> = match &input {
            SwarmInput::Report(report) => {
                let of_spawned = report.spawned.as_ref().map(|window| window.start);
                let of_used = report.used.and_then(|window| window.start);
                let starts = report.entries.iter().map(|entry| entry.pane).chain(of_used).chain(of_spawned);
                starts.map(|start| engine.pane_of(of, start)).collect()
            }
            SwarmInput::Reset(_) => entry.counter.panes.keys().copied().collect(),
            SwarmInput::Timer(..) | SwarmInput::Compare => Vec::new(),
        };
        let is_applied = guarded(|| engine.apply(of, &mut entry.counter, input, effects)).is_ok();
        let counter = &entry.counter;
        // A report that only had calls from before the floor begins no counter.
        let is_nothing = was.is_none() && counter.is_empty();
        let now = engine.kept_until(of, counter);
        let is_row = effects.verdicts_changed || (effects.forgotten && had_verdicts);
        let row = is_row.then(|| self.work.encoder.row(&of.subject(), &counter.board, cause.at, self.id)).flatten();
        if effects.forgotten || is_nothing {
            entry.clear();
        }
        self.work.overlay.bytes += SUM_BYTES + self.work.counters.touched(place, touched);
        if !is_applied {
            return Err(Halt::Panicked(culprit()));
        }
        let Work { effects, overlay, encoder, .. } = &mut *self.work;
        finish(self.id, self.task, encoder, overlay, Decided { key, effects, row }, cause);
        let subject = (kind_of(of), key);
        match (was, self.work.effects.forgotten) {
            _ if is_nothing => Ok(()),
            (Some(was), true) => Ok(self.task.seen.forget(subject, was, &*self.work.store, self.id)?),
            (None, true) => Ok(()),
            (was, false) => {
                let seen = self.task.seen.note(subject, was, now, &*self.work.store, self.id)?;
                self.work.counters.get(place)?.seen = Some(seen);
                if was.is_none() { self.make_room_for(kind_of(of), key, seen) } else { Ok(()) }
            }
        }
    }

    /// Drops what was unseen longest while there is more than may be kept, of tenants that have more than their share; the newcomer only
    /// where it stands alone, or where too many come first that are to be spared.
    fn make_room_for(&mut self, kind: CounterKind, newcomer: &[u8], until: EventTime) -> Result<(), Halt> {
        let keys_max = self.work.swarm.keys_max(match kind {
            CounterKind::Swarm => Detector::SwarmRepeat,
            CounterKind::Fleet => Detector::FleetRate,
            CounterKind::Budget => Detector::Budget,
        });
        let mut spared = 0;
        while self.task.seen.count(kind, &*self.work.store, self.id)? > keys_max {
            let Some(first) = self.task.seen.first(kind, &*self.work.store, self.id)? else { return Ok(()) };
            let mut subject = swarm::seen_subject(&first).to_vec();
            if !self.task.seen.is_over_share((kind, &subject), keys_max, &*self.work.store, self.id)? {
                if spared < SPARED_MAX {
                    spared += 1;
                    self.spare_subject(kind, &subject, until)?;
                    continue;
                }
                newcomer.clone_into(&mut subject);
            }
            let is_newcomer = subject == newcomer;
            self.drop_subject(kind, &subject)?;
            self.work.overlay.stats.limit_swarm_keys += 1;
            if is_newcomer {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A counter, or a swarm's floor, of a tenant that has no more than its share is not to go for others: it stands behind them.
    fn spare_subject(&mut self, kind: CounterKind, key: &[u8], until: EventTime) -> Result<(), Halt> {
        if parse_report_key(key).is_none() {
            if let Some(floor) = *self.floor(key)? {
                let seen = self.task.seen.spare((kind, key), floor.seen, until);
                *self.floor(key)? = Some(Floor { seen, ..floor });
                self.work.overlay.bytes += SUM_BYTES;
            }
            return Ok(());
        }
        let place = self.work.counters.find(self.id, key, &*self.work.store)?;
        let was = self.seen_of(place)?;
        let seen = self.task.seen.spare((kind, key), was, until);
        self.work.counters.get(place)?.seen = Some(seen);
        self.work.overlay.bytes += SUM_BYTES + self.work.counters.touched(place, []);
        Ok(())
    }

    fn seen_of(&mut self, place: CounterId) -> Result<EventTime, Halt> {
        let seen = self.work.counters.get(place)?.seen;
        Ok(seen.ok_or_else(|| StoreError::Corrupt(format!("{}: a counter in the order of counters does not exist", self.id)))?)
    }

    fn drop_subject(&mut self, kind: CounterKind, key: &[u8]) -> Result<(), Halt> {
        let Some(of) = parse_report_key(key) else {
            let floor = *self.floor(key)?;
            return floor.map_or(Ok(()), |floor| self.forget_floor(key, floor));
        };
        let at = self.task.now.watermark;
        let place = self.work.counters.find_without_panes(self.id, key, &*self.work.store)?;
        let was = self.seen_of(place)?;
        let entry = self.work.counters.get(place)?;
        let had_verdicts = !entry.counter.board.verdicts.is_empty();
        entry.counter.board.verdicts.clear();
        let row = had_verdicts.then(|| self.work.encoder.row(&of.subject(), &entry.counter.board, at, self.id)).flatten();
        let timers = entry.counter.timers;
        entry.clear();
        self.work.overlay.bytes += SUM_BYTES + self.work.counters.touched(place, []);
        for kind in TimerKind::OF_COUNTER {
            move_timers(self.task, &[TimerChange { kind, was: timers.due(kind), now: None }], key);
        }
        self.task.seen.forget((kind, key), was, &*self.work.store, self.id)?;
        if let Some(row) = row {
            self.work.overlay.set_row(self.id, row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_of_swarm_counts_says_why() {
        let reset = SwarmRecord::Reset(EventTime(1)).encode().unwrap();
        let reason = |key: &[u8], value: Option<&[u8]>| read(key, value).unwrap().err().map(|rejected| rejected.reason);
        assert_eq!(reason(b"\x1fw\x1f", Some(&reset)), None);
        assert_eq!(reason(b"\x1fw\x1f", None), Some(Reason::NullValue));
        assert_eq!(reason(b"w", Some(&reset)), Some(Reason::BadValue));
        assert_eq!(reason(b"\x1fw\x1f", Some(b"1\xffnonsense")), Some(Reason::BadValue));
        assert!(matches!(read(b"\x1fw\x1f", Some(b"2")), Err(StoreError::OtherFormat(_))));
    }
}
