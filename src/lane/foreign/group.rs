//! Where partitions of a foreign topic are read on: the group says, whose offsets moved with the events (rule C6).

use std::collections::VecDeque;

use loopwarden_core::event::{NextOffset, TaskId};
use loopwarden_core::limits::CONFIRM_WAIT;
use loopwarden_log::{Changelog, LogError};
use loopwarden_state::Position;

use crate::health::{Since, TROUBLE_MS_MAX};
use crate::settings::{Clock, OnTrouble};
use crate::task::outcome::{Answer, Ready, RestoreError, Restorer, Waited};
use crate::task::state::{Restoring, Task};

/// Pause before the group is asked again where a partition stands. Milliseconds.
const ASK_AGAIN_MS: u64 = 100;

struct Job {
    task: Task<Restoring>,
    attempt: u64,
    not_before_ms: u64,
    /// Since when the group does not answer for it.
    failing: Since,
}

/// Asks the group where tasks stand, one task each time it is polled.
pub struct GroupRestorer {
    /// Asks for the group's offsets and the ends of partitions.
    offsets: Box<dyn Changelog>,
    /// The foreign topic.
    topic: String,
    on_input_loss: OnTrouble,
    jobs: VecDeque<Job>,
}

impl GroupRestorer {
    pub fn new(offsets: Box<dyn Changelog>, topic: String, on_input_loss: OnTrouble) -> Self {
        Self { offsets, topic, on_input_loss, jobs: VecDeque::new() }
    }

    /// The group's offset of a partition, and the one to read next.
    fn ask(&mut self, id: TaskId) -> Result<(Option<NextOffset>, NextOffset), LogError> {
        let Some(committed) = self.offsets.committed(id, CONFIRM_WAIT)? else {
            return Ok((None, self.offsets.first_offset(id)?));
        };
        let range = self.offsets.input_range(id)?;
        // Beyond the end it stands where brokers have lost what they had acknowledged.
        Ok((Some(committed), NextOffset(committed.0.clamp(range.start, range.end.max(range.start)))))
    }

    /// Where the group stands nowhere, or elsewhere, that is committed first: a second start must not begin at another offset.
    fn ready(&self, task: Task<Restoring>, committed: Option<NextOffset>, next: NextOffset) -> Result<Box<Ready>, RestoreError> {
        let lost = committed.filter(|committed| *committed < next).map(|committed| (committed.0, next.0));
        if let (Some((from, to)), OnTrouble::Stop) = (lost, self.on_input_loss) {
            let (records, topic, partition) = (to - from, &self.topic, task.id().partition);
            let message = format!("{records} records of {topic}/{partition} were deleted before they were read");
            return Err(RestoreError::Stop { code: "E0503", message });
        }
        Ok(Box::new(Ready {
            task,
            position: Position { next_offset: next, ..Position::default() },
            is_first: committed != Some(next),
            lost,
            bytes: 0,
            records: 0,
            took_us: 0,
            waited: Waited::default(),
        }))
    }
}

impl Restorer for GroupRestorer {
    fn submit(&mut self, task: Task<Restoring>, attempt: u64) {
        self.jobs.push_back(Job { task, attempt, not_before_ms: 0, failing: Since::default() });
    }

    fn cancel(&mut self, id: TaskId) {
        self.jobs.retain(|job| job.task.id() != id);
    }

    fn poll(&mut self, clock: &dyn Clock) -> Option<Answer> {
        let now_ms = clock.mono_ms();
        let due = self.jobs.iter().position(|job| job.not_before_ms <= now_ms)?;
        let Job { task, attempt, mut failing, .. } = self.jobs.remove(due)?;
        let id = task.id();
        let result = match self.ask(id) {
            Ok((committed, next)) => self.ready(task, committed, next),
            Err(LogError::Transient(cause)) => {
                tracing::warn!(cause, topic = self.topic, "the group cannot be asked where a partition stands");
                if failing.lasts_ms(now_ms) <= TROUBLE_MS_MAX {
                    self.jobs.push_back(Job { task, attempt, not_before_ms: clock.mono_ms() + ASK_AGAIN_MS, failing });
                    return None;
                }
                let message = format!("nothing could be read of topic {} for three minutes: {cause}", self.topic);
                Err(RestoreError::Stop { code: "E0101", message })
            }
            Err(error) => Err(error.into()),
        };
        Some(Answer { id, attempt, result })
    }

    fn needs_turns(&self) -> bool {
        !self.jobs.is_empty()
    }

    fn left(&self) -> [u64; 2] {
        [0; 2]
    }
}
