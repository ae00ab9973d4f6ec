//! What must come out (oracle O1): the production lane over the same input, alone, in memory, without a fault, a commit per record.

use std::collections::{BTreeMap, VecDeque};
use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use loopwarden::event::{EventTime, NextOffset, Record, RecordMeta, RecordOffset, Stage, TaskId, partition_of};
use loopwarden::log::{Changelog, CommitOutcome, Destination, Flow, Log, LogError, LogEvent, Output, Partitions};
use loopwarden::store::{KeyFamily, MemoryStore, state_hash};
use loopwarden::task::{CommitTrigger, Exit, InlineRestorer, Lane, LaneSettings, Leases, ProcessMode, SystemClock, Turn};
use loopwarden::{engine::SessionEngine, policy::Policy, server::SWARM};

use crate::fleet::Event;
use crate::outcome::{Outcome, Spill, read_output};

/// What the processes of the kill loop are told, too.
pub(crate) const LATENESS_MS: i64 = 1_000;

const EPISODE_OF: &str = "@episode-of:";

/// A record as it is handed over.
#[derive(Debug, Clone)]
struct Given {
    task: TaskId,
    offset: u64,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    timestamp_ms: i64,
}

/// Events in, outputs out; everything is always committed.
struct Straight<I> {
    events: I,
    partitions: u32,
    topics: [String; 2],
    value_bytes_max: usize,
    next: BTreeMap<TaskId, u64>,
    assigned: bool,
    started: usize,
    /// Handed over; again, when the lane asks for it.
    last: Option<Given>,
    again: bool,
    sums: VecDeque<Given>,
    staged: Vec<Output>,
    outcome: Rc<RefCell<Outcome>>,
    content: Content,
    /// Episodes by the events that have triggered their commands, where answers name those.
    episodes: Option<BTreeMap<String, String>>,
}

/// What of an output is compared: its id, and its bytes or a part of them.
pub(crate) type Content = fn(String, Vec<u8>) -> (String, Vec<u8>);

/// What the uninterrupted run is given.
pub(crate) struct Input<I> {
    pub(crate) events: I,
    pub(crate) partitions: u32,
    /// Names of both stages' inputs.
    pub(crate) topics: [String; 2],
    pub(crate) app: String,
    pub(crate) policy: Arc<Policy>,
    pub(crate) lateness_ms: i64,
    /// Answers name a command by the event that triggered it, since its episode is another one here. See [`episode_of`].
    pub(crate) names_triggers: bool,
}

/// What stands in an answer for the episode of the command that an event has triggered.
pub(crate) fn episode_of(trigger: &str) -> String {
    format!("{EPISODE_OF}{trigger}@")
}

fn tasks(partitions: u32) -> Vec<TaskId> {
    let of = |stage| (0..partitions).map(move |partition| TaskId { stage, partition });
    if SWARM { of(Stage::Session).chain(of(Stage::Swarm)).collect() } else { of(Stage::Session).collect() }
}

impl<I: Iterator<Item = Event>> Straight<I> {
    fn place(&mut self, stage: Stage, key: &[u8]) -> (TaskId, u64) {
        self.place_in(TaskId { stage, partition: partition_of(key, self.partitions) })
    }

    fn place_in(&mut self, task: TaskId) -> (TaskId, u64) {
        let next = self.next.entry(task).or_default();
        *next += 1;
        (task, *next - 1)
    }

    fn give(&mut self) -> Option<Given> {
        if std::mem::take(&mut self.again) {
            return self.last.clone();
        }
        if let Some(sum) = self.sums.pop_front() {
            return Some(sum);
        }
        let mut event = self.events.next()?;
        let named = self.episodes.as_ref().zip(event.value.as_deref());
        if let Some(named) = named.and_then(|(episodes, value)| with_episode(episodes, value)) {
            event.value = Some(named);
        }
        let (task, offset) = self.place(Stage::Session, event.session.as_bytes());
        Some(Given { task, offset, key: event.session.into_bytes(), value: event.value, timestamp_ms: event.timestamp_ms })
    }
}

/// An answer with the episode of the command that it names by its trigger; none where it names none.
fn with_episode(episodes: &BTreeMap<String, String>, value: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = std::str::from_utf8(value).ok()?.split_once(EPISODE_OF)?;
    let (trigger, tail) = rest.split_once('@')?;
    Some(format!("{head}{}{tail}", episodes.get(trigger).map_or("none", String::as_str)).into_bytes())
}

/// Episode and trigger of a command that can be answered.
fn answerable(value: &[u8]) -> Option<(String, String)> {
    let command: serde_json::Value = serde_json::from_slice(value).ok()?;
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let is_lifted = command["action"] == "unblock";
    Some((text(&command["trigger"]["event_id"])?, text(&command["episode"])?)).filter(|_| !is_lifted)
}

impl<I: Iterator<Item = Event>> Log for Straight<I> {
    fn poll(&mut self, _wait: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        if !std::mem::replace(&mut self.assigned, true) {
            return Ok(LogEvent::Assigned(tasks(self.partitions)));
        }
        if self.started < tasks(self.partitions).len() {
            return Ok(LogEvent::Records(0));
        }
        let Some(given) = self.give() else { return Ok(LogEvent::End) };
        let meta = RecordMeta {
            topic: &self.topics[usize::from(given.task.stage == Stage::Swarm)],
            partition: given.task.partition,
            offset: RecordOffset(given.offset),
            timestamp: EventTime(given.timestamp_ms),
            key: Some(&given.key),
            headers: Vec::new(),
            value_bytes_max: self.value_bytes_max,
        };
        handler(given.task, &Record::new(meta, given.value.as_deref()));
        self.last = Some(given);
        Ok(LogEvent::Records(1))
    }

