//! One fault in what a process has on disk, anywhere: it is refused with a code, or everything acknowledged is there, stops in force among
//! it. `LOOPWARDEN_DAMAGE` says how many faults, `LOOPWARDEN_DAMAGE_EVENTS` to how many events, `LOOPWARDEN_SEED` which.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use loopwarden::engine::{SourcePosition, StopState, SubjectKey};
use loopwarden::event::{EventTime, NextOffset, RecordMeta, Stage, TaskId, decode};
use loopwarden::log::embedded::{Append, EmbeddedBroker, EmbeddedOptions, Feed};
use loopwarden::log::{CommitOutcome, Destination, Flow, Log as _, LogError, LogEvent, Output, embedded::StateRow};
use loopwarden::store::{Area, KeyFamily, RocksOptions, RocksStore, StateKey, StoreOwner, Stored as _};
use loopwarden_core::wire;
use loopwarden_guard::{Guard, Options};
use serde_json::json;

use crate::budgets::is_refused;
use crate::http::{Running, Scratch, failed_call};
use crate::random::Random;
use crate::store::temp_dir::TempDir;

const PARTITIONS: u32 = 3;
/// Acknowledged, where nobody asks for more. Of each tenth a command comes.
const EVENTS: u64 = 6_000;
/// Events of one append. The first of them is a stop, which is in force to the end.
const TOGETHER: u64 = 40;
const LONG: Duration = Duration::from_secs(60);

/// First and next offset, the committed one, events by their offsets.
type Input = (std::ops::Range<u64>, Option<u64>, BTreeMap<u64, Vec<u8>>);

/// Whatever can be read of a log.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    inputs: BTreeMap<TaskId, Input>,
    outputs: Vec<(u64, Option<Vec<u8>>)>,
    rows: Vec<StateRow>,
    state: Vec<StateRow>,
}

/// As a process opens it, with buffers so small that all kinds of files come to be.
fn open(dir: &Path) -> Result<EmbeddedBroker, LogError> {
    let memory = RocksOptions { block_cache_bytes: 1 << 20, write_buffer_bytes: 1 << 20, ..RocksOptions::default() };
    let owner = StoreOwner { app: "loopwarden".to_owned(), instance: "lw-0".to_owned(), cluster: None };
    let store = RocksStore::open(dir, &memory, &owner);
    let store = store.map_err(|error| LogError::Fatal { code: "store", message: error.to_string() })?;
    EmbeddedBroker::open(store, EmbeddedOptions { partitions: PARTITIONS, ..EmbeddedOptions::default() })
}

fn session(partition: u32) -> TaskId {
    TaskId { stage: Stage::Session, partition }
}

