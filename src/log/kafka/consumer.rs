//! The consumer of a lane: many records per poll, an event about the assignment at a time, every answer given by the lane.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::thread;
use std::time::Duration;

use rdkafka::Message;
use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::BaseConsumer;
use rdkafka::consumer::Consumer;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::KafkaError;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::BorrowedMessage;
use rdkafka::message::Headers;

use crate::clock::Deadline;
use crate::event::EventTime;
use crate::event::NextOffset;
use crate::event::Record;
use crate::event::RecordMeta;
use crate::event::RecordOffset;
use crate::event::TaskId;
use crate::limits;
use crate::log::Flow;
use crate::log::LogError;
use crate::log::LogEvent;
use crate::log::kafka::context::ConsumerSide;
use crate::log::kafka::fate;
use crate::log::kafka::rebalance::Kind;
use crate::log::kafka::settings;
use crate::log::kafka::settings::KafkaOptions;
use crate::log::kafka::topics::Topics;

/// Between two tries of a seek that came before the partition's fetcher.
const SEEK_AGAIN: Duration = Duration::from_millis(5);

pub(super) struct LaneConsumer {
    consumer: BaseConsumer<ConsumerSide>,
    topics: Topics,
    /// Tasks that are assigned, and for those that are read the offset to hand over next.
    tasks: BTreeMap<TaskId, Option<u64>>,
    /// An error that came after records in the same poll.
    postponed: Option<LogError>,
    value_bytes_max: usize,
}

impl LaneConsumer {
    /// Joins the group. Nothing of the lane's own may be open by now (rule B6).
    pub(super) fn join(options: &KafkaOptions, topics: Topics) -> Result<Self, LogError> {
        let consumer: BaseConsumer<ConsumerSide> = settings::lane_consumer(options)
            .create_with_context(ConsumerSide::default())
            .map_err(|error| fate::of(&error, "making the consumer"))?;
        consumer.subscribe(&topics.inputs()).map_err(|error| fate::of(&error, "subscribing"))?;
        Ok(Self { consumer, topics, tasks: BTreeMap::new(), postponed: None, value_bytes_max: options.value_bytes_max })
    }

    pub(super) fn group_metadata(&self) -> Option<ConsumerGroupMetadata> {
        self.consumer.group_metadata()
    }

    /// Last stable offset of every assigned task's input, as of the last statistics.
    pub(super) fn ends(&self) -> Vec<(TaskId, u64)> {
        let ends = self.consumer.context().ends();
        ends.into_iter()
            .filter_map(|((topic, partition), end)| Some((self.topics.task_of(&topic, partition as i32)?, end)))
            .filter(|(task, _)| self.tasks.contains_key(task))
            .collect()
    }

    pub(super) fn poll(
        &mut self,
        wait: Duration,
        handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow,
    ) -> Result<LogEvent, LogError> {
        if let Some(event) = self.next_event() {
            return Ok(event);
        }
        if let Some(error) = self.postponed.take() {
            return Err(error);
        }
        let (mut records, mut bytes, mut wait) = (0, 0, wait);
        while records < limits::POLL_RECORDS_MAX && bytes < limits::POLL_BYTES_MAX {
            match self.consumer.poll(wait) {
                Some(Ok(message)) => {
                    // Only inputs are subscribed.
                    let Some(task) = self.topics.task_of(message.topic(), message.partition()) else { continue };
                    records += 1;
                    bytes += message.payload_len();
                    if let Some(next) = self.tasks.get_mut(&task) {
                        *next = u64::try_from(message.offset() + 1).ok();
                    }
                    if hand_over(&message, task, self.value_bytes_max, handler) == Flow::Stop {
                        break;
                    }
                }
                Some(Err(error)) => {
                    if let Some(error) = fate::of_running(&error) {
                        if records == 0 {
                            return Err(error);
                        }
                        self.postponed = Some(error);
                        break;
                    }
                }
                // Nothing more now; or an event that the callback has noted.
                None => break,
            }
            wait = Duration::ZERO;
        }
        if records == 0
            && let Some(event) = self.next_event()
        {
            return Ok(event);
        }
        Ok(LogEvent::Records(records))
    }

