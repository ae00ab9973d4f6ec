//! What a lane has decided since its last commit. Dropping it undoes everything; committing it is the only way out of the process.

use std::collections::BTreeMap;

use loopwarden_core::detect::Finding;
use loopwarden_core::engine::{Action, Command};
use loopwarden_core::event::{EventTime, RecordOffset, Stage, TaskId};
use loopwarden_log::Output;

use crate::cache::EntryId;
use crate::recent::Told;
use crate::settings::LaneSettings;
use crate::stats::Stats;
use crate::sums::Sums;

/// Bytes a changed session counts for: head and bookkeeping. Its newest steps, which lie in the head's record, count with the events.
const SESSION_BYTES: usize = 512;
/// Bytes a command counts for besides its texts: it is written at the commit, with its headers.
const COMMAND_BYTES: usize = 3_072;
/// Bytes an event counts for: its step, encoded and in the changelog, and its part of the steps that are written again with it.
const RECORD_BYTES: usize = 512;

/// A command for the metrics: counted when it is visible.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) action: Action,
    /// When its cause was recorded.
    pub(super) caused_at: EventTime,
    pub(super) expires_at: EventTime,
}

/// What a record leads to, for readers outside.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are commands")]
pub(super) enum Said {
    /// A command, and its number among the outputs of its task. A value until the commit writes it.
    Command(Command, u64),
    /// A dead letter.
    Letter(Output),
}

/// A finding for the audit log: written when its commit is through.
#[derive(Debug, Clone)]
pub(super) struct Audited {
    pub(super) task: TaskId,
    pub(super) offset: u64,
    pub(super) finding: Finding,
}

/// Uncommitted work of a lane.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// Sessions changed, in the order of their first change.
    pub(super) dirty: Vec<EntryId>,
    /// Commands and dead letters, in order, each with the record that caused it.
    pub(super) outputs: Vec<((TaskId, RecordOffset), Said)>,
    /// State rows: of a subject only the last.
    pub(super) rows: BTreeMap<(TaskId, Vec<u8>), Output>,
    /// What the swarm stage is to add up.
    pub(super) sums: Sums,
    pub(super) sent: Vec<Sent>,
    pub(super) audit: Vec<Audited>,
    /// Commands staged for the log, for [`crate::Recent`].
    pub(super) told: Told,
    /// Counters that become true with the commit.
    pub(super) stats: Stats,
    pub(super) records: u64,
    /// Those of the session stage. What a place in the input cuts by: when sums come back from other lanes depends on threads.
    pub(super) events: u64,
    pub(super) bytes: usize,
    /// When the first of it came, monotonic ms.
    pub(super) since_ms: Option<u64>,
    /// Something waits that people wait for.
    pub(super) command_waits: bool,
    /// Nothing more may be applied before it is committed.
    pub(super) must_go: bool,
}

impl Overlay {
    pub(super) fn note_record(&mut self, stage: Stage, value_bytes: usize) {
        self.records += 1;
        self.bytes += RECORD_BYTES;
        if stage == Stage::Session {
            self.events += 1;
            self.stats.event_bytes += value_bytes as u64;
        }
    }

    pub(super) fn note_dirty(&mut self, id: EntryId) {
        self.dirty.push(id);
        self.bytes += SESSION_BYTES;
    }

    /// Steps that an input writes again, besides its own.
    pub(super) const fn note_rewritten(&mut self, steps: usize) {
        self.bytes += steps * RECORD_BYTES;
    }

    pub(super) fn push_command(&mut self, cause: (TaskId, RecordOffset), command: Command, ordinal: u64) {
        self.bytes += COMMAND_BYTES + command.summary.len() + command.message.as_ref().map_or(0, String::len);
        self.outputs.push((cause, Said::Command(command, ordinal)));
    }

    pub(super) fn push_letter(&mut self, cause: (TaskId, RecordOffset), letter: Output) {
        self.bytes += bytes_of(&letter);
        self.outputs.push((cause, Said::Letter(letter)));
    }

    pub(super) fn set_row(&mut self, task: TaskId, row: Output) {
        self.bytes += bytes_of(&row);
        self.rows.insert((task, row.key.clone()), row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0 && self.dirty.is_empty() && self.outputs.is_empty()
    }

    /// Whether it must be committed before it grows further.
    pub(super) const fn is_full(&self, settings: &LaneSettings) -> bool {
        self.must_go || self.bytes >= settings.overlay_bytes_max || self.records >= settings.overlay_records_max
    }
}

fn bytes_of(output: &Output) -> usize {
    let headers: usize = output.headers.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
    output.key.len() + output.value.as_ref().map_or(0, Vec::len) + headers + 128
}
