//! One transactional log, several worlds: Kafka (`loopwarden_kafka`), one machine ([`embedded`]), recorded events (replay, cases), a simulation.
//!
//! A lane owns one [`Log`] and calls it from one thread, in this order:
//!
//! 1. [`Log::poll`], again and again. It hands over records of started tasks, or one event about the assignment. The lane answers each
//!    such event by itself, so that nothing happens inside a client's callback: [`LogEvent::Assigned`] by [`Log::assign`], the others
//!    by [`Log::unassign`].
//! 2. [`Log::start`] for each assigned task, when its state is there; [`Log::pause`] where it is not to be read for a while. After
//!    anything but a commit that succeeded, every task that goes on is started anew from its last committed offset.
//! 3. [`Log::stage`] for the outputs of a commit, then [`Log::commit`] with the offsets. What is staged becomes visible together with
//!    them, or not at all. The log decides, the state store follows (page `commit`). [`Log::discard`] where there is no commit.
//! 4. [`Log::reopen`] after an outcome that is not known, after a fence, and where an abort asks for it: only then is the end of the
//!    last transaction known.

pub mod clock;
pub mod embedded;
mod headers;
mod steady;

use std::{fs, fs::File, io, io::Write as _, path::Path, time::Duration};

pub use headers::Headers;
use loopwarden_core::engine::Command;
use loopwarden_core::event::{NextOffset, Record, RecordOffset, Stage, TaskId};
use loopwarden_state::{StoreError, report::Sum};
pub use steady::SteadyClock;

/// Whether the handler of [`Log::poll`] wants more records now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// Hand over no further record in this poll: a commit is due. The record just handed over counts as delivered.
    Stop,
}

/// What a poll brought, besides the records it handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    /// So many records were handed over; 0 when nothing arrived within the wait.
    Records(usize),
    /// The group gave these tasks to the lane. To be answered with [`Log::assign`].
    Assigned(Vec<TaskId>),
    /// The group takes these tasks away and waits: commit or drop, then [`Log::unassign`].
    Revoked(Vec<TaskId>),
    /// These tasks are gone already; a commit would be refused. To be answered with [`Log::unassign`].
    Lost(Vec<TaskId>),
    /// Bounded input (a file, a fixed range) is read to its end. With uncommitted work: commit it and poll again, since what it
    /// sends to the swarm stage comes back. With none, it is over.
    End,
}

/// Where an output goes. The log knows the topic names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// `loop-commands`, partition by murmur2 of the key.
    Commands,
    /// `loop-state`, partition by murmur2 of the key.
    State,
    /// The topic of events, partition by murmur2 of the key: what is made of foreign records.
    Events,
    /// Dead letters: partition = source partition modulo the topic's count.
    DeadLetters {
        /// Partition the bad record was read from.
        source_partition: u32,
    },
    /// `swarm-counts`, partition by murmur2 of the key.
    SwarmCounts,
    /// One partition of `swarm-counts`: what all of them must know is sent to each.
    SwarmPartition {
        /// Which, below [`Log::swarm_partitions`].
        partition: u32,
    },
    /// The changelog partition of a task. Keys are family and key without the task's prefix.
    Changelog(TaskId),
}

/// One record to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub destination: Destination,
    pub key: Vec<u8>,
    /// Record value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    pub headers: Headers,
    /// Record timestamp, Unix ms: event time of what caused it, so that a replay writes the same.
    pub timestamp_ms: i64,
}

/// A sum for the swarm stage on its way there: a value where it stays in its process, a record elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedSum {
    /// [`Destination::SwarmCounts`] or [`Destination::SwarmPartition`].
    pub destination: Destination,
    pub key: Vec<u8>,
    pub sum: Sum,
    /// Record timestamp, Unix ms.
    pub timestamp_ms: i64,
}

impl StagedSum {
    /// The record of it.
    ///
    /// # Errors
    /// As [`Sum::encode`].
    pub fn into_output(self) -> Result<Output, StoreError> {
        let Self { destination, key, sum, timestamp_ms } = self;
        Ok(Output { destination, key, value: Some(sum.encode()?), headers: Headers::default(), timestamp_ms })
    }
}