    fn assign(&mut self, _tasks: &[TaskId]) -> Result<(), LogError> {
        Ok(())
    }

    fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        self.started += 1;
        self.again = self.last.as_ref().is_some_and(|last| last.task == task && last.offset == next.0);
        Ok(())
    }

    fn pause(&mut self, task: TaskId) -> Result<(), LogError> {
        panic!("{task} was stopped");
    }

    fn unassign(&mut self, _tasks: &[TaskId]) -> Result<(), LogError> {
        Ok(())
    }

    fn stage(&mut self, output: Output) {
        self.staged.push(output);
    }

    fn discard(&mut self) {
        self.staged.clear();
    }

    fn commit(&mut self, _offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        for output in std::mem::take(&mut self.staged) {
            match output.destination {
                Destination::Commands | Destination::DeadLetters { .. } => {
                    if let (Some(episodes), Some(value)) = (&mut self.episodes, &output.value) {
                        episodes.extend(answerable(value));
                    }
                    let timestamp_ms = output.timestamp_ms.max(1);
                    let read = read_output(&output.key, output.value.as_deref(), &output.headers, timestamp_ms);
                    let read = read.expect("an output names its task and ordinal");
                    let mut outcome = self.outcome.borrow_mut();
                    let (id, bytes) = (self.content)(read.id, read.bytes);
                    let seen = outcome.spill.as_mut().expect("a spill").keep(id, bytes);
                    let of_task = outcome.outputs.entry(read.task).or_default();
                    of_task.push(seen);
                    assert_eq!(of_task.len() as u64, read.ordinal, "the reference itself has a gap");
                }
                Destination::State => {
                    let rows = &mut self.outcome.borrow_mut().rows;
                    match output.value {
                        Some(value) => rows.insert(output.key, value),
                        None => rows.remove(&output.key),
                    };
                }
                Destination::SwarmCounts | Destination::SwarmPartition { .. } => {
                    let (task, offset) = match output.destination {
                        Destination::SwarmPartition { partition } => self.place_in(TaskId { stage: Stage::Swarm, partition }),
                        _ => self.place(Stage::Swarm, &output.key),
                    };
                    let Output { key, value, timestamp_ms, .. } = output;
                    if SWARM {
                        self.sums.push_back(Given { task, offset, key, value, timestamp_ms });
                    }
                }
                Destination::Changelog(_) | Destination::Events => {}
            }
        }
        CommitOutcome::Committed { changelog_next: Vec::new() }
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        Ok(())
    }

    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError> {
        Ok(None)
    }

    fn commits_state(&self) -> bool {
        false
    }

    fn swarm_partitions(&self) -> u32 {
        self.partitions
    }

    fn owner(&self) -> &'static str {
        "reference"
    }

    fn close(&mut self, _leave: bool) -> Result<(), LogError> {
        Ok(())
    }
}

/// Families whose bytes are a function of the input alone: of the swarm stage what depends on the cut is left out by its hash.
pub(crate) const FAMILIES: &[KeyFamily] =
    &[KeyFamily::Position, KeyFamily::Head, KeyFamily::Page, KeyFamily::Timer, KeyFamily::Swarm, KeyFamily::Stop];
/// The same without what names the policy that decides, by a hash over all settings there are: another program may know another one.
pub(crate) const FAMILIES_OF_ANY_PROGRAM: &[KeyFamily] = &[KeyFamily::Page, KeyFamily::Timer];

/// Runs the input through one lane. The states are those of some families.
pub(crate) fn run<I: Iterator<Item = Event> + 'static>(
    input: Input<I>,
    families: &[KeyFamily],
    spill: Spill,
    content: Content,
) -> Outcome {
    let Input { events, partitions, topics, app, policy, lateness_ms, names_triggers } = input;
    let outcome = Rc::new(RefCell::new(Outcome { spill: Some(spill), ..Outcome::default() }));
    let log = Straight {
        events,
        partitions,
        topics,
        value_bytes_max: loopwarden::limits::RECORD_BYTES_MAX_DEFAULT,
        next: BTreeMap::new(),
        assigned: false,
        started: 0,
        last: None,
        again: false,
        sums: VecDeque::new(),
        staged: Vec::new(),
        outcome: Rc::clone(&outcome),
        content,
        episodes: names_triggers.then(BTreeMap::new),
    };
    let settings = Arc::new(LaneSettings {
        mode: ProcessMode::Live,
        lateness_ms,
        trigger: CommitTrigger::EveryRecords(1),
        swarm: SWARM,
        partitions: Some(Partitions { session: partitions, swarm: partitions }),
        ..LaneSettings::default()
    });
    let store = MemoryStore::new();
    let restorer = Box::new(InlineRestorer::new(store.clone(), None, Arc::clone(&settings)));
    let mut lane = Lane::new(log, store.clone(), SessionEngine::new(&app, policy), restorer, Leases::new(), settings);
    let clock = SystemClock::start();
    let exit = loop {
        if let Turn::Ended(exit) = lane.turn(&clock) {
            break exit;
        }
    };
    assert_eq!(exit, Exit::Done, "the reference ends by itself");
    drop(lane);
    let mut outcome = Rc::try_unwrap(outcome).expect("the lane is gone").into_inner();
    let sessions = tasks(partitions).into_iter().filter(|task| task.stage == Stage::Session);
    outcome.states = sessions.map(|task| (task, state_hash(&store, task, families).expect("a hash"))).collect();
    outcome
}
