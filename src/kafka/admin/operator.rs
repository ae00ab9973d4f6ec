//! What an operator does to a group from outside: see who is in it, move an offset, write into a changelog. Nothing of it is fenced.

use loopwarden_core::event::{NextOffset, Stage, TaskId};
use loopwarden_core::limits;
use loopwarden_log::{Changelog, Flow, LogError, Partitions};

use crate::{
    client::fate, client::settings::KafkaOptions, producers::writer::Writer, readers::changelog::KafkaChangelog,
    readers::reader::Reader, topics::Topics,
};

/// Keys that are read before they are deleted.
const KEYS: usize = 10_000;

/// A client that is no member of the group.
pub struct Operator {
    group: String,
    topics: Topics,
    reader: Reader,
    changelog: KafkaChangelog,
    writer: Writer,
}

impl Operator {
    /// Connects.
    ///
    /// # Errors
    /// E0101 to E0104 for brokers and topics.
    pub fn connect(options: &KafkaOptions) -> Result<Self, LogError> {
        let reader = Reader::open(options, "operator")?;
        let topics = Topics::fetch(reader.client(), options)?;
        Self::of(options, reader, topics)
    }

    /// The same where a changelog need not fit its input.
    ///
    /// # Errors
    /// E0101 to E0103.
    pub(crate) fn connect_uneven(options: &KafkaOptions) -> Result<Self, LogError> {
        let reader = Reader::open(options, "operator")?;
        let topics = Topics::fetch_uneven(reader.client(), options)?;
        Self::of(options, reader, topics)
    }

    fn of(options: &KafkaOptions, reader: Reader, topics: Topics) -> Result<Self, LogError> {
        Ok(Self {
            group: options.app.clone(),
            changelog: KafkaChangelog::new(options.clone(), topics.clone()),
            topics,
            reader,
            writer: Writer::new(options)?,
        })
    }

    /// Partition counts of the inputs.
    pub fn partitions(&self) -> Partitions {
        self.topics.partitions()
    }

    /// Partitions of a stage's changelog.
    pub(crate) fn changelog_partitions(&self, stage: Stage) -> u32 {
        self.topics.changelog_partitions(stage)
    }

    /// Lanes that are members of the group. One of a process that ended without leaving counts until its session is over.
    ///
    /// # Errors
    /// The group's coordinator does not answer.
    pub fn members(&self) -> Result<usize, LogError> {
        let asking = format!("asking who is in group \"{}\"", self.group);
        let found = self.reader.members(&self.group, limits::ASK_WAIT).map_err(|error| fate::of(&error, &asking))?;
        found.map(|members| members.len()).ok_or_else(|| {
            let hint = "under kafka.group_protocol = \"consumer\" nobody can; stop all processes and try with \"classic\"";
            LogError::Transient(format!("{asking}: no answer; {hint}"))
        })
    }

    /// Reads changelogs and the group's offsets.
    pub fn changelog(&mut self) -> &mut dyn Changelog {
        &mut self.changelog
    }

    /// Reads a task's changelog up to an end, and deletes each record that `is_meant`.
    ///
    /// # Errors
    /// The brokers'; what was deleted so far stays so.
    pub fn delete(&mut self, task: TaskId, upto: u64, is_meant: impl Fn(&[u8]) -> bool) -> Result<(), LogError> {
        let Self { topics, changelog, writer, .. } = self;
        let topic = topics.changelog_of(task).unwrap_or_default();
        let mut next = changelog.range(task)?.start;
        let mut keys = Vec::new();
        loop {
            let mut has_more = false;
            next = changelog.read(task, next, &mut |offset, key, value| {
                // Its own tombstones come behind, and it would read them for ever.
                if offset >= upto {
                    return Flow::Stop;
                }
                if value.is_some() && is_meant(key) {
                    keys.push(key.to_vec());
                }
                has_more = keys.len() >= KEYS;
                if has_more { Flow::Stop } else { Flow::Continue }
            })?;
            // Not while it reads: a write may wait for longer than a read may be silent.
            for key in keys.drain(..) {
                writer.write(topic, Some(task.partition), &key, None)?;
            }
            if !has_more {
                return writer.flush();
            }
        }
    }

    /// Writes one record of a task's changelog, null for a tombstone, and waits until it is durable.
    ///
    /// # Errors
    /// The brokers'.
    pub fn put(&self, task: TaskId, key: &[u8], value: Option<&[u8]>) -> Result<(), LogError> {
        let topic = self.topics.changelog_of(task).unwrap_or_default();
        self.writer.write(topic, Some(task.partition), key, value)?;
        self.writer.flush()
    }

    /// Lets the group go on elsewhere. Brokers refuse it while the group has members.
    ///
    /// # Errors
    /// The brokers'.
    pub fn move_group(&self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        let input = self.topics.input_of(task).unwrap_or_default();
        let moving = format!("moving the group's offset of {task}");
        self.reader.move_group(input, [(task.partition as i32, next.0)], &moving)
    }
}
