//! State as it was kept: this program writes the same bytes as long as the format has the same number, and goes on from them as from its own.
//! State of another format it refuses.
//!
//! `tests/golden/state/format-1` is an input, and the state after its first part, key by key. A change of the format is a new number
//! (`store::codec::FORMAT`) and a new folder beside the old one. A change of what the engine decides, or of what it says, is none, but it
//! changes what lies in the state: `LOOPWARDEN_WRITE_GOLDEN=1` writes the folder anew. `unreleased` is the state that a program from before the
//! first release has left.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use loopwarden::event::{EventTime, Stage, TaskId, partition_of};
use loopwarden::log::Partitions;
use loopwarden::store::{
    Change, KeyFamily, Position, ScanFlow, StateKey, StateStore, StoreError, session, state_hash, step, swarm,
};
use loopwarden::task::{CommitTrigger, Exit};
use loopwarden_sim::MemoryConfig;
use serde_json::{Value, json};

use crate::world::{Fed, TestStore, TestWorld, fleet, outputs_by_task, session_task, settings};

const PARTITIONS: Partitions = Partitions { session: 2, swarm: 2 };
const EVENTS: usize = 900;
/// Events before the state is kept; the others are what another program goes on with.
const BEFORE: usize = 450;

type State = BTreeMap<(TaskId, StateKey), Vec<u8>>;

/// What a folder holds.
struct Kept {
    input: Vec<Fed>,
    state: State,
}

