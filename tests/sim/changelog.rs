//! The reader that restores use.

use std::time::Duration;

use loopwarden_core::event::{NextOffset, Stage, TaskId};
use loopwarden_log::{Changelog, ChangelogRange, Flow, LogError};

use crate::{MemoryBroker, MemoryRecord, MemoryTopic};

#[derive(Debug)]
pub(super) struct MemoryChangelog {
    pub(super) broker: MemoryBroker,
}

impl Changelog for MemoryChangelog {
    fn committed(&mut self, task: TaskId, _wait: Duration) -> Result<Option<NextOffset>, LogError> {
        let state = self.broker.lock();
        if state.offset_is_pending(task) {
            return Err(LogError::Transient(format!("a transaction on {task} is pending")));
        }
        Ok(state.offsets.get(&task).copied())
    }

    fn range(&mut self, task: TaskId) -> Result<ChangelogRange, LogError> {
        Ok(self.broker.changelog_range(task))
    }

    fn high_watermark(&mut self, task: TaskId) -> Result<u64, LogError> {
        Ok(self.broker.lock().partition((MemoryTopic::Changelog(task.stage), task.partition)).high_watermark())
    }

    fn evict(&mut self, owner: &str) -> Result<bool, LogError> {
        let mut state = self.broker.lock();
        let member = owner.strip_prefix(&format!("{}-", state.config.app)).unwrap_or_default();
        let is_gone = state.group.members().all(|known| known != member);
        if is_gone {
            state.init_producer(owner);
        }
        Ok(is_gone)
    }

    fn input_range(&mut self, task: TaskId) -> Result<ChangelogRange, LogError> {
        Ok(self.broker.input_range(task))
    }

    fn read(
        &mut self,
        task: TaskId,
        from: u64,
        handler: &mut dyn FnMut(u64, &[u8], Option<&[u8]>) -> Flow,
    ) -> Result<u64, LogError> {
        let place = (MemoryTopic::Changelog(task.stage), task.partition);
        let (records, end): (Vec<MemoryRecord>, u64) = {
            let mut state = self.broker.lock();
            let partition = state.partition(place);
            (partition.committed(from).cloned().collect(), partition.stable())
        };
        for record in records {
            if handler(record.offset, record.key.as_deref().unwrap_or_default(), record.value.as_deref()) == Flow::Stop {
                return Ok(record.offset + 1);
            }
        }
        Ok(end.max(from))
    }

    fn first_offset(&mut self, task: TaskId) -> Result<NextOffset, LogError> {
        let state = self.broker.lock();
        let range = state.range((MemoryTopic::Input(task.stage), task.partition));
        // As the client's: sums are read from their beginning.
        Ok(NextOffset(if state.config.start_at_end && task.stage == Stage::Session { range.end } else { range.start }))
    }
}