/// How a commit ended (page `commit`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Everything staged is visible. For each touched task with a changelog: the offset after its last changelog record.
    Committed {
        /// `changelog_next` per task.
        changelog_next: Vec<(TaskId, u64)>,
    },
    /// Nothing is visible, and the producer can go on.
    Aborted {
        /// For the log line.
        cause: String,
        /// Whether the producer must be reopened before the next commit.
        reopen: bool,
    },
    /// Nobody knows. Reopen, restore, go on.
    Unknown {
        /// For the log line.
        cause: String,
    },
    /// Another producer with this identity took over.
    Fenced {
        /// For the log line.
        cause: String,
    },
}

/// Where a commit's time went, for a log that asks a broker. Microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitSteps {
    /// Begin and hand everything to the client.
    pub send_us: u64,
    /// After the offsets, until every record was acknowledged.
    pub drain_us: u64,
    /// The offsets, while the records are on their way.
    pub offsets_us: u64,
    pub commit_us: u64,
}

/// A part of a topic is damaged.
pub const E_DAMAGED: &str = "E0504";

/// Errors by fate, not by origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Goes away by itself: try again, with a bound.
    #[error("{0}")]
    Transient(String),
    /// A task's position lies outside of its input, and nothing more of that task is read before it is started anew. Said once, and
    /// of no task in particular: each must be compared with its input, which restoring does (rule I12).
    #[error("{0}")]
    OutOfRange(String),
    /// What comes next cannot be read: its checksum is wrong, or it cannot be unpacked. Keep what came before it, and stop: a client that
    /// is asked again may go on behind it, as if it had never been.
    #[error("{0}")]
    Damaged(String),
    /// The lane has lost its identity or all its tasks: give them up and stop.
    #[error("{0}")]
    Lost(String),
    /// Stop: configuration, permission, a vanished topic. The code is one of the documented ones, as `E0102`.
    #[error("{code}: {message}")]
    Fatal {
        /// Documented error code.
        code: &'static str,
        /// What happened, where, what to do.
        message: String,
    },
}

/// Where restoring a task stands against the log (page `commit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangelogRange {
    /// First offset that still exists.
    pub start: u64,
    /// Offset after the last one visible under `read_committed`.
    pub end: u64,
}

/// Reads changelogs and stable group offsets for restore threads. One client per reader; used by one thread.
pub trait Changelog: Send {
    /// The group's committed input offset of a task, stable: waits (bounded) while a transaction on it is pending.
    ///
    /// # Errors
    /// [`LogError::Transient`] when the wait ended without an answer.
    fn committed(&mut self, task: TaskId, wait: Duration) -> Result<Option<NextOffset>, LogError>;

    /// The range of the task's changelog partition that exists.
    ///
    /// # Errors
    /// As for any read.
    fn range(&mut self, task: TaskId) -> Result<ChangelogRange, LogError>;

    /// Offset after the last record of the task's changelog, visible or not. Beyond the end of [`Changelog::range`] lies a transaction
    /// that is open, or decided while its marker is still on its way.
    ///
    /// # Errors
    /// As for any read.
    fn high_watermark(&mut self, task: TaskId) -> Result<u64, LogError>;

    /// Whether a transaction is open in the task's changelog, or its end has not got there yet. The last stable offset is asked for first:
    /// what comes between the two questions counts as open, and is seen to be over a moment later.
    ///
    /// # Errors
    /// As [`Changelog::range`].
    fn has_open_transaction(&mut self, task: TaskId) -> Result<bool, LogError> {
        let stable = self.range(task)?.end;
        Ok(self.high_watermark(task)? > stable)
    }

    /// Ends the transaction that a lane left open, and fences it, if it is no member of the group. `owner` is its transactional id. True where
    /// that was done; false where the lane is a member, or nobody can tell.
    ///
    /// # Errors
    /// By fate.
    fn evict(&mut self, owner: &str) -> Result<bool, LogError> {
        let _ = owner;
        Ok(false)
    }