/// Reads all there is, as exports, feeds, guards and lanes do.
fn held(broker: &EmbeddedBroker) -> Result<Held, LogError> {
    let reader = broker.reader();
    let mut inputs = BTreeMap::new();
    for task in (0..PARTITIONS).map(session) {
        let (range, mut events) = (broker.input_range(task), BTreeMap::new());
        reader.events(task, range.start, range.end, &mut |event| {
            events.insert(event.offset, event.value);
            ControlFlow::Continue(())
        })?;
        inputs.insert(task, (range, broker.committed(task), events));
    }
    let mut outputs = Vec::new();
    reader.read(Feed::Commands, 0, &mut |output| {
        outputs.push((output.sequence, output.value));
        ControlFlow::Continue(())
    })?;
    let rows = reader.rows(b"", &|_| true, usize::MAX, LONG)?;
    let mut state = Vec::new();
    let scanned = broker.store().scan_raw(Area::State, b"", None, &mut |key, value| {
        state.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    scanned.map_err(|error| LogError::Fatal { code: "store", message: error.to_string() })?;
    Ok(Held { inputs, outputs, rows, state })
}

fn output(destination: Destination, key: &[u8], value: Vec<u8>) -> Output {
    Output { destination, key: key.to_vec(), value: Some(value), headers: Default::default(), timestamp_ms: 1 }
}

/// When all happens, by the log.
const NOW: EventTime = EventTime(1);

/// An operator stops the session `stopped-NUMBER`.
fn stop(number: u64) -> (String, String) {
    let session = format!("stopped-{number}");
    let event = json!({
        "id": "a", "kind": "stop", "scope": "session", "session_id": session, "reason": "r", "time": NOW.to_rfc3339(),
        "until": NOW.plus_ms(86_400_000).to_rfc3339(),
    });
    (session, event.to_string())
}

/// What the session stage writes of a stop: its state, and the row that guards read. None of another event.
fn in_force(task: TaskId, event: &[u8]) -> Option<[Output; 2]> {
    let event = decode(Some(event), &RecordMeta::without_place(NOW, 4_096)).ok()?;
    let (subject, mut state) = (SubjectKey::of_event(&event), StopState::default());
    state.apply("lw", &event, SourcePosition { topic: "t", partition: 0, offset: 0, watermark: NOW }).command?;
    let row_key = subject.row_key().into_bytes();
    let row = output(Destination::State, &row_key, wire::Row::json(&subject, &state.board, NOW)?);
    let key = StateKey::new(StopState::FAMILY, row_key).to_changelog();
    Some([output(Destination::Changelog(task), &key, state.encode().ok()?), row])
}

/// Of the first so many stops those that a guard refuses who reads these rows.
fn refused(rows: &[StateRow], stops: u64) -> usize {
    let mut guard = Guard::new(Options::default());
    rows.iter().for_each(|(key, row)| guard.row(key, Some(row), NOW));
    let call = |number: u64| json!({ "id": "c", "kind": "tool_call", "session_id": format!("stopped-{number}"), "tool": "t", "args": {} });
    (0..stops).filter(|number| is_refused(&mut guard, &call(*number).to_string(), NOW)).count()
}

/// Events of the appends with these numbers, each acknowledged, and what a lane makes of them.
fn live(dir: &Path, appends: std::ops::Range<u64>) -> EmbeddedBroker {
    let broker = open(dir).unwrap();
    let mut log = broker.lane(0);
    let LogEvent::Assigned(tasks) = log.poll(LONG, &mut |_, _| Flow::Continue).unwrap() else { panic!("no tasks") };
    log.assign(&tasks).unwrap();
    for task in tasks {
        log.start(task, NextOffset(broker.committed(task).unwrap_or(0))).unwrap();
    }
    let mut dice = Random(appends.start);
    for append in appends {
        let numbers = append * TOGETHER + 1..(append + 1) * TOGETHER;
        let others =
            numbers.map(|number| (format!("s{}", number % 100), format!("{number} {}", format!("{:x}", dice.next()).repeat(20))));
        let events: Vec<(String, String)> = std::iter::once(stop(append)).chain(others).collect();
        let appends: Vec<Append<'_>> = events
            .iter()
            .map(|(key, value)| Append { key: key.as_bytes(), value: value.as_bytes(), headers: Vec::new(), timestamp_ms: 1 })
            .collect();
        broker.append(&appends).unwrap();
        let mut ends = BTreeMap::new();
        while ends.values().sum::<u64>() < TOGETHER {
            let (mut seen, mut stops) = (Vec::new(), Vec::new());
            log.poll(LONG, &mut |task, record| {
                seen.push((task, record.meta.offset.0, record.meta.key.unwrap_or_default().to_vec()));
                in_force(task, record.value.unwrap_or_default()).into_iter().flatten().for_each(|output| stops.push(output));
                Flow::Continue
            })
            .unwrap();
            stops.into_iter().for_each(|output| log.stage(output));
            let mut offsets = BTreeMap::new();
            for (task, offset, key) in seen {
                *ends.entry(task).or_insert(0) += 1;
                offsets.insert(task, NextOffset(offset + 1));
                let state = StateKey::new(KeyFamily::Head, key.clone());
                log.stage(output(Destination::Changelog(task), &state.to_changelog(), offset.to_be_bytes().repeat(9)));
                if offset % 10 == 0 {
                    log.stage(output(Destination::Commands, &key, format!("{task} {offset}").into_bytes()));
                    log.stage(output(Destination::State, &key, offset.to_be_bytes().to_vec()));
                }
            }
            let offsets: Vec<_> = offsets.into_iter().collect();
            assert!(matches!(log.commit(&offsets), CommitOutcome::Committed { .. }));
        }
    }
    // What was committed is read back only once it is synced.
    broker.reader().rows(b"", &|_| true, 1, LONG).unwrap();
    broker
}

/// Files that hold anything, by their names. RocksDB writes its own log, and a lock without a word.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| !path.file_name().is_some_and(|name| name == "LOCK" || name.to_string_lossy().starts_with("LOG")));
    files.sort();
    files
}

/// Does one thing to a file, and says what.
fn harm(path: &Path, dice: &mut Random) -> String {
    let (name, length) = (path.file_name().unwrap().to_string_lossy(), path.metadata().unwrap().len());
    let at = dice.below(length as usize) as u64;
    let file = || fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    match dice.below(3) {
        0 if length > 0 => {
            let (mut byte, bit) = ([0], dice.below(8));
            file().read_exact_at(&mut byte, at).unwrap();
            file().write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
            format!("bit {bit} of byte {at} of {length} in {name} flipped")
        }
        1 => {
            file().set_len(at).unwrap();
            format!("{name} cut from {length} to {at} bytes")
        }
        _ => {
            fs::remove_file(path).unwrap();
            format!("{name} of {length} bytes removed")
        }
    }
}

/// What a start makes of a directory: whether all is there; else the code it was refused with.
fn started(dir: &Path, expected: &Held) -> Result<bool, String> {
    let found = open(dir).and_then(|broker| held(&broker));
    found.map(|found| found == *expected).map_err(|error| error.to_string())
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn a_single_fault_anywhere_on_the_disk_loses_nothing_without_a_word() {
    let world = TempDir::new();
    // Three lives: what one left as a write-ahead log, the next has in sorted files. The last one ends as by a kill.
    let appends = number("LOOPWARDEN_DAMAGE_EVENTS", EVENTS) / TOGETHER;
    for life in 0..2 {
        drop(live(world.path(), life * appends / 3..(life + 1) * appends / 3));
    }
    let broker = live(world.path(), 2 * appends / 3..appends);
    let expected = held(&broker).unwrap();
    assert_eq!(expected.inputs.values().map(|(_, _, events)| events.len() as u64).sum::<u64>(), appends * TOGETHER);
    assert_eq!(refused(&expected.rows, appends + 1), appends as usize, "each stop, and nobody else");
    let left = TempDir::copy_of(world.path());
    assert_eq!(started(TempDir::copy_of(left.path()).path(), &expected), Ok(true), "an unharmed copy");
    let mut dice = Random(number("LOOPWARDEN_SEED", 7));
    let (mut whole, mut refused, mut silent) = (0, BTreeMap::new(), Vec::new());
    let names = files(left.path());
    for fault in 0..number("LOOPWARDEN_DAMAGE", 60) as usize {
        let copy = TempDir::copy_of(left.path());
        // Each file in turn.
        let harm = harm(&copy.path().join(names[fault % names.len()].file_name().unwrap()), &mut dice);
        // Whoever is refused may try again: that must not be a way to go on without what is gone.
        for start in ["first", "second"] {
            match started(copy.path(), &expected) {
                Ok(true) => whole += 1,
                Ok(false) => silent.push(format!("{harm}, {start} start")),
                Err(error) => {
                    *refused
                        .entry(error.split(':').find(|part| part.trim().starts_with("E0")).unwrap_or("no code").trim().to_owned())
                        .or_insert(0) += 1
                }
            }
        }
    }
    println!(
        "{} events, {appends} stops, {} files, two starts for each fault: {whole} whole, {refused:?} refused, {} silent",
        appends * TOGETHER,
        names.len(),
        silent.len()
    );
    assert!(silent.is_empty(), "{silent:#?}");
    assert!(!refused.contains_key("no code"), "{refused:?}");
    assert!(whole > 0 && !refused.is_empty());
}

/// The largest file of sorted records.
fn largest(dir: &Path) -> PathBuf {
    let sorted = files(dir).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "sst"));
    sorted.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

#[test]
fn an_export_that_meets_damage_is_no_whole_answer_and_the_log_names_it() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let mut dice = Random(3);
    for batch in 0..8 {
        let lines: String = (0..250)
            .map(|number| {
                let mut event = failed_call(&format!("s{number}"), batch * 1_000 + number);
                let noise: String = std::iter::repeat_with(|| format!("{:x}", dice.next())).take(120).collect();
                event["args"]["command"] = noise.into();
                format!("{event}\n")
            })
            .collect();
        let answer = running.client.post("/v1/events", "application/x-ndjson", lines.as_bytes());
        assert_eq!(answer.status, 202, "{}", answer.text);
    }
    running.until("/readyz?verbose", |answer| answer.text.contains("judged 0.0 s late"));
    running.kill();
    // A start after a kill makes sorted files of the write-ahead log.
    assert_eq!(Running::start(&scratch.0, &[]).terminate(), Some(0));
    let state = scratch.0.join("data/state");
    let path = largest(&state);
    let length = path.metadata().unwrap().len();
    for (part, status) in [(length / 2, 200), (1_000, 503)] {
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, part).unwrap();
        file.write_all_at(&[byte[0] ^ 16], part).unwrap();
        let running = Running::start(&scratch.0, &[]);
        let answer = running.client.get("/v1/events");
        // Chunks end with an empty one where they are all.
        assert!(answer.status == status && !answer.text.ends_with("0\r\n\r\n"), "{part}: {}", answer.head);
        assert!(status == 200 || answer.text.contains("E0404"), "{}", answer.text);
        drop(running);
        let log = fs::read_to_string(scratch.0.join("stderr")).unwrap();
        assert!(log.contains("E0404"), "{part}: {log}");
    }
}
