//! The consumer of a lane: many records per poll, an event about the assignment at a time, every answer given by the lane.

use std::collections::{BTreeMap, BTreeSet};
use std::{thread, time::Duration};

use loopwarden_core::event::{NextOffset, Record, TaskId};
use loopwarden_core::limits;
use loopwarden_log::clock::{self, Deadline};
use loopwarden_log::{Flow, InputEnd, LogError, LogEvent};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::client::closing::Bounded;
use crate::client::context::{ConsumerSide, Extent};
use crate::client::message::{hand_over, weight};
use crate::client::rebalance::{Kind, Rebalances};
use crate::client::settings::{GroupProtocol, KafkaOptions};
use crate::client::{bearer, fate, identity, settings};
use crate::topics::Topics;

/// Between two tries of a seek that came before the partition's fetcher.
const SEEK_AGAIN: Duration = Duration::from_millis(5);
/// Between two looks whether all tasks are given back.
const LEFT_AGAIN: Duration = Duration::from_millis(20);

pub(crate) struct LaneConsumer {
    consumer: Bounded<BaseConsumer<ConsumerSide>>,
    topics: Topics,
    /// Tasks that are assigned, and for those that are read the offset to hand over next.
    tasks: BTreeMap<TaskId, Option<u64>>,
    /// Tasks that the client may have stopped fetching when it said that a position is out of range; it does not say whose. A seek is
    /// refused for them: they are assigned anew before it.
    halted: BTreeSet<TaskId>,
    /// An error that came after records in the same poll.
    postponed: Option<LogError>,
    /// What the group knew this member by at the last event that the lane was given.
    membership: Option<ConsumerGroupMetadata>,
    /// The group's offset of each task, as far as this lane has moved it.
    committed: BTreeMap<TaskId, NextOffset>,
    /// Tasks of which the group has said since that event that nobody else has moved it.
    confirmed: BTreeSet<TaskId>,
    value_bytes_max: usize,
    protocol: GroupProtocol,
    /// What it does, for messages.
    reading: String,
}

impl LaneConsumer {
    /// Joins the group. Nothing of the lane's own may be open by now (rule B6).
    pub(crate) fn join(options: &KafkaOptions, topics: Topics) -> Result<Self, LogError> {
        let context = ConsumerSide::new(options.security.tokens.clone(), Rebalances::default());
        let consumer: Bounded<BaseConsumer<_>> =
            Bounded::make(&settings::lane_consumer(options), context, "making the consumer")?;
        bearer::hand_to(consumer.client(), options.security.tokens.as_ref()).map_err(|error| identity::transient(&error))?;
        let inputs: Vec<String> = options.reads.iter().map(|stage| options.input_topic(*stage)).collect();
        let names: Vec<&str> = inputs.iter().map(String::as_str).collect();
        ask_for(&consumer, names.iter().copied());
        consumer.subscribe(&names).map_err(|error| fate::of(&error, "subscribing"))?;
        let reading = format!("reading {} in group \"{}\"", names.join(" and "), options.app);
        let value_bytes_max = options.value_bytes_max;
        Ok(Self {
            consumer,
            topics,
            tasks: BTreeMap::new(),
            halted: BTreeSet::new(),
            postponed: None,
            membership: None,
            committed: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            value_bytes_max,
            protocol: options.group_protocol,
            reading,
        })
    }

    /// Whether the group says that somebody else has this member's place.
    pub(crate) fn is_fenced(&self) -> bool {
        self.consumer.client().fatal_error().is_some_and(|(code, _)| code == RDKafkaErrorCode::FencedInstanceId)
    }

    /// Whether another client of this name may try, under the consumer protocol: the group refuses who comes while the place is taken; and
    /// a client that comes back after its poll interval asks in a way that brokers refuse, and gives up (2.12.1).
    pub(crate) fn is_refused(&self) -> bool {
        let refusals = [RDKafkaErrorCode::UnreleasedInstanceId, RDKafkaErrorCode::InvalidRequest];
        self.consumer.client().fatal_error().is_some_and(|(code, _)| refusals.contains(&code))
    }

    /// Notes by which epoch the group knows this member now (rule C5). Under the consumer protocol it grows without any event; one that was
    /// forgotten gets another only when the lane has answered that its tasks are lost (2.12.1).
    pub(crate) fn refresh(&mut self) {
        if self.protocol == GroupProtocol::Consumer && self.membership.is_some() && !self.consumer.context().rebalances.has_next()
        {
            self.membership = self.consumer.group_metadata();
        }
    }

    /// The fence of a commit (rule C5): as the lane knows its membership, not as it is by now. A static member that the group has forgotten
    /// gets another name behind the lane's back, and keeps its tasks (2.12.1); under the old name the group refuses it.
    pub(crate) const fn membership(&self) -> Option<&ConsumerGroupMetadata> {
        self.membership.as_ref()
    }