    /// Range of the task's input partition that exists: to notice lost input.
    ///
    /// # Errors
    /// As for any read.
    fn input_range(&mut self, task: TaskId) -> Result<ChangelogRange, LogError>;

    /// Reads the task's changelog from `from` to its end as of now (the EOF event, never "offset = end"), in order, under
    /// `read_committed`. Returns the offset to go on from. Each record: (offset, key, value or tombstone). The handler may stop it.
    ///
    /// # Errors
    /// As for any read.
    #[expect(clippy::type_complexity, reason = "spelled out once, where implementors look")]
    fn read(
        &mut self,
        task: TaskId,
        from: u64,
        handler: &mut dyn FnMut(u64, &[u8], Option<&[u8]>) -> Flow,
    ) -> Result<u64, LogError>;

    /// Offset of the input to begin with on a first start (`earliest`, `latest`, a time), as configured.
    ///
    /// # Errors
    /// As for any read.
    fn first_offset(&mut self, task: TaskId) -> Result<NextOffset, LogError>;
}

/// Where a task's input ends, as far as its log knows without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputEnd {
    pub task: TaskId,
    /// Offset after the last record there is to read.
    pub end: u64,
    /// Records behind a transaction that stays open: one that was there at the statistics before already, 2 s ago.
    pub held_back: u64,
    /// How old this is. Milliseconds.
    pub age_ms: u64,
}