    /// The next event the lane must answer. Empty lists drive the protocol too, and are answered here.
    fn next_event(&mut self) -> Option<LogEvent> {
        loop {
            let change = self.consumer.context().rebalances.next()?;
            let tasks: Vec<TaskId> = change
                .partitions
                .elements()
                .iter()
                .filter_map(|element| self.topics.task_of(element.topic(), element.partition()))
                .collect();
            if tasks.is_empty() {
                change.answer(&self.consumer);
                continue;
            }
            return Some(match change.kind {
                Kind::Assigned => LogEvent::Assigned(tasks),
                Kind::Revoked => LogEvent::Revoked(tasks),
                Kind::Lost => LogEvent::Lost(tasks),
            });
        }
    }

    fn list(&self, tasks: impl IntoIterator<Item = TaskId>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for task in tasks {
            if let Some(topic) = self.topics.input_of(task) {
                list.add_partition(topic, task.partition as i32);
            }
        }
        list
    }

    /// The list of offsets to read next, as a transaction commits them.
    pub(super) fn offsets(&self, offsets: &[(TaskId, NextOffset)]) -> Result<TopicPartitionList, LogError> {
        let mut list = TopicPartitionList::new();
        for (task, next) in offsets {
            if let Some(topic) = self.topics.input_of(*task) {
                list.add_partition_offset(topic, task.partition as i32, Offset::Offset(next.0 as i64))
                    .map_err(|error| fate::of(&error, "naming an offset"))?;
            }
        }
        Ok(list)
    }

