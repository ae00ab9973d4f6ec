//! The stage of a foreign topic: one record's way from bytes to events in the overlay.

use loopwarden_core::event::Record;

use crate::stage::context::{RecordContext, Stop};
use crate::stage::poison::Sender;

impl RecordContext<'_> {
    /// Takes a record of a foreign topic. A wave of dead letters stops its partition (rule I10): a wrong form must not drain a topic.
    pub(crate) fn foreign_record(&mut self, record: &Record<'_>) -> Result<(), Stop> {
        let (work, task) = (&mut *self.work, &mut *self.task);
        let Some(foreign) = &work.foreign else { return Ok(()) };
        let is_malformed = foreign.take(self.id, record, &mut work.overlay, work.settings.dead_letters);
        task.now.next_offset = record.meta.offset.next();
        if !is_malformed {
            task.window.note_event();
        } else if task.window.note_malformed(Sender::of(record)) {
            return Err(Stop::Tripped(foreign.why_stopped(self.id)));
        }
        Ok(())
    }
}
