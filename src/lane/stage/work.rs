//! What the records of a lane meet: tasks, sessions in memory, the engines, and the overlay they end in. Apart from the log, so that the
//! log can hand records over while it is borrowed.

use std::io;
use std::sync::Arc;

use loopwarden_core::engine::{Effects, SwarmEngine};
use loopwarden_core::event::{EventTime, Reason, Record, RecordMeta, RecordOffset, TaskId};
use loopwarden_core::policy::Policy;
use loopwarden_log::Flow;
use loopwarden_state::{StateStore, StoreError};

use crate::commit::overlay::Overlay;
use crate::encode::Encoder;
use crate::memory::cache::Cache;
use crate::memory::counters::Counters;
use crate::settings::{CommitTrigger, LaneSettings};
use crate::stage::context::{COUNTERS_SHARE, Handled, Stage, is_crowded};
use crate::stage::poison::{Culprit, KillerFile, Marks, Suspect};
use crate::stage::processor::Machine;
use crate::task::tasks::Tasks;

/// Bytes of events that lie between two cuts of an input at most: a log that can rewind keeps them until then.
const CUT_BYTES_MAX: u64 = 4 << 20;

/// What records meet; apart from the log, which hands them over.
pub(crate) struct Work<S, M> {
    pub(crate) store: S,
    pub(crate) machine: M,
    pub(crate) encoder: Encoder,
    pub(crate) cache: Cache,
    pub(crate) swarm: SwarmEngine,
    pub(crate) counters: Counters,
    pub(crate) overlay: Overlay,
    pub(crate) effects: Effects,
    pub(crate) marks: Marks,
    pub(crate) tasks: Tasks,
    pub(crate) killer: Option<KillerFile>,
    pub(crate) interrupt: Option<Interrupt>,
    pub(crate) skipped: u64,
    pub(crate) strayed: u64,
}

/// Why records stopped in the middle of a poll.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// The overlay is full between two timers of this task: its record must be read again.
    Full(TaskId),
    /// A detector panicked.
    Panicked(TaskId, Culprit),
    /// Too many dead letters.
    Tripped(TaskId, &'static str),
    /// A read failed, or the note about what is being applied cannot be written.
    Store(StoreError),
}

impl Interrupt {
    /// The note about what is being applied cannot be written.
    pub(crate) fn unnoted(error: &io::Error) -> Self {
        Self::Store(StoreError::of_io("cannot note what is being applied", error))
    }
}

fn swarm_engine<M: Machine>(machine: &M, settings: &LaneSettings) -> SwarmEngine {
    SwarmEngine::new(machine.app(), Arc::clone(machine.policy())).aligned(settings.sources().is_some())
}

impl<S: StateStore, M: Machine> Work<S, M> {
    pub(crate) fn new(store: S, machine: M, tasks: Tasks, settings: &LaneSettings) -> Self {
        Self {
            encoder: Encoder::new(machine.app(), machine.policy(), settings.mode, settings.dead_letters),
            swarm: swarm_engine(&machine, settings),
            counters: Counters::new(settings.cache_bytes_max / COUNTERS_SHARE),
            cache: Cache::new(settings.cache_bytes_max),
            store,
            machine,
            overlay: Overlay::default(),
            effects: Effects::default(),
            marks: Marks::default(),
            tasks,
            killer: None,
            interrupt: None,
            skipped: 0,
            strayed: 0,
        }
    }

    /// Puts another policy in force. Nothing may be uncommitted.
    pub(crate) fn swap_policy(&mut self, policy: Arc<Policy>, settings: &LaneSettings) -> Result<(), StoreError> {
        if policy.history_steps != self.machine.policy().history_steps {
            // A session in memory would keep its ring, one that is read from the store gets the new size: what is in the cache would show.
            self.cache.write_back(&mut self.store)?;
            self.cache.clear();
        }
        self.machine.swap(policy);
        let policy = self.machine.policy();
        self.swarm = swarm_engine(&self.machine, settings);
        self.encoder = Encoder::new(self.machine.app(), policy, settings.mode, settings.dead_letters);
        self.tasks.adopt(policy);
        Ok(())
    }

    /// What killed the process before becomes a dead letter when it comes again (rule I11).
    pub(crate) fn guard(&mut self, file: KillerFile, suspects: &[Suspect]) {
        for suspect in suspects.iter().filter(|suspect| suspect.is_condemned()) {
            tracing::error!(task = %suspect.task, offset = suspect.offset, deaths = suspect.deaths,
                "a record kept killing the process and becomes a dead letter");
            self.marks.add(suspect.task, Culprit::Record(suspect.offset), Reason::Crash);
        }
        self.killer = Some(file);
    }

