//! A commit: events, dead letters and offsets in one transaction, and an arm per outcome (page `commit`).

use std::mem;
use std::sync::{Arc, PoisonError};

use loopwarden_core::event::{NextOffset, TaskId};
use loopwarden_lane::{Clock, Exit};
use loopwarden_log::{CommitOutcome, Log};

use crate::batch::Pending;
use crate::intake::{Intake, Phase};
use crate::source_partition::State;

/// Failures in a row after which the producer is replaced.
const FAILURES_BEFORE_REOPEN: u32 = 10;
/// Nothing is said about missing arguments before there were so many calls.
const CALLS_MIN: u64 = 100;

impl<L: Log> Intake<L> {
    pub(crate) fn commit(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        if self.phase != Phase::Feeding {
            return Ok(());
        }
        let touched: Vec<(TaskId, NextOffset)> =
            self.places.iter().filter(|(_, place)| place.is_touched()).map(|(id, place)| (*id, place.next)).collect();
        if touched.is_empty() {
            self.rewind(clock.mono_ms());
            return Ok(());
        }
        for output in self.pending.outputs.drain(..) {
            self.log.stage(output);
        }
        let now_ms = clock.mono_ms();
        match self.log.commit(&touched) {
            CommitOutcome::Committed { .. } => {
                self.commits.reset();
                let mut unwritten = Vec::new();
                for (id, _) in &touched {
                    if let Some(place) = self.places.get_mut(id) {
                        unwritten.extend(place.is_unwritten().then_some(*id));
                        place.commit();
                    }
                }
                self.publish();
                unwritten.into_iter().try_for_each(|id| self.start(id, clock))
            }
            CommitOutcome::Aborted { cause, reopen } => {
                tracing::warn!(cause, reopen, topic = self.settings.topic, "transaction aborted; its records are read again");
                self.give_up(clock)?;
                let reopen = reopen || self.commits.in_row_at(now_ms).is_multiple_of(FAILURES_BEFORE_REOPEN);
                let at_ms = clock.mono_ms() + self.commits.backoff_ms();
                self.phase = if reopen { Phase::Reopening(at_ms) } else { Phase::BackingOff(at_ms) };
                Ok(())
            }
            CommitOutcome::Unknown { cause } => {
                tracing::warn!(cause, topic = self.settings.topic, "nobody knows how the transaction ended; asking the group");
                self.ask_again(&touched, clock)
            }
            CommitOutcome::Fenced { cause } => {
                tracing::warn!(cause, topic = self.settings.topic, "fenced; asking the group");
                if self.commits.is_replaced(now_ms) {
                    return Err(Exit::Fenced(cause));
                }
                self.ask_again(&touched, clock)
            }
        }
    }

    /// What happened may be told.
    fn publish(&mut self) {
        let mut pending = mem::take(&mut self.pending);
        pending.stats.committed = 1;
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.stats.add(&pending.stats);
        report.senders.add(&pending.senders);
        let (stats, sources) = (report.stats.clone(), Arc::clone(&report.sources));
        drop(report);
        let mut sources = sources.lock().unwrap_or_else(PoisonError::into_inner);
        for (session_id, source) in &pending.sources {
            sources.note(session_id, source);
        }
        drop(sources);
        if !self.has_hinted && stats.calls >= CALLS_MIN && stats.without_args * 2 > stats.calls {
            self.has_hinted = true;
            let hints: Vec<&str> = pending.senders.total().hints.into_iter().collect();
            tracing::warn!(
                code = "W0301",
                topic = self.settings.topic,
                calls = stats.calls,
                without_args = stats.without_args,
                without_results = stats.without_results,
                hints = hints.join("; "),
                "calls have no arguments: only names can be compared"
            );
        }
        self.show();
    }

    /// Shows what is not counted.
    pub(crate) fn show(&self) {
        let stopped = self.places.iter().filter_map(|(id, place)| match &place.state {
            State::Stopped(why) => Some(format!("{}/{}: {why}", self.settings.topic, id.partition)),
            _ => None,
        });
        let ends = self.log.input_ends();
        let behind = ends.iter().filter_map(|end| {
            let place = self.places.get(&end.task)?;
            Some(end.end.saturating_sub(place.committed?.0))
        });
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.stopped = stopped.collect();
        report.lag_records = (!ends.is_empty()).then(|| behind.sum());
    }

    /// Everything since the last commit never happened.
    pub(crate) fn rewind(&mut self, now_ms: u64) {
        self.log.discard();
        self.pending = Pending::default();
        self.places.values_mut().for_each(|place| place.rewind(now_ms));
    }

    /// Drops what is not committed and stops the flow.
    pub(crate) fn give_up(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        let now_ms = clock.mono_ms();
        self.rewind(now_ms);
        self.report.lock().unwrap_or_else(PoisonError::into_inner).stats.failed += 1;
        if self.commits.is_exhausted_by(now_ms) {
            return Err(Exit::Failed(format!("no commit for three minutes on topic {}", self.settings.topic)));
        }
        for id in self.running() {
            if let Err(error) = self.log.pause(id) {
                self.on_log_error(error, clock)?;
            }
        }
        Ok(())
    }

    /// The group says where these stand, once the producer was replaced and with it the last transaction has ended (rule C15).
    fn ask_again(&mut self, touched: &[(TaskId, NextOffset)], clock: &dyn Clock) -> Result<(), Exit> {
        self.give_up(clock)?;
        let now_ms = clock.mono_ms();
        for (id, _) in touched {
            if let Some(place) = self.places.get_mut(id) {
                place.state = State::Asking(now_ms);
            }
        }
        self.phase = Phase::Reopening(now_ms);
        Ok(())
    }
}