    /// Asks the group, once after each event, whether somebody else has committed for one of these tasks, as happens while it has forgotten
    /// this member. An answer that came under this membership holds for as long as it does.
    ///
    /// # Errors
    /// [`LogError::Lost`] where somebody has.
    pub(crate) fn confirm(&mut self, offsets: &[(TaskId, NextOffset)]) -> Result<(), LogError> {
        let open: Vec<TaskId> = offsets.iter().map(|(task, _)| *task).filter(|task| !self.confirmed.contains(task)).collect();
        if open.is_empty() {
            return Ok(());
        }
        let asking = "asking for the group's offsets";
        let list = self.list(open.iter().copied());
        let list = self.consumer.committed_offsets(list, limits::CONFIRM_WAIT).map_err(|error| self.failed(&error, asking))?;
        for element in list.elements() {
            element.error().map_err(|error| self.failed(&error, asking))?;
            let task = self.topics.task_of(element.topic(), element.partition());
            let ours = task.and_then(|task| self.committed.get(&task));
            if let (Some(NextOffset(ours)), Offset::Offset(theirs)) = (ours, element.offset())
                && u64::try_from(theirs).is_ok_and(|theirs| theirs > *ours)
            {
                return Err(fate::lost(&format!(
                    "somebody else has committed {}, where this lane stands at {ours}",
                    named(&element)
                )));
            }
        }
        self.confirmed.extend(open);
        Ok(())
    }

    /// A commit has moved the group's offsets.
    pub(crate) fn moved(&mut self, offsets: &[(TaskId, NextOffset)]) {
        self.committed.extend(offsets.iter().copied());
    }

    /// Where the input of every assigned task ends, as of the last statistics and of what was handed over since.
    pub(crate) fn ends(&self) -> Vec<InputEnd> {
        let now_ms = clock::now_ms();
        let end = |((topic, partition), seen): ((String, u32), Extent)| {
            let task = self.topics.task_of(&topic, partition as i32)?;
            // The last offset before the end may be a transaction's marker, which nobody is ever handed over.
            let handed_over = self.tasks.get(&task)?.unwrap_or_default();
            let end = if seen.is_drained { handed_over } else { seen.stable.max(handed_over) };
            let age_ms = now_ms.saturating_sub(seen.as_of_ms).max(0).unsigned_abs();
            Some(InputEnd { task, end, held_back: seen.held_back, age_ms })
        };
        self.consumer.context().ends().into_iter().filter_map(end).collect()
    }

    /// How long a broker that is read from has not answered, where that is too long. Milliseconds.
    pub(crate) fn silent_ms(&self) -> Option<u64> {
        self.consumer.context().answers.silent_ms()
    }

    /// A partition that this client has stopped reading, without an error, for a message.
    pub(crate) fn stands_still(&self) -> Option<String> {
        self.consumer.context().standstill.found()
    }