/// A transactional log, as one lane sees it. Not shared between threads. Its errors are sorted by fate, see [`LogError`].
pub trait Log {
    /// Hands over records, or an event about the assignment, waiting at most `wait` for the first. Bounded by the log's own batch
    /// size; the first record always fits.
    fn poll(&mut self, wait: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError>;

    /// Hands over sums that were kept as values, each with its record, which has no value of its own; how many. It comes before each
    /// [`Log::poll`], and the two share the log's batch size.
    fn poll_sums(&mut self, handler: &mut dyn FnMut(TaskId, &Record<'_>, &Sum) -> Flow) -> usize {
        let _ = handler;
        0
    }

    /// Takes assigned tasks: they stay paused until [`Log::start`].
    fn assign(&mut self, tasks: &[TaskId]) -> Result<(), LogError>;

    /// Reads a task from `next` on: seek, then resume. Also used to rewind after an abort.
    fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError>;

    /// Stops reading a task that stays assigned (restoring, poisoned).
    fn pause(&mut self, task: TaskId) -> Result<(), LogError>;

    /// Gives tasks back; the group goes on.
    fn unassign(&mut self, tasks: &[TaskId]) -> Result<(), LogError>;

    /// Collects an output for the next commit. Nothing leaves before it (rule C2).
    fn stage(&mut self, output: Output);

    /// As [`Log::stage`], naming the record that caused it, for a log that reports outputs in the order of its input (file).
    fn stage_from(&mut self, cause: (TaskId, RecordOffset), output: Output) {
        let _ = cause;
        self.stage(output);
    }

    /// As [`Log::stage_from`], for a command. `write` makes its bytes: once, and only where somebody is to have them.
    fn stage_command(&mut self, cause: (TaskId, RecordOffset), command: &Command, write: &mut dyn FnMut(&Command) -> Output) {
        self.stage_from(cause, write(command));
    }

    /// As [`Log::stage`], for a sum. A log that hands it back within the process keeps the value (file).
    ///
    /// # Errors
    /// As [`Sum::encode`].
    fn stage_sum(&mut self, sum: StagedSum) -> Result<(), StoreError> {
        self.stage(sum.into_output()?);
        Ok(())
    }

    fn discard(&mut self);

    /// One transaction: everything staged and these input offsets, or nothing. Steps S2 to S6 of page `commit`.
    /// `offsets` must not be empty: a transaction without them would be unfenced (rule C6).
    fn commit(&mut self, offsets: &[(TaskId, NextOffset)]) -> CommitOutcome;

    /// How long the last commit took, step by step; `None` where it is one step.
    fn commit_steps(&self) -> Option<CommitSteps> {
        None
    }

    /// A new producer of the same identity: when it returns, the old transaction is finished and its epoch fenced (rule C15).
    ///
    /// # Errors
    /// By fate; [`LogError::Transient`] may be retried.
    fn reopen(&mut self) -> Result<(), LogError>;

    /// How many producers were replaced after a commit that succeeded (rule C17), since the log was opened.
    fn producers_replaced(&self) -> u64 {
        0
    }

    /// After [`LogError::Lost`], whose words are `cause`: joins the group anew and holds no task, where it was likely the group that lost its
    /// memory and nobody else who took the place.
    ///
    /// # Errors
    /// [`LogError::Lost`] with the same words where somebody else is to be believed in; [`LogError::Transient`] while that is not known:
    /// then polls say again what was lost, and this is to be called again. Else by fate.
    fn rejoin(&mut self, cause: &str) -> Result<(), LogError> {
        Err(LogError::Lost(cause.to_owned()))
    }

    /// A reader for restore threads; `None` where the state itself is the log (embedded) or nothing is restored (file).
    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError>;

    /// Whether [`Log::commit`] writes the staged changelog records into the state store in the same atomic step: then the lane
    /// must not write them again (embedded).
    fn commits_state(&self) -> bool;

    /// Whether somebody waits for the commit of what was handed over, although it may say nothing: the next commit is due at once.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Whether staged changelog records go anywhere; where not (file), the lane need not make them.
    fn keeps_changelog(&self) -> bool {
        true
    }

    /// Partitions of `swarm-counts`; 0 where the swarm stage is off.
    fn swarm_partitions(&self) -> u32;

    /// Ends of the inputs of assigned tasks, for the lag; may be some seconds old, and leaves out what is not known.
    fn input_ends(&self) -> Vec<InputEnd> {
        Vec::new()
    }

    /// How long a broker that it reads from has not answered, where that is too long; may be some seconds old. Milliseconds.
    fn silent_ms(&self) -> Option<u64> {
        None
    }

    /// Identity that the Position records as owner: the transactional id.
    fn owner(&self) -> &str;

    /// Ends the membership: leaves the group if `leave` (scaling in), else keeps it for a restart within the session timeout.
    fn close(&mut self, leave: bool) -> Result<(), LogError>;
}

/// Number of partitions of each stage's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partitions {
    /// Of the event topic.
    pub session: u32,
    /// Of `swarm-counts`.
    pub swarm: u32,
}

impl Partitions {
    /// Partitions of a stage's input.
    pub const fn of(self, stage: Stage) -> u32 {
        match stage {
            Stage::Session => self.session,
            Stage::Swarm => self.swarm,
        }
    }
}

/// Name of each stage's input topic. Records of the worlds without Kafka carry those of a real installation, so that commands that quote
/// them read the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputNames {
    /// Topic of the events.
    pub events: String,
    /// Topic of the sums for the swarm stage.
    pub swarm_counts: String,
}

impl Default for InputNames {
    fn default() -> Self {
        Self { events: "agents.tool-events.v1".to_owned(), swarm_counts: "loopwarden.swarm-counts".to_owned() }
    }
}

impl InputNames {
    /// Name of a stage's input.
    pub fn of(&self, stage: Stage) -> &str {
        match stage {
            Stage::Session => &self.events,
            Stage::Swarm => &self.swarm_counts,
        }
    }
}

/// Gives a file another content: after this it has that, also after a power cut; before, the content it had.
///
/// # Errors
/// As any write; the file is then as it was.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_entry(path)
}

/// The same, but that a power cut may leave the content that the file had, or a torn one, until [`sync`].
///
/// # Errors
/// As any write; the file is then as it was.
pub fn replace_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(&new, path)
}

/// After this a file has its content also after a power cut.
///
/// # Errors
/// As any write.
pub fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    sync_entry(path)
}

fn sync_entry(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
