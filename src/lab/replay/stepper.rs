//! A lane that is turned record by record, so that it can be looked into between two.

use std::cell::{RefCell, RefMut};
use std::{rc::Rc, sync::Arc};

use loopwarden_core::engine::{Command, SessionEngine};
use loopwarden_core::event::{Record, Stage};
use loopwarden_core::policy::Policy;
use loopwarden_lane::{CommitTrigger, Exit, LaneSettings, Observer, ProcessMode, SystemClock};
use loopwarden_state::MemoryStore;

use super::exchange::{Exchange, RecordedLane, step};
use super::workers::lane;
use crate::file::{Chunk, FileOptions, Given, InputState, Placing, Published, RecordedLog};

/// A lane of both stages with an observer of its engine. It commits after each record; time has no lateness.
pub(crate) struct Stepper<O> {
    lane: RecordedLane,
    observer: Rc<RefCell<O>>,
    exchange: Exchange,
    store: MemoryStore,
    options: FileOptions,
    clock: SystemClock,
    records: u64,
}

fn start(options: &FileOptions, store: &MemoryStore, policy: Arc<Policy>, observer: Box<dyn Observer>) -> RecordedLane {
    let settings = LaneSettings {
        mode: ProcessMode::Replay,
        lateness_ms: 0,
        trigger: CommitTrigger::EveryRecords(1),
        swarm: true,
        ..LaneSettings::default()
    };
    let engine = SessionEngine::new(&options.app, policy);
    lane(RecordedLog::new(0, options), engine, observer, store.clone(), &Arc::new(settings))
}

impl<O: Observer + 'static> Stepper<O> {
    /// A lane of an application under a policy, with nothing read. With `keeps_state` its store has all state after each record: for those
    /// that look into it, or start the lane anew.
    pub(crate) fn new(app: &str, policy: Arc<Policy>, observer: O, keeps_state: bool) -> Self {
        // What comes was bounded by whoever read it.
        let options = FileOptions {
            app: app.to_owned(),
            value_bytes_max: usize::MAX,
            partitions: 1,
            keeps_state,
            ..FileOptions::default()
        };
        let store = MemoryStore::new();
        let observer = Rc::new(RefCell::new(observer));
        let lane = start(&options, &store, policy, Box::new(Rc::clone(&observer)));
        Self {
            lane,
            observer,
            exchange: Exchange::new(1, options.partitions),
            store,
            options,
            clock: SystemClock::start(),
            records: 0,
        }
    }

    /// Applies a record in the place it has. Returns the commands of both stages, in order.
    ///
    /// # Errors
    /// Why the lane ended.
    pub(crate) fn step(&mut self, record: &Record<'_>) -> Result<Vec<(Stage, Command)>, Exit> {
        let (meta, mut chunk) = (&record.meta, Chunk::default());
        chunk.put(
            self.records,
            &Placing {
                value: record.value.map(Given::Bytes),
                key: meta.key,
                headers: &meta.headers,
                partition: meta.partition,
                offset: meta.offset.0,
                timestamp_ms: meta.timestamp.0,
                topic: Some(Arc::from(meta.topic)),
            },
        );
        self.records += 1;
        let mut chunks = vec![chunk];
        loop {
            let fed = self.exchange.fed(std::mem::take(&mut chunks), InputState::Open);
            let stepped: Result<Vec<_>, Exit> = fed.into_iter().map(|fed| step(&mut self.lane, fed, &self.clock)).collect();
            if !self.exchange.take(stepped?) {
                break;
            }
        }
        let commands = self.exchange.rest().into_iter().filter_map(|collected| match collected.published {
            Published::Command(command, _) => Some((collected.task.stage, *command)),
            Published::DeadLetter(_) => None,
        });
        Ok(commands.collect())
    }

    /// Starts the lane anew on the store it has left, under a policy.
    pub(crate) fn restart(&mut self, policy: Arc<Policy>, observer: O) {
        self.observer = Rc::new(RefCell::new(observer));
        self.lane = start(&self.options, &self.store, policy, Box::new(Rc::clone(&self.observer)));
    }

    /// What sees what the engine does.
    pub(crate) fn observer(&mut self) -> RefMut<'_, O> {
        self.observer.borrow_mut()
    }

    pub(crate) const fn store(&self) -> &MemoryStore {
        &self.store
    }
}