    pub(crate) fn poll(
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
        if self.tasks.is_empty() {
            // The client's own thread looks after the group once a second, or when it is asked something (2.12.1): who joins would wait.
            let _ = self.consumer.subscription();
        }
        let (mut records, mut bytes, mut wait) = (0, 0, wait);
        while records < limits::POLL_RECORDS_MAX && bytes < limits::POLL_BYTES_MAX {
            match self.consumer.poll(wait) {
                Some(Ok(message)) => {
                    // Only inputs are subscribed.
                    let Some(task) = self.topics.task_of(message.topic(), message.partition()) else { continue };
                    records += 1;
                    let headers = message.headers();
                    bytes += weight(&message, headers);
                    if let Some(next) = self.tasks.get_mut(&task) {
                        *next = u64::try_from(message.offset() + 1).ok();
                    }
                    if hand_over(&message, headers, task, self.value_bytes_max, handler) == Flow::Stop {
                        break;
                    }
                }
                Some(Err(error)) => {
                    if let Some(error) = self.fate_of(&error) {
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
            self.membership = if change.kind == Kind::Lost { None } else { self.consumer.group_metadata() };
            self.confirmed.clear();
            let tasks: Vec<TaskId> = change
                .partitions
                .elements()
                .iter()
                .filter_map(|element| self.topics.task_of(element.topic(), element.partition()))
                .collect();
            if tasks.is_empty() {
                change.answer(&self.consumer);
                self.consumer.context().rebalances.paid();
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
    pub(crate) fn offsets(&self, offsets: &[(TaskId, NextOffset)]) -> Result<TopicPartitionList, LogError> {
        let mut list = TopicPartitionList::new();
        for (task, next) in offsets {
            if let Some(topic) = self.topics.input_of(*task) {
                list.add_partition_offset(topic, task.partition as i32, Offset::Offset(next.0 as i64))
                    .map_err(|error| fate::of(&error, "naming an offset"))?;
            }
        }
        Ok(list)
    }

    pub(crate) fn assign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        // The last one first: it says how many there are now.
        let mut last_first = tasks.to_vec();
        last_first.sort_unstable_by(|one, two| two.cmp(one));
        last_first.into_iter().try_for_each(|task| self.topics.expect_changelog(task))?;
        let mut list = self.list(tasks.iter().copied());
        // Before, where the client knows the partition already: it must not fetch in between. After, where it does not.
        let is_paused = |list: &TopicPartitionList| list.elements().iter().all(|element| element.error().is_ok());
        self.consumer.pause(&list).map_err(|error| self.failed(&error, "pausing"))?;
        if !is_paused(&list) {
            let inputs: BTreeSet<&str> = tasks.iter().filter_map(|task| self.topics.input_of(*task)).collect();
            ask_for(&self.consumer, inputs);
            self.consumer.pause(&list).map_err(|error| self.failed(&error, "pausing"))?;
        }
        // Nothing is read before the seek: what is paused may stand anywhere. A place that is not a number must be asked for, and where the
        // answer comes after the seek, the client (2.12.1) asks again and goes there, half a second later.
        let place = if is_paused(&list) { Offset::Offset(0) } else { Offset::Beginning };
        list.set_all_offsets(place).map_err(|error| fate::of(&error, "assigning"))?;
        self.consumer.incremental_assign(&list).map_err(|error| self.failed(&error, "assigning"))?;
        self.consumer.context().rebalances.paid();
        self.consumer.pause(&list).map_err(|error| self.failed(&error, "pausing"))?;
        self.tasks.extend(tasks.iter().map(|task| (*task, None)));
        Ok(())
    }

    /// What an error of a poll means, and what the client has stopped with it.
    fn fate_of(&mut self, error: &KafkaError) -> Option<LogError> {
        if let Some(fate) = identity::of_refused(self.consumer.context().tokens(), error, &self.reading) {
            return Some(fate);
        }
        match fate::of_running(error, &self.reading) {
            Some(LogError::OutOfRange(cause)) => {
                self.halted.extend(self.tasks.keys());
                Some(LogError::OutOfRange(cause))
            }
            // The client does not say where.
            Some(LogError::Damaged(cause)) => Some(LogError::Damaged(format!("{cause}; behind one of: {}", self.places()))),
            fate => fate,
        }
    }

    /// Where the tasks that are read stand, as `events/3 at 88120`.
    fn places(&self) -> String {
        let place = |(task, next): (&TaskId, &Option<u64>)| {
            Some(format!("{}/{} at {}", self.topics.input_of(*task)?, task.partition, (*next)?))
        };
        self.tasks.iter().filter_map(place).collect::<Vec<_>>().join(", ")
    }

    /// Has the client fetch a task again that it may have stopped fetching. The group takes no notice.
    fn assign_again(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        // The client would take it for the answer.
        if self.consumer.context().rebalances.has_next() {
            return Err(LogError::Transient(format!("{task} is assigned anew once the group's last word is answered")));
        }
        let list = self.offsets(&[(task, next)])?;
        self.consumer.pause(&list).map_err(|error| self.failed(&error, "pausing"))?;
        // Fails where a former try came so far and no further; what is wrong else shows in the next call.
        let _ = self.consumer.incremental_unassign(&list);
        self.consumer.incremental_assign(&list).map_err(|error| self.failed(&error, "assigning anew"))?;
        self.consumer.pause(&list).map_err(|error| self.failed(&error, "pausing"))?;
        self.halted.remove(&task);
        Ok(())
    }

    /// Reads a task from where it was committed.
    pub(crate) fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        self.start_all(&[(task, next)])?;
        self.committed.insert(task, next);
        Ok(())
    }

    fn start_all(&mut self, places: &[(TaskId, NextOffset)]) -> Result<(), LogError> {
        for (task, next) in places {
            if self.halted.contains(task) {
                self.assign_again(*task, *next)?;
            }
        }
        self.seek(places)?;
        // An application's pause survives everything but this call.
        let list = self.list(places.iter().map(|(task, _)| *task));
        self.consumer.resume(&list).map_err(|error| self.failed(&error, "resuming"))?;
        self.tasks.extend(places.iter().map(|(task, next)| (*task, Some(next.0))));
        Ok(())
    }

    /// One wait for all of them, however many they are.
    fn seek(&self, places: &[(TaskId, NextOffset)]) -> Result<(), LogError> {
        let deadline = Deadline::after(limits::SEEK_WAIT);
        loop {
            let list = self.offsets(places)?;
            let (whose, cause) = match self.consumer.seek_partitions(list, deadline.left()) {
                Ok(list) => match list.elements().iter().find_map(|element| Some((named(element), element.error().err()?))) {
                    None => return Ok(()),
                    Some(refused) => refused,
                },
                Err(error) => (format!("{} partitions", places.len()), error),
            };
            if let Some(lost) = self.fatal() {
                return Err(lost);
            }
            let early = matches!(
                cause.rdkafka_error_code(),
                Some(RDKafkaErrorCode::State | RDKafkaErrorCode::PreviousInProgress | RDKafkaErrorCode::InProgress)
            );
            if !early || deadline.is_over() {
                return Err(LogError::Transient(format!("seeking in {whose}: {cause}")));
            }
            thread::park_timeout(SEEK_AGAIN);
        }
    }

    pub(crate) fn pause(&mut self, task: TaskId) -> Result<(), LogError> {
        self.consumer.pause(&self.list([task])).map_err(|error| self.failed(&error, "pausing"))?;
        if let Some(next) = self.tasks.get_mut(&task) {
            *next = None;
        }
        Ok(())
    }

    pub(crate) fn unassign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        // After joining anew, those of the former member are not this one's to give back.
        let mut held: Vec<TaskId> = tasks.iter().copied().filter(|task| self.tasks.remove(task).is_some()).collect();
        // Nor is one that could not be assigned anew.
        let is_here = |task: TaskId| {
            let assigned = self.consumer.assignment();
            let topic = self.topics.input_of(task).unwrap_or_default();
            assigned.is_ok_and(|assigned| assigned.find_partition(topic, task.partition as i32).is_some())
        };
        held.retain(|task| !self.halted.contains(task) || is_here(*task));
        for task in tasks {
            self.halted.remove(task);
            self.committed.remove(task);
        }
        if held.is_empty() {
            return Ok(());
        }
        match self.consumer.incremental_unassign(&self.list(held)) {
            Ok(()) => {
                self.consumer.context().rebalances.paid();
                Ok(())
            }
            // The client has unassigned everything by itself then.
            Err(_) if self.fatal().is_some() => Ok(()),
            Err(error) => Err(self.failed(&error, "unassigning")),
        }
    }

    fn fatal(&self) -> Option<LogError> {
        self.consumer.client().fatal_error().map(|(_, cause)| fate::lost(&cause))
    }

    fn failed(&self, error: &KafkaError, doing: &str) -> LogError {
        self.fatal().unwrap_or_else(|| identity::fate_of(self.consumer.context().tokens(), error, doing))
    }

    /// Stops reading all tasks while the lane waits for something else, so that it can poll: the group must see it alive.
    pub(crate) fn hold(&self) -> Result<(), LogError> {
        self.consumer.pause(&self.list(self.tasks.keys().copied())).map_err(|error| self.failed(&error, "pausing"))
    }

    /// Polls while everything is held, so that the group sees the lane alive. Events wait for it.
    pub(crate) fn turn(&mut self, wait: Duration) {
        // A record that slips through is read again: release seeks. That the place is lost is said once, and nothing takes its place.
        if let Some(Err(error)) = self.consumer.poll(wait)
            && let Some(error) = self.fate_of(&error)
            && !matches!(self.postponed, Some(LogError::Lost(_)))
        {
            self.postponed = Some(error);
        }
    }

    /// Undoes [`LaneConsumer::hold`]. Where to go on is told, not left to the client: after a mere resume it has been seen to hand
    /// over a record again.
    pub(crate) fn release(&mut self) -> Result<(), LogError> {
        let running: Vec<_> = self.tasks.iter().filter_map(|(task, next)| Some((*task, NextOffset((*next)?)))).collect();
        if running.is_empty() { Ok(()) } else { self.start_all(&running) }
    }

    /// Leaves the group, static member or not; gives up waiting after a while, then the session's timeout does it.
    pub(crate) fn leave(&self) {
        self.consumer.context().rebalances.leave(&self.consumer);
        self.consumer.unsubscribe();
        let deadline = Deadline::after(limits::LEAVE_WAIT);
        while self.consumer.assignment().is_ok_and(|left| left.count() > 0) && !deadline.is_over() {
            drop(self.consumer.poll(LEFT_AGAIN));
        }
    }
}

/// Has the client know the partitions of some topics, so that it can pause them before they are assigned. Without an answer it does so
/// afterwards.
fn ask_for<'a>(consumer: &BaseConsumer<ConsumerSide>, topics: impl IntoIterator<Item = &'a str>) {
    for topic in topics {
        let _ = consumer.fetch_metadata(Some(topic), limits::PLACE_ASK_WAIT);
    }
}

/// `events[3] to Offset(7)`
fn named(element: &TopicPartitionListElem<'_>) -> String {
    format!("{}[{}] to {:?}", element.topic(), element.partition(), element.offset())
}
