//! `topics grow`: more partitions for the input, and each session's state to where its key now lies.
//!
//! A note in every partition of the changelog says that a growth is under way; no lane takes a task for restored beside it. Each transaction
//! moves whole sessions. So whatever interrupts the growth, the changelogs say how far it is, and it is run again. The input grows last.

use std::path::{Path, PathBuf};
use std::time::Duration;

use loopwarden_core::event::{Stage, TaskId};
use loopwarden_kafka::admin::growth::Grower;
use loopwarden_lab::report::{counted, grouped};
use loopwarden_log::Flow;
use loopwarden_settings::Config;
use loopwarden_state::rekey::{Rekeying, first_position, moves_to, moving, moving_stops, position};
use loopwarden_state::{
    Change, Growth, LoadBatch, RocksOptions, RocksStore, StateKey, StateStore, StoreError, StoreOwner, Stored, read,
};

use crate::failure::{Failure, Outcome};
use crate::{cli::args::GrowArgs, cli::shared::quiet::expect_quiet, exit_code, output, output::say, server::kafka_options};

/// Bytes of changes in one transaction, a session more.
const BATCH_BYTES: usize = 4 << 20;
/// Sessions that are looked up at once.
const SESSIONS: usize = 1_000;
/// Bytes read of a changelog before they are put into the store.
const LOAD_BYTES: usize = 16 << 20;

/// Grows.
///
/// # Errors
/// Settings, brokers; processes that run, records that were not read, another growth that has begun.
pub(super) fn run(args: &GrowArgs, config: &Config) -> Outcome {
    let Some(kafka) = &config.kafka else {
        let why = "error: an embedded log keeps the number of partitions that it was made with";
        return Err(Failure::new(exit_code::USAGE, why));
    };
    let options = kafka_options(config, kafka, 0)?;
    let mut grower = Grower::connect(&options)?;
    let wait = Duration::from_millis(args.timeout_ms);
    let (_, partitions) = grower.counts();
    expect_quiet(grower.operator(), &tasks(partitions), wait)?;
    let scratch = Scratch::new(config.data_dir()?);
    let owner = StoreOwner { app: options.app.clone(), instance: "growth".to_owned(), cluster: None };
    let store = RocksStore::open(&scratch.0, &RocksOptions::default(), &owner)?;
    let mut work = Work { store, grower };
    for task in tasks(partitions) {
        work.load(task)?;
    }
    let begun = work.begun()?;
    let Some(growth) = work.plan(begun, args.partitions)? else {
        return output::line(&format!("the input has {} already, and no growth is under way", partitions_of(args.partitions)));
    };
    let Growth { from, to } = growth;
    if begun.is_some() {
        output::line(&format!("going on with the growth from {from} to {to} partitions"))?;
    } else {
        work.expect_read(growth, args.accept_late, Late::BeforeAll)?;
    }
    work.mark(growth, partitions)?;
    output::line(&format!(
        "noted in {} of the changelog: no process starts until the growth has ended",
        partitions_of(partitions)
    ))?;
    if partitions < to {
        work.grower.grow_changelog(to)?;
        output::line(&format!("the changelog has {to} partitions"))?;
    }
    work.mark(growth, to)?;
    // Whoever was starting when the notes were written has seen them, or is a member by now.
    expect_quiet(work.grower.operator(), &tasks(to), wait)?;
    for partition in 0..from {
        work.move_sessions(growth, partition)?;
    }
    work.begin_new(growth)?;
    work.expect_read(growth, args.accept_late, Late::BeforeInput)?;
    if work.grower.counts().0 < to {
        output::line(&format!("growing the input to {to} partitions"))?;
        work.grower.grow_input(to)?;
    }
    work.unmark(to)?;
    output::line(&format!("grown from {from} to {to} partitions: start the processes, then the producers"))
}

fn partitions_of(count: u32) -> String {
    counted(u64::from(count), "partition")
}

/// The session stage's tasks.
fn tasks(partitions: u32) -> Vec<TaskId> {
    (0..partitions).map(|partition| TaskId { stage: Stage::Session, partition }).collect()
}

/// The state of all tasks while it is moved. Made from the changelogs each time.
struct Scratch(PathBuf);

impl Scratch {
    fn new(data_dir: &Path) -> Self {
        let scratch = Self(data_dir.join("growth"));
        scratch.remove();
        scratch
    }

    fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove();
    }
}

/// When records of sessions that move are looked for.
#[derive(Clone, Copy)]
enum Late {
    /// Before the first write: the processes can still read them.
    BeforeAll,
    /// Before the input grows, when sessions have moved.
    BeforeInput,
}

struct Work {
    store: RocksStore,
    grower: Grower,
}

impl Work {
    /// Reads the changelog of a task.
    fn load(&mut self, task: TaskId) -> Outcome {
        let Self { store, grower } = self;
        let changelog = grower.operator().changelog();
        let mut next = changelog.range(task)?.start;
        let mut batch = LoadBatch::new(task);
        loop {
            let (mut has_more, mut unknown) = (false, None);
            next = changelog.read(task, next, &mut |offset, key, value| {
                if StateKey::from_changelog(key).is_none() {
                    unknown = Some(offset);
                    return Flow::Stop;
                }
                batch.push(key, value);
                has_more = batch.bytes() >= LOAD_BYTES;
                if has_more { Flow::Stop } else { Flow::Continue }
            })?;
            if let Some(offset) = unknown {
                let why = format!("{task}: unknown key in the changelog at offset {offset}; run the newer version");
                return Err(StoreError::OtherFormat(why).into());
            }
            store.load(&mut batch)?;
            batch.clear();
            if !has_more {
                return Ok(());
            }
        }
    }