const NEWEST: &str = "format-1";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/state").join(name)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text_of(lines: impl Iterator<Item = Value>) -> String {
    lines.map(|line| format!("{line}\n")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn task(name: &Value) -> TaskId {
    let (stage, partition) = name.as_str().unwrap().split_once('/').unwrap();
    let stage = [Stage::Session, Stage::Swarm].into_iter().find(|known| known.as_str() == stage).unwrap();
    TaskId { stage, partition: partition.parse().unwrap() }
}

impl Kept {
    fn read() -> Self {
        let fed = |line: &Value| {
            let value = line["value"].as_str().map(|value| value.as_bytes().to_vec());
            (line["key"].as_str().unwrap().to_owned(), value, line["timestamp_ms"].as_i64().unwrap())
        };
        Self { input: lines(&folder(NEWEST).join("input.ndjson")).iter().map(fed).collect(), state: kept_state(NEWEST) }
    }

    fn write(&self) {
        let folder = folder(NEWEST);
        fs::create_dir_all(&folder).unwrap();
        let fed = |(key, value, timestamp_ms): &Fed| json!({ "key": key, "value": value.as_deref().map(String::from_utf8_lossy), "timestamp_ms": timestamp_ms });
        let record = |((task, key), value): (&(TaskId, StateKey), &Vec<u8>)| json!({ "task": task.to_string(), "family": key.family.as_str(), "key": hex(&key.bytes), "value": hex(value) });
        fs::write(folder.join("input.ndjson"), text_of(self.input.iter().map(fed))).unwrap();
        fs::write(folder.join("state.ndjson"), text_of(self.state.iter().map(record))).unwrap();
    }
}

/// The state of a folder.
fn kept_state(name: &str) -> State {
    let record = |line: &Value| {
        let family = KeyFamily::ALL.into_iter().find(|family| family.as_str() == line["family"]).unwrap();
        ((task(&line["task"]), StateKey::new(family, bytes(&line["key"]))), bytes(&line["value"]))
    };
    lines(&folder(name).join("state.ndjson")).iter().map(record).collect()
}

fn world() -> TestWorld {
    let config = MemoryConfig { partitions: PARTITIONS, poll_records_max: 20, ..MemoryConfig::default() };
    let mut world = TestWorld::new(config, settings(CommitTrigger::Timed { max_ms: 100, min_ms: 2 }));
    world.start("lw", 1);
    world
}

fn feed(world: &mut TestWorld, input: &[Fed]) {
    for (session, value, timestamp_ms) in input {
        let task = session_task(partition_of(session.as_bytes(), PARTITIONS.session));
        world.broker.append(task, Some(session.as_bytes()), value.as_deref(), *timestamp_ms);
    }
    assert!(world.settle(), "not settled: {:?}", world.exits);
    assert_eq!(world.exits, []);
}

fn state(world: &TestWorld) -> State {
    let mut state = State::new();
    for task in &world.tasks {
        for family in KeyFamily::ALL {
            let store = world.store_of(*task);
            let mut take = |key: &[u8], value: &[u8]| {
                state.insert((*task, StateKey::new(family, key.to_vec())), value.to_vec());
                ScanFlow::Continue(())
            };
            store.scan(*task, family, &[], &[], &mut take).unwrap();
        }
    }
    state
}

/// The Position of a record, if it is one. Which policy decided is no matter of the format, and changes with each setting there is.
fn position((_, key): &(TaskId, StateKey), value: &[u8]) -> Option<Position> {
    let is_position = key.family == KeyFamily::Position;
    is_position.then(|| Position { policy_sha256: [0; 32], ..Position::decode(value).unwrap() })
}

#[test]
fn the_format_is_written_as_it_was_kept() {
    let mut world = world();
    if std::env::var_os("LOOPWARDEN_WRITE_GOLDEN").is_some() {
        let input = fleet(44, EVENTS);
        feed(&mut world, &input[..BEFORE]);
        return Kept { input, state: state(&world) }.write();
    }
    let kept = Kept::read();
    // The note of a growth is there only while one goes on, counts of tenants only where a policy limits them, stops only where an operator
    // acts. Tests beside them hold their bytes.
    let is_kept = |family: &KeyFamily| !matches!(family, KeyFamily::Growth | KeyFamily::Tenants | KeyFamily::Stop);
    for family in KeyFamily::ALL.into_iter().filter(is_kept) {
        assert!(kept.state.keys().any(|(_, key)| key.family == family), "nothing is kept of {}", family.as_str());
    }
    feed(&mut world, &kept.input[..BEFORE]);
    let state = state(&world);
    assert!(state.keys().eq(kept.state.keys()), "other keys than in {}", folder(NEWEST).display());
    for ((at, ours), theirs) in state.iter().zip(kept.state.values()) {
        let is_same = match (position(at, ours), position(at, theirs)) {
            (Some(ours), Some(theirs)) => ours == theirs && ours.encode_for_store() == theirs.encode_for_store(),
            _ => ours == theirs,
        };
        assert!(is_same, "{} {:?}: {} was {}; see the head of this file", at.0, at.1, hex(ours), hex(theirs));
    }
}

#[test]
fn a_program_goes_on_from_the_state_that_was_kept_as_from_its_own() {
    let kept = Kept::read();
    let [ours, theirs] = [false, true].map(|is_kept| {
        let world = gone_on(&kept, is_kept);
        let families: Vec<KeyFamily> = KeyFamily::ALL.into_iter().filter(|family| *family != KeyFamily::Tenants).collect();
        let hashes = world.tasks.iter().map(|task| state_hash(world.store_of(*task), *task, &families).unwrap());
        (outputs_by_task(&world.broker), hashes.collect::<Vec<_>>())
    });
    assert_eq!(ours, theirs);
}

#[test]
fn state_of_before_the_first_release_is_refused_untouched_and_named() {
    let mut world = world();
    world.restarts = false;
    world.kill(0);
    let mut store = TestStore::default();
    let changes = kept_state("unreleased").into_iter().map(|((task, key), value)| Change { task, key, value: Some(value) });
    store.commit(changes.collect()).unwrap();
    let before = store.memory.len();
    world.processes[0].store = store.clone();
    world.restart(0);
    world.settle();
    let refused =
        |exit: &Exit| matches!(exit, Exit::Store(StoreError::OtherFormat(why)) if why.starts_with("position has format 0.1, "));
    assert!(!world.exits.is_empty() && world.exits.iter().all(refused), "{:?}", world.exits);
    assert_eq!(store.memory.len(), before);
    // Each of its values is refused by itself, wherever it is met.
    for ((_, key), value) in kept_state("unreleased") {
        let refused = match key.family {
            KeyFamily::Head => session::decode_head(&value).err(),
            KeyFamily::SwarmCounter => swarm::decode_head(&value).err(),
            KeyFamily::SwarmPane => swarm::decode_pane(EventTime(0), &value).err(),
            KeyFamily::Page => step::decode_page(0, &value).err(),
            _ => continue,
        };
        assert!(matches!(&refused, Some(StoreError::OtherFormat(_))), "{}: {refused:?}", key.family.as_str());
    }
}

/// A world that has seen the first part of an input, was killed, and went on with the second: with its own state, or with the one that was kept.
fn gone_on(kept: &Kept, is_kept: bool) -> TestWorld {
    let mut world = world();
    feed(&mut world, &kept.input[..BEFORE]);
    let said: usize = outputs_by_task(&world.broker).values().map(Vec::len).sum();
    world.kill(0);
    if is_kept {
        world.processes[0].store = with_state(&world, &kept.state);
    }
    world.restart(0);
    feed(&mut world, &kept.input[BEFORE..]);
    let said_then = outputs_by_task(&world.broker).values().map(Vec::len).sum::<usize>() - said;
    assert!(said_then > 20, "the second part says little: {said_then} after {said}");
    world
}

/// A disk with the state that was kept, but where the world's log stands.
fn with_state(world: &TestWorld, kept: &State) -> TestStore {
    let mut store = TestStore::default();
    let of =
        |(task, key): &(TaskId, StateKey), value: &[u8]| Change { task: *task, key: key.clone(), value: Some(value.to_vec()) };
    let positions = state(world).into_iter().filter(|((_, key), _)| key.family == KeyFamily::Position);
    let changes = kept.iter().map(|(at, value)| of(at, value)).chain(positions.map(|(at, value)| of(&at, &value)));
    store.commit(changes.collect()).unwrap();
    store
}