    pub(super) fn assign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        if let Some(task) = tasks.iter().find(|task| !self.topics.has_changelog(**task)) {
            return Err(fate::fatal(
                fate::E_TOPIC_SHAPE,
                format!("task {task} was assigned, but its changelog has no such partition: the input has grown"),
            ));
        }
        let mut list = self.list(tasks.iter().copied());
        // Any place will do: nothing is read before the seek. A stored offset would have to be asked for.
        list.set_all_offsets(Offset::Beginning).map_err(|error| fate::of(&error, "assigning"))?;
        // Before, where the client knows the partition already: it must not fetch in between. After, where it does not.
        self.consumer.pause(&list).map_err(|error| self.failed(&error, "pausing"))?;
        self.consumer.incremental_assign(&list).map_err(|error| self.failed(&error, "assigning"))?;
        self.consumer.pause(&list).map_err(|error| self.failed(&error, "pausing"))?;
        self.tasks.extend(tasks.iter().map(|task| (*task, None)));
        Ok(())
    }

    pub(super) fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        self.seek(task, next)?;
        // An application's pause survives everything but this call.
        self.consumer.resume(&self.list([task])).map_err(|error| self.failed(&error, "resuming"))?;
        self.tasks.insert(task, Some(next.0));
        Ok(())
    }

    fn seek(&self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        let deadline = Deadline::after(limits::SEEK_WAIT);
        loop {
            let list = self.offsets(&[(task, next)])?;
            let cause = match self.consumer.seek_partitions(list, deadline.left()) {
                Ok(list) => match list.elements().iter().find_map(|element| element.error().err()) {
                    None => return Ok(()),
                    Some(error) => error,
                },
                Err(error) => error,
            };
            if let Some(lost) = self.fatal() {
                return Err(lost);
            }
            let early = matches!(
                cause.rdkafka_error_code(),
                Some(RDKafkaErrorCode::State | RDKafkaErrorCode::PreviousInProgress | RDKafkaErrorCode::InProgress)
            );
            if !early || deadline.is_over() {
                return Err(LogError::Transient(format!("seeking {task} to {next}: {cause}")));
            }
            thread::park_timeout(SEEK_AGAIN);
        }
    }

    pub(super) fn pause(&mut self, task: TaskId) -> Result<(), LogError> {
        self.consumer.pause(&self.list([task])).map_err(|error| self.failed(&error, "pausing"))?;
        if let Some(next) = self.tasks.get_mut(&task) {
            *next = None;
        }
        Ok(())
    }

    pub(super) fn unassign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        for task in tasks {
            self.tasks.remove(task);
        }
        match self.consumer.incremental_unassign(&self.list(tasks.iter().copied())) {
            Ok(()) => Ok(()),
            // The client has unassigned everything by itself then.
            Err(_) if self.fatal().is_some() => Ok(()),
            Err(error) => Err(self.failed(&error, "unassigning")),
        }
    }

    fn fatal(&self) -> Option<LogError> {
        self.consumer.client().fatal_error().map(|(_, cause)| fate::lost(&cause))
    }

    fn failed(&self, error: &KafkaError, doing: &str) -> LogError {
        self.fatal().unwrap_or_else(|| fate::of(error, doing))
    }

    /// Stops reading all tasks while the lane waits for something else, so that it can poll: the group must see it alive.
    pub(super) fn hold(&self) -> Result<(), LogError> {
        self.consumer.pause(&self.list(self.tasks.keys().copied())).map_err(|error| self.failed(&error, "pausing"))
    }

    /// Polls while everything is held, so that the group sees the lane alive. Events wait for it.
    pub(super) fn turn(&mut self, wait: Duration) {
        // A record that slips through is read again: release seeks.
        if let Some(Err(error)) = self.consumer.poll(wait)
            && let Some(error) = fate::of_running(&error)
        {
            self.postponed = Some(error);
        }
    }

    /// Undoes [`LaneConsumer::hold`]. Where to go on is told, not left to the client: after a mere resume it has been seen to hand
    /// over a record again.
    pub(super) fn release(&mut self) -> Result<(), LogError> {
        let running: Vec<(TaskId, u64)> = self.tasks.iter().filter_map(|(task, next)| Some((*task, (*next)?))).collect();
        for (task, next) in running {
            self.start(task, NextOffset(next))?;
        }
        Ok(())
    }

    /// From now on rebalances are answered by the callback: the lane will not. What is under way is brought to its end, as far as it
    /// does not need the group.
    fn let_go(&self) {
        let rebalances = &self.consumer.context().rebalances;
        rebalances.leave();
        while let Some(change) = rebalances.next() {
            change.answer(&self.consumer);
        }
        // Nothing is fetched on, so that the queue ends.
        let _ = self.hold();
        for _ in 0..limits::POLL_RECORDS_MAX {
            let seen = rebalances.seen();
            if self.consumer.poll(Duration::ZERO).is_none() && rebalances.seen() == seen {
                break;
            }
        }
    }

    /// Leaves the group, static member or not; gives up waiting after a while, then the session's timeout does it.
    pub(super) fn leave(&self) {
        self.let_go();
        self.consumer.unsubscribe();
        let deadline = Deadline::after(limits::LEAVE_WAIT);
        while self.consumer.assignment().is_ok_and(|left| left.count() > 0) && !deadline.is_over() {
            drop(self.consumer.poll(Duration::from_millis(20)));
        }
    }
}

impl Drop for LaneConsumer {
    fn drop(&mut self) {
        // Closing polls until the group has let go: without this it would wait for an answer that nobody gives.
        self.let_go();
        self.consumer.context().rebalances.close();
    }
}

fn hand_over(
    message: &BorrowedMessage<'_>,
    task: TaskId,
    value_bytes_max: usize,
    handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow,
) -> Flow {
    let meta = RecordMeta {
        topic: message.topic(),
        partition: task.partition,
        offset: RecordOffset(message.offset().max(0) as u64),
        timestamp: EventTime(message.timestamp().to_millis().unwrap_or(0)),
        key: message.key(),
        headers: message.headers().map_or_else(Vec::new, read_headers),
        value_bytes_max,
    };
    handler(task, &Record { meta, value: message.payload() })
}

/// A header whose name is not UTF-8 is left out: the client's only accessor panics on it, and any producer may write one.
pub(super) fn read_headers<H: Headers>(headers: &H) -> Vec<(&str, Option<&[u8]>)> {
    (0..headers.count())
        .filter_map(|at| catch_unwind(AssertUnwindSafe(|| headers.try_get(at))).ok().flatten())
        .map(|header| (header.key, header.value))
        .collect()
}
