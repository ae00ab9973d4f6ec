//! What a lane has decided since its last commit. Dropping it undoes everything; committing it is the only way out of the process.

use std::collections::BTreeMap;

use loopwarden_core::detect::Finding;
use loopwarden_core::engine::{Action, Command};
use loopwarden_core::event::{EventTime, RecordOffset, Stage, TaskId};
use loopwarden_log::Output;

use crate::{
    commit::recent::CommittedCommands, metrics::intake::Counted, metrics::stats::Stats, settings::LaneSettings,
    sums::aggregates::Sums,
};

/// Bytes a changed session counts for: head and bookkeeping. Its newest steps, which lie in the head's record, count with the events.
const SESSION_BYTES: usize = 512;
/// Bytes a command counts for besides its texts: it is written at the commit, with its headers.
const COMMAND_BYTES: usize = 3_072;
/// Bytes an event counts for: its step, encoded and in the changelog, and its part of the steps that are written again with it.
const RECORD_BYTES: usize = 512;

/// A command for the metrics: counted when it is visible.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) action: Action,
    /// When its cause was recorded.
    pub(crate) caused_at: EventTime,
    pub(crate) expires_at: EventTime,
}

/// What a record leads to, for readers outside.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are commands")]
pub(crate) enum UncommittedOutput {
    /// A command, and its number among the outputs of its task. A value until the commit writes it.
    Command(Command, u64),
    /// A dead letter, or an event that was made of a foreign record.
    Record(Output),
}

/// A finding for the audit log: written when its commit is through.
#[derive(Debug, Clone)]
pub(crate) struct Audited {
    pub(crate) task: TaskId,
    pub(crate) offset: u64,
    pub(crate) finding: Finding,
}

/// Uncommitted work of a lane.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Sessions that have changed since the last commit.
    pub(crate) sessions: usize,
    /// Commands, dead letters and events, in order, each with the record that caused it.
    pub(crate) outputs: Vec<((TaskId, RecordOffset), UncommittedOutput)>,
    /// State rows: of a subject only the last.
    pub(crate) rows: BTreeMap<(TaskId, Vec<u8>), Output>,
    /// What the swarm stage is to add up.
    pub(crate) sums: Sums,
    pub(crate) sent: Vec<Sent>,
    pub(crate) audit: Vec<Audited>,
    /// Commands staged for the log, for [`crate::Recent`].
    pub(crate) told: CommittedCommands,
    /// Counters that become true with the commit.
    pub(crate) stats: Stats,
    /// The same of a foreign topic.
    pub(crate) foreign: Counted,
    pub(crate) records: u64,
    /// Those of the session stage. What a place in the input cuts by: when sums come back from other lanes depends on threads.
    pub(crate) events: u64,
    pub(crate) bytes: usize,
    /// When the first of it came, monotonic ms.
    pub(crate) since_ms: Option<u64>,
    /// Something waits that people wait for.
    pub(crate) command_waits: bool,
    /// An agent was started, or brought nothing: its tree is to be judged now.
    pub(crate) grows_tree: bool,
    /// Nothing more may be applied before it is committed.
    pub(crate) must_go: bool,
}

impl Overlay {
    pub(crate) fn note_record(&mut self, stage: Stage, value_bytes: usize) {
        self.records += 1;
        self.bytes += RECORD_BYTES;
        if stage == Stage::Session {
            self.events += 1;
            self.stats.event_bytes += value_bytes as u64;
        }
    }

    /// A session has changed for the first time.
    pub(crate) const fn note_session(&mut self) {
        self.sessions += 1;
        self.bytes += SESSION_BYTES;
    }

    /// Steps that an input writes again, besides its own.
    pub(crate) const fn note_rewritten(&mut self, steps: usize) {
        self.bytes += steps * RECORD_BYTES;
    }

    pub(crate) fn push_command(&mut self, cause: (TaskId, RecordOffset), command: Command, ordinal: u64) {
        self.bytes += COMMAND_BYTES + command.summary.len() + command.message.as_ref().map_or(0, String::len);
        self.outputs.push((cause, UncommittedOutput::Command(command, ordinal)));
    }

    pub(crate) fn push_output(&mut self, cause: (TaskId, RecordOffset), output: Output) {
        self.bytes += bytes_of(&output);
        self.outputs.push((cause, UncommittedOutput::Record(output)));
    }

    pub(crate) fn set_row(&mut self, task: TaskId, row: Output) {
        self.bytes += bytes_of(&row);
        self.rows.insert((task, row.key.clone()), row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0 && self.sessions == 0 && self.outputs.is_empty()
    }

    /// Whether it must be committed before it grows further.
    pub(crate) const fn is_full(&self, settings: &LaneSettings) -> bool {
        self.must_go || self.bytes >= settings.overlay_bytes_max || self.records >= settings.overlay_records_max
    }
}

fn bytes_of(output: &Output) -> usize {
    let headers: usize = output.headers.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
    output.key.len() + output.value.as_ref().map_or(0, Vec::len) + headers + 128
}
