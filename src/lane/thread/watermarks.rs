//! Source watermarks that session tasks send: with a commit from time to time, and also when there is nothing else to send.
//!
//! The wall clock decides when they are sent, and what a partition that is read to its end has passed. Both reach only the time of the
//! swarm stage, which decides what is forgotten and never what is published (rule W5).

use std::collections::BTreeMap;

use loopwarden_core::event::{Stage, TaskId};
use loopwarden_core::limits::{SOURCE_END_SLACK_MS, SOURCES_MS};
use loopwarden_log::{Destination, Headers, InputEnd, Output};
use loopwarden_state::StoreError;
use loopwarden_state::report::{SOURCES_HEADER, SwarmRecord, encode_sources, sources_key};

use crate::{settings::Clock, task::tasks::Tasks, thread::lane::Lane};

impl Lane {
    /// In how many milliseconds a commit is due for the sake of source watermarks alone; `None`: never.
    pub(crate) fn sources_due_in(&self, now_ms: u64) -> Option<u64> {
        let has_sources = self.settings.sources().is_some()
            && self.log.swarm_partitions() > 0
            && self.tasks.running().any(|(id, _)| id.stage == Stage::Session);
        has_sources.then(|| self.sources.due_ms.saturating_sub(now_ms))
    }

    /// Decides, where it is due, which watermarks the commit sends.
    pub(crate) fn note_sources(&mut self, clock: &dyn Clock) {
        let now_ms = clock.mono_ms();
        if self.sources_due_in(now_ms) != Some(0) {
            return;
        }
        let (wall_ms, ends) = (clock.wall_ms(), self.log.input_ends());
        let ends: BTreeMap<TaskId, InputEnd> = ends.into_iter().map(|end| (end.task, end)).collect();
        let mut read = 0;
        let Self { tasks, keeping, sources: pacing, .. } = self;
        for (id, task) in tasks.running_mut().filter(|(id, _)| id.stage == Stage::Session) {
            read += task.next().0;
            // Records of one millisecond may be read in two commits. A clock of a producer that runs ahead says nothing.
            let of_records = Some(task.reading.recorded.0.saturating_sub(1)).filter(|recorded| *recorded <= wall_ms);
            let as_of_ms = |end: &InputEnd| wall_ms.saturating_sub_unsigned(end.age_ms);
            let is_at_end = |end: &&InputEnd| end.end <= task.next().0 && as_of_ms(end) > task.reading.started_ms;
            // Of what is not read the log learns nothing new.
            let at_end = ends
                .get(&id)
                .filter(|_| !keeping.is_held(id))
                .filter(is_at_end)
                .map(|end| as_of_ms(end).saturating_sub(SOURCE_END_SLACK_MS));
            task.reading.to_send = at_end.max(of_records).filter(|watermark| *watermark > task.reading.sent);
        }
        let pause_ms = if read == pacing.read { 2 * pacing.pause_ms } else { 0 };
        pacing.pause_ms = pause_ms.clamp(SOURCES_MS.start, SOURCES_MS.end);
        pacing.due_ms = now_ms + pacing.pause_ms;
        pacing.read = read;
    }

    /// What the log knew of a task's end before it was started says nothing of where it stands now.
    pub(crate) fn note_started(&mut self, id: TaskId, clock: &dyn Clock) {
        if let Some(task) = self.tasks.get_mut(id) {
            task.reading.started_ms = clock.wall_ms();
        }
        self.keeping.is_read(id);
    }
}

/// Watermarks to be sent with a commit: the same record for each partition of the swarm stage.
pub(crate) fn source_watermarks(tasks: &Tasks, partitions: u32) -> Result<Vec<Output>, StoreError> {
    let sent = tasks.running().filter_map(|(id, task)| Some((id.partition, task.reading.to_send?)));
    let watermarks: Vec<(u32, i64)> = sent.collect();
    let Some(newest) = watermarks.iter().map(|(_, watermark)| *watermark).max() else { return Ok(Vec::new()) };
    let mut headers = Headers::default();
    headers.push(SOURCES_HEADER, encode_sources(&watermarks)?);
    let value = SwarmRecord::of_nothing().encode()?;
    let output = |partition| Output {
        destination: Destination::SwarmPartition { partition },
        key: sources_key(),
        value: Some(value.clone()),
        headers: headers.clone(),
        timestamp_ms: newest,
    };
    Ok((0..partitions).map(output).collect())
}
