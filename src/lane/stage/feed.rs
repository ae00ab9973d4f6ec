//! Hands the records of a poll to their tasks.

use loopwarden_core::event::{EventTime, Reason, Record, RecordMeta, RecordOffset, TaskId};
use loopwarden_log::Flow;
use loopwarden_state::StateStore;

use crate::stage::context::{Interrupt, RecordContext, Stop, Work};
use crate::stage::poison::{Culprit, KillerFile, Suspect};
use crate::stage::processor::Machine;
use crate::task::tasks::Tasks;

impl<S: StateStore, M: Machine> Work<S, M> {
    /// What killed the process before becomes a dead letter when it comes again (rule I11).
    pub(crate) fn guard(&mut self, file: KillerFile, suspects: &[Suspect]) {
        for suspect in suspects.iter().filter(|suspect| suspect.is_condemned()) {
            tracing::error!(task = %suspect.task, offset = suspect.offset, deaths = suspect.deaths,
                "a record kept killing the process and becomes a dead letter");
            self.marks.add(suspect.task, Culprit::Record(suspect.offset), Reason::Crash);
        }
        self.killer = Some(file);
    }

    /// A running task with everything its records meet.
    fn context<'a>(&'a mut self, tasks: &'a mut Tasks, id: TaskId) -> Option<RecordContext<'a, S, M>> {
        Some(RecordContext { id, task: tasks.get_mut(id)?, work: self })
    }

    /// One record of a poll.
    pub(crate) fn record(&mut self, tasks: &mut Tasks, id: TaskId, record: &Record<'_>) -> Flow {
        let Some(task) = tasks.get_mut(id) else {
            self.strayed += 1;
            return Flow::Continue;
        };
        if record.meta.offset.0 < task.next().0 {
            self.skipped += 1;
            return Flow::Continue;
        }
        if let Some(killer) = &mut self.killer
            && let Err(error) = killer.before(id, record.meta.offset.0)
        {
            self.interrupt = Some(Interrupt::unnoted(&error));
            return Flow::Stop;
        }
        let is_foreign = self.foreign.is_some();
        let mut context = RecordContext { id, task, work: self };
        let ended = if is_foreign { context.foreign_record(record) } else { context.record(record) };
        self.ended(id, ended)
    }

    fn ended(&mut self, id: TaskId, ended: Result<(), Stop>) -> Flow {
        self.interrupt = Some(match ended {
            Ok(()) if self.must_commit() => return Flow::Stop,
            Ok(()) => return Flow::Continue,
            Err(Stop::Full) => Interrupt::Full(id),
            Err(Stop::Panicked(culprit)) => Interrupt::Panicked(id, culprit),
            Err(Stop::Tripped(why)) => Interrupt::Tripped(id, why),
            Err(Stop::Store(error)) => Interrupt::Store(error),
        });
        Flow::Stop
    }

    /// Lets every timer of every task fire, or as many as a commit takes: the end of time, for a report. False where something came
    /// between.
    pub(crate) fn has_run_timers(&mut self, tasks: &mut Tasks) -> bool {
        for id in tasks.ids() {
            while let Some(mut context) = self.context(tasks, id) {
                if context.work.is_full() {
                    return true;
                }
                match context.fire_last() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(stop) => {
                        self.ended(id, Err(stop));
                        return false;
                    }
                }
            }
        }
        true
    }
}

impl<S: StateStore, M: Machine> RecordContext<'_, S, M> {
    /// Fires the next timer as of the end of time. False where there is none.
    fn fire_last(&mut self) -> Result<bool, Stop> {
        let Some(timer) = self.task.timers.due(&self.work.store, self.id, EventTime(i64::MAX))? else { return Ok(false) };
        let meta = RecordMeta {
            topic: "",
            partition: self.id.partition,
            offset: RecordOffset(self.task.next().0.saturating_sub(1)),
            timestamp: self.task.now.watermark,
            key: None,
            headers: Vec::new(),
            value_bytes_max: 0,
        };
        self.fire(&timer, &Record::new(meta, None)).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use loopwarden_core::event::Stage;
    use loopwarden_state::StoreError;

    use super::*;

    #[test]
    fn a_note_that_finds_no_room_is_a_full_disk() {
        let task = TaskId { stage: Stage::Session, partition: 0 };
        let full = KillerFile::open(Path::new("/dev/full"), &[]).unwrap().before(task, 1).unwrap_err();
        assert!(matches!(Interrupt::unnoted(&full), Interrupt::Store(StoreError::DiskFull(_))), "{full}");
    }
}