    /// A running task with everything its records touch.
    fn stage<'a>(&'a mut self, id: TaskId, settings: &'a LaneSettings) -> Option<Stage<'a, S, M>> {
        Some(Stage {
            id,
            task: self.tasks.get_mut(id)?,
            store: &mut self.store,
            machine: &mut self.machine,
            encoder: &self.encoder,
            cache: &mut self.cache,
            overlay: &mut self.overlay,
            effects: &mut self.effects,
            marks: &self.marks,
            settings,
            swarm: &self.swarm,
            counters: &mut self.counters,
        })
    }

    /// One record of a poll.
    pub(crate) fn record(&mut self, id: TaskId, record: &Record<'_>, settings: &LaneSettings) -> Flow {
        let Some(task) = self.tasks.get(id) else {
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
        let Some(mut stage) = self.stage(id, settings) else { return Flow::Continue };
        let handled = stage.record(record);
        self.handled(id, handled, settings)
    }

    fn handled(&mut self, id: TaskId, handled: Result<Handled, StoreError>, settings: &LaneSettings) -> Flow {
        self.interrupt = Some(match handled {
            Ok(Handled::Done) if self.is_full(settings) => return Flow::Stop,
            Ok(Handled::Done) => return Flow::Continue,
            Ok(Handled::Full) => Interrupt::Full(id),
            Ok(Handled::Panicked(culprit)) => Interrupt::Panicked(id, culprit),
            Ok(Handled::Tripped(why)) => Interrupt::Tripped(id, why),
            Err(error) => Interrupt::Store(error),
        });
        Flow::Stop
    }

    /// Whether a commit must come before anything else: the overlay's own bounds, the cut of a replay, or sessions that cannot leave
    /// the cache before they are written.
    pub(crate) fn is_full(&self, settings: &LaneSettings) -> bool {
        let is_cut = match settings.trigger {
            CommitTrigger::EveryRecords(records) => {
                self.overlay.events >= records || self.overlay.stats.event_bytes >= CUT_BYTES_MAX
            }
            CommitTrigger::Timed { .. } => false,
        };
        is_cut || self.overlay.is_full(settings) || is_crowded(&self.cache, &self.counters, settings)
    }

    /// A running task's store is no longer known to be right: what is held of it is dropped, and it is read back from the log.
    pub(crate) fn restore_again(&mut self, id: TaskId) {
        if self.tasks.restore_again(id) {
            self.forget(id);
        }
    }

    /// Lets go of a task.
    pub(crate) fn release(&mut self, id: TaskId) {
        self.tasks.release(id);
        self.forget(id);
        self.marks.remove_task(id);
    }

    fn forget(&mut self, id: TaskId) {
        self.cache.remove_task(id);
        self.counters.remove_task(id);
    }

    /// Lets every timer of every task fire, or as many as a commit takes: the end of time, for a report. False where something came
    /// between.
    pub(crate) fn has_run_timers(&mut self, settings: &LaneSettings) -> bool {
        self.run_timers(settings);
        self.interrupt.is_none()
    }

    fn run_timers(&mut self, settings: &LaneSettings) {
        for id in self.tasks.ids() {
            while let Some(mut stage) = self.stage(id, settings) {
                if stage.is_full() {
                    return;
                }
                let due = stage.task.timers.due(stage.store, id, EventTime(i64::MAX));
                let handled = match due {
                    Ok(None) => break,
                    Ok(Some(timer)) => {
                        let meta = RecordMeta {
                            topic: "",
                            partition: id.partition,
                            offset: RecordOffset(stage.task.next().0.saturating_sub(1)),
                            timestamp: stage.task.now.watermark,
                            key: None,
                            headers: Vec::new(),
                            value_bytes_max: 0,
                        };
                        stage.fire_one(&timer, &Record::new(meta, None))
                    }
                    Err(error) => Err(error),
                };
                if handled != Ok(Handled::Done) {
                    self.handled(id, handled, settings);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use loopwarden_core::event::Stage as TaskStage;

    use super::*;

    #[test]
    fn a_note_that_finds_no_room_is_a_full_disk() {
        let task = TaskId { stage: TaskStage::Session, partition: 0 };
        let full = KillerFile::open(Path::new("/dev/full"), &[]).unwrap().before(task, 1).unwrap_err();
        assert!(matches!(Interrupt::unnoted(&full), Interrupt::Store(StoreError::DiskFull(_))), "{full}");
    }
}
