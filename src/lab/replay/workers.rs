//! Threads that turn the lanes of a replay in steps.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use loopwarden_core::engine::{Effects, Input, Session, SessionEngine, SubjectKey};
use loopwarden_core::event::EventTime;
use loopwarden_lane::{Exit, InlineRestorer, Lane, LaneSettings, Leases, Observer, Stats, SystemClock};
use loopwarden_state::MemoryStore;

use super::ReplayError;
use super::exchange::{Exchange, RecordedLane, step};
use crate::file::{Collected, Fed, InputState, RecordedLog, Round, Stepped};
use crate::report::stats::{ReplayStats, Retain};

/// Steps that are fed ahead: a thread that ends one finds the next.
const STEPS_AHEAD: usize = 1;

/// A lane over recorded events, with a store, and somebody who sees what its engine does.
pub(crate) fn lane(
    log: RecordedLog,
    engine: SessionEngine,
    observer: Box<dyn Observer>,
    store: MemoryStore,
    settings: &Arc<LaneSettings>,
) -> RecordedLane {
    let restorer = Box::new(InlineRestorer::new(store.clone(), None, Arc::clone(settings)));
    Lane::new(log, store, engine, restorer, Leases::new(), Arc::clone(settings)).with_observer(observer)
}

impl Observer for ReplayStats {
    fn applied(&mut self, input: Input<'_>, subject: &SubjectKey, session: &Session, before: u64, effects: &Effects) {
        if let Input::Event(event, place) = input {
            self.note_event(event, (subject, session, before), place, effects);
        }
    }
}

/// A thread with some of the lanes.
struct LaneThread {
    fed: SyncSender<Vec<Fed>>,
    stepped: Receiver<Result<Vec<Stepped>, Exit>>,
}

/// All lanes of a replay. Dropping it ends the threads.
pub struct Workers {
    threads: Vec<LaneThread>,
    each: usize,
    /// Steps that were fed and not taken in.
    in_flight: usize,
    exchange: Exchange,
    /// When the newest record was recorded.
    newest: Option<EventTime>,
}

/// A thread of a replay; at its end, what its lanes have counted, and what was seen of their engines.
pub type Thread<'scope> = ScopedJoinHandle<'scope, Vec<(Stats, ReplayStats)>>;

impl Workers {
    /// Starts threads for the lanes over these logs, each with an engine of its own.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        logs: Vec<RecordedLog>,
        threads: usize,
        settings: &Arc<LaneSettings>,
        engine: &SessionEngine,
        retain: &Arc<Retain>,
    ) -> (Self, Vec<Thread<'scope>>) {
        let partitions = logs.first().map_or(0, RecordedLog::partitions);
        let each = logs.len().div_ceil(threads.max(1)).max(1);
        let mut started =
            Self { threads: Vec::new(), each, in_flight: 0, exchange: Exchange::new(logs.len(), partitions), newest: None };
        let (mut handles, mut logs) = (Vec::new(), logs.into_iter());
        while logs.len() > 0 {
            let mine: Vec<RecordedLog> = logs.by_ref().take(each).collect();
            let (fed, to_feed) = sync_channel(STEPS_AHEAD + 1);
            let (to_answer, stepped) = sync_channel(STEPS_AHEAD + 1);
            let (settings, engine, retain) = (Arc::clone(settings), engine.clone(), Arc::clone(retain));
            handles.push(scope.spawn(move || work(mine, &engine, &retain, &settings, &to_feed, &to_answer)));
            started.threads.push(LaneThread { fed, stepped });
        }
        (started, handles)
    }

    /// Feeds the lanes a round.
    ///
    /// # Errors
    /// A lane ended or panicked.
    pub fn feed(&mut self, round: Round) -> Result<(), ReplayError> {
        self.newest = self.newest.max(round.newest());
        self.send(round, InputState::Open)?;
        self.receive(STEPS_AHEAD).map(drop)
    }

    /// Brings the lanes to their end. With `is_read` the input was read to its end, and all sums come through first.
    ///
    /// # Errors
    /// A lane ended otherwise, or panicked.
    pub fn end(&mut self, is_read: bool) -> Result<(), ReplayError> {
        self.receive(0)?;
        let mut has_sums = is_read;
        while has_sums {
            self.send(Round::default(), InputState::Read(self.newest))?;
            has_sums = self.receive(0)?;
        }
        self.send(Round::default(), InputState::Over)?;
        self.receive(0).map(drop)
    }

    fn send(&mut self, round: Round, input: InputState) -> Result<(), ReplayError> {
        let mut fed = self.exchange.fed(round.chunks, input).into_iter();
        for thread in &self.threads {
            let fed = fed.by_ref().take(self.each).collect();
            thread.fed.send(fed).map_err(|_| ReplayError::Panicked)?;
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Takes in what the lanes came to, until so many steps are in flight. Whether sums have come through for the next step.
    fn receive(&mut self, in_flight_max: usize) -> Result<bool, ReplayError> {
        let mut has_sums = false;
        while self.in_flight > in_flight_max {
            let mut stepped = Vec::new();
            for thread in &self.threads {
                stepped.extend(thread.stepped.recv().map_err(|_| ReplayError::Panicked)??);
            }
            has_sums = self.exchange.take(stepped);
            self.in_flight -= 1;
        }
        Ok(has_sums)
    }

    /// Takes out what no lane can add to any more, in the order of the input.
    pub fn settled(&mut self) -> Vec<Collected> {
        self.exchange.settled()
    }

    /// Takes out everything that is left, once the lanes are at their end.
    pub fn rest(&mut self) -> Vec<Collected> {
        self.exchange.rest()
    }
}

fn work(
    mine: Vec<RecordedLog>,
    engine: &SessionEngine,
    retain: &Arc<Retain>,
    settings: &Arc<LaneSettings>,
    to_feed: &Receiver<Vec<Fed>>,
    to_answer: &SyncSender<Result<Vec<Stepped>, Exit>>,
) -> Vec<(Stats, ReplayStats)> {
    let clock = SystemClock::start();
    let start = |log| {
        let seen = Rc::new(RefCell::new(ReplayStats::new(retain)));
        (lane(log, engine.clone(), Box::new(Rc::clone(&seen)), MemoryStore::new(), settings), seen)
    };
    let mut lanes: Vec<_> = mine.into_iter().map(start).collect();
    while let Ok(fed) = to_feed.recv() {
        let stepped = lanes.iter_mut().zip(fed).map(|((lane, _), fed)| step(lane, fed, &clock)).collect();
        if to_answer.send(stepped).is_err() {
            break;
        }
    }
    lanes.into_iter().map(|(lane, seen)| (lane.stats(), seen.take())).collect()
}
