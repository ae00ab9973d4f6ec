//! Hands the records of a poll to their tasks.

use loopwarden_core::event::{Reason, Record, TaskId};
use loopwarden_log::Flow;
use loopwarden_state::report::Sum;

use crate::stage::context::{Halt, Interrupt, RecordContext, Work};
use crate::task::poison::{Culprit, KillerFile, Sender, Suspect};
use crate::task::tasks::Tasks;

impl Work {
    /// What killed the process before becomes a dead letter when it comes again (rule I11).
    pub(crate) fn guard(&mut self, file: KillerFile, suspects: &[Suspect]) {
        for suspect in suspects.iter().filter(|suspect| suspect.is_condemned()) {
            tracing::error!(task = %suspect.task, offset = suspect.offset, deaths = suspect.deaths,
                "a record kept killing the process and becomes a dead letter");
            self.marks.add(suspect.task, Culprit::Record(suspect.offset), Reason::Crash);
        }
        self.killer = Some(file);
    }

    /// One record of a poll; of a sum that its log kept as a value, with it.
    pub(crate) fn record(&mut self, tasks: &mut Tasks, id: TaskId, record: &Record<'_>, sum: Option<&Sum>) -> Flow {
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
        let ended = if is_foreign { context.foreign_record(record) } else { context.record(record, sum) };
        self.ended(id, ended)
    }

    fn ended(&mut self, id: TaskId, ended: Result<(), Halt>) -> Flow {
        self.interrupt = Some(match ended {
            Ok(()) if self.must_commit() => return Flow::Stop,
            Ok(()) => return Flow::Continue,
            Err(Halt::Full) => Interrupt::Full(id),
            Err(Halt::Panicked(culprit)) => Interrupt::Panicked(id, culprit),
            Err(Halt::Tripped(why)) => Interrupt::Tripped(id, why),
            Err(Halt::Store(error)) => Interrupt::Store(error),
        });
        Flow::Stop
    }
}

impl RecordContext<'_> {
    /// Takes a record of a foreign topic. A wave of dead letters stops its partition where that is asked for (rule I10).
    pub(crate) fn foreign_record(&mut self, record: &Record<'_>) -> Result<(), Halt> {
        let (work, task) = (&mut *self.work, &mut *self.task);
        let Some(foreign) = &work.foreign else { return Ok(()) };
        let is_malformed = foreign.take(self.id, record, &mut work.overlay, work.settings.dead_letters);
        task.now.next_offset = record.meta.offset.next();
        if !is_malformed {
            task.window.note_event();
        } else if task.window.note_malformed(Sender::of(record)) {
            let why = foreign.why_stopped(self.id);
            return self.trip(|| why);
        }
        Ok(())
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