    /// The growth that has begun, or that is to begin; `None` where it has ended.
    fn plan(&self, begun: Option<Growth>, to: u32) -> Result<Option<Growth>, Failure> {
        let refused = |why: String| Err(Failure::new(exit_code::USAGE, format!("error: {why}")));
        let (input, changelog) = self.grower.counts();
        if let Some(begun) = begun {
            if begun.to == to {
                return Ok(Some(begun));
            }
            return refused(format!(
                "a growth from {} to {} partitions has begun and not ended; end it first: --partitions {}",
                begun.from, begun.to, begun.to
            ));
        }
        if changelog > input {
            return refused(format!(
                "the changelog has {changelog} partitions, the input {input}, and no growth has begun: somebody has added partitions to it; \
                 add as many to the input, if no process has run since"
            ));
        }
        if input > changelog && to != input {
            return refused(format!("the input has {input} partitions already: --partitions {input}"));
        }
        if to == input && to == changelog {
            return Ok(None);
        }
        if to <= changelog {
            return refused(format!("the input has {input} partitions: N must be larger, since no partition can be taken away"));
        }
        Ok(Some(Growth { from: changelog, to }))
    }

    fn begun(&self) -> Result<Option<Growth>, Failure> {
        // The first transaction writes all notes there are then, the last one deletes all.
        let first = TaskId { stage: Stage::Session, partition: 0 };
        Ok(read(&self.store, first, &[])?)
    }

    /// That of no session that moves a record lies unread in the partition that it leaves.
    fn expect_read(&self, growth: Growth, accept_late: bool, late: Late) -> Outcome {
        let mut places = Vec::new();
        let mut total = 0_u64;
        for task in tasks(growth.from) {
            let next = position(&self.store, task)?.unwrap_or_default().next_offset.0;
            let (mut records, mut first) = (0_u64, 0);
            self.grower.unread(task, next, &mut |offset, key| {
                if moves_to(growth, task.partition, key).is_some() {
                    first = if records == 0 { offset } else { first };
                    records += 1;
                }
            })?;
            if records > 0 {
                places.push(format!("partition {} from offset {first} on: {}", task.partition, grouped(records)));
                total += records;
            }
        }
        if places.is_empty() {
            return Ok(());
        }
        let (what, where_) = (format!("not read: {} of sessions that move", counted(total, "record")), places.join("\n  "));
        if accept_late {
            say(format!("warning: {what}; they will be judged apart from what came before:\n  {where_}"));
            return Ok(());
        }
        let (state, way_out) = match late {
            Late::BeforeAll => {
                ("nothing was changed", "stop the producers, start the processes until they have read everything, and stop them")
            }
            Late::BeforeInput => (
                "the input has not grown yet",
                "stop the producers, then run this again with --accept-late: those records are judged apart from what came before",
            ),
        };
        Err(Failure::new(exit_code::FAILED, format!("error: {what}; {state}; {way_out}\n  {where_}")))
    }

    /// Notes the growth wherever it is not noted yet.
    fn mark(&mut self, growth: Growth, partitions: u32) -> Outcome {
        let mut changes = Vec::new();
        for task in tasks(partitions) {
            if self.store.get(task, &Growth::key())?.is_none() {
                changes.push(Change { task, key: Growth::key(), value: Some(growth.encode()?) });
            }
        }
        self.commit(changes)
    }

    fn unmark(&mut self, partitions: u32) -> Outcome {
        let note = |task| Change { task, key: Growth::key(), value: None };
        self.commit(tasks(partitions).into_iter().map(note).collect())
    }

    fn move_sessions(&mut self, growth: Growth, partition: u32) -> Outcome {
        let (mut after, mut moved) = (Vec::new(), 0_u64);
        loop {
            let sessions = moving(&self.store, growth, partition, &after, SESSIONS)?;
            let Some((last, _)) = sessions.last() else { break };
            after.clone_from(last);
            let mut rekeying = Rekeying::default();
            for (session_key, to) in &sessions {
                rekeying.add(&self.store, session_key, partition, *to)?;
                moved += 1;
                if rekeying.bytes() >= BATCH_BYTES {
                    let full = std::mem::take(&mut rekeying);
                    let changes = full.finish(&self.store)?;
                    self.commit(changes)?;
                }
            }
            output::line(&format!("moving {} from partition {partition}", counted(moved, "agent")))?;
            let changes = rekeying.finish(&self.store)?;
            self.commit(changes)?;
        }
        let mut stops = Rekeying::default();
        for (key, to) in moving_stops(&self.store, growth, partition)? {
            stops.add_stop(&self.store, &key, partition, to)?;
        }
        let changes = stops.finish(&self.store)?;
        self.commit(changes)?;
        output::line(&format!("partition {partition} is done"))
    }

    /// Tasks that no session has come to begin with the first record of their partition.
    fn begin_new(&mut self, growth: Growth) -> Outcome {
        let mut changes = Vec::new();
        for partition in growth.from..growth.to {
            changes.extend(first_position(&self.store, partition)?);
        }
        self.commit(changes)
    }

    /// Changelogs first, then what is known here of them.
    fn commit(&mut self, changes: Vec<Change>) -> Outcome {
        if changes.is_empty() {
            return Ok(());
        }
        let records: Vec<_> =
            changes.iter().map(|change| (change.task, change.key.to_changelog(), change.value.clone())).collect();
        self.grower.commit(&records)?;
        self.store.commit(changes)?;
        Ok(())
    }
}
