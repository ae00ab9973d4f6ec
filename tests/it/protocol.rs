//! Rules of the commit protocol that no outcome of a whole run would show: order within a commit, durability within a restore.

use std::{sync::Arc, time::Duration};

use loopwarden::event::{NextOffset, Stage, TaskId, partition_of};
use loopwarden::log::embedded::{EmbeddedBroker, EmbeddedOptions, Feed};
use loopwarden::log::{CommitOutcome, Destination, Headers, Log, LogEvent, Output};
use loopwarden::store::{KeyFamily, Position, RocksOptions, RocksStore, StateKey, StateStore, StoreOwner};
use loopwarden::task::{CommitTrigger, LaneSettings, Leases, Restore, RestoreStep, SystemClock, Task};
use loopwarden_sim::{Faults, MemoryBroker, MemoryTopic};
use serde_json::Value;

use crate::store::temp_dir::TempDir;
use crate::world::{Fed, Outcome, PARTITIONS, TestWorld, config, feed, fleet, reference, session_task, settings};

#[test]
fn the_position_of_a_task_is_the_last_record_of_its_commit() {
    let mut world = TestWorld::new(config(20), settings(CommitTrigger::EveryRecords(1)));
    feed(&world.broker, &fleet(3, 200));
    world.start("lw", 1);
    assert!(world.settle(), "{:?}", world.exits);
    let changelog = world.broker.committed(MemoryTopic::Changelog(Stage::Session));
    let is_position = |key: &Option<Vec<u8>>| *key.as_deref().unwrap() == *StateKey::position().to_changelog();
    let mut positions = 0;
    for (at, record) in changelog.iter().enumerate() {
        // A commit's end leaves its marker behind: the next record is not the next offset.
        let is_last =
            changelog.get(at + 1).is_none_or(|next| next.partition != record.partition || next.offset != record.offset + 1);
        assert_eq!(is_position(&record.key), is_last, "{}/{}", record.partition, record.offset);
        positions += usize::from(is_last);
    }
    assert!(positions > 10, "{positions} commits");
}

fn rocks(dir: &TempDir) -> RocksStore {
    let memory = RocksOptions { block_cache_bytes: 1 << 20, ..RocksOptions::default() };
    let owner = StoreOwner { app: "loopwarden".to_owned(), instance: "lw-0".to_owned(), cluster: None };
    RocksStore::open(dir.path(), &memory, &owner).unwrap()
}

#[test]
fn a_restored_position_is_never_ahead_of_its_data() {
    // More than a restore hands over at a time, so that it loads without a write-ahead log.
    const RECORDS: u32 = 1_500;
    let task = session_task(0);
    let broker = MemoryBroker::new(config(20), Faults::none());
    let mut log = broker.open("lw", 0);
    while let Ok(LogEvent::Assigned(tasks)) = log.poll(Duration::ZERO, &mut |_, _| unreachable!()) {
        log.assign(&tasks).unwrap();
    }
    let key = |number: u32| StateKey::new(KeyFamily::Head, number.to_be_bytes().to_vec());
    let mut stage = |key: &StateKey, value: Vec<u8>| {
        let (destination, headers) = (Destination::Changelog(task), Headers::default());
        log.stage(Output { destination, key: key.to_changelog(), value: Some(value), headers, timestamp_ms: 1 });
    };
    (0..RECORDS).for_each(|number| stage(&key(number), vec![7; 4_000]));
    stage(&StateKey::position(), Position::default().encode_for_changelog().unwrap());
    let outcome = log.commit(&[(task, NextOffset(0))]);
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");

    let dir = TempDir::new();
    let store = rocks(&dir);
    let mut reader = log.changelog().unwrap().unwrap();
    let task_of = Task::new(task, Leases::new().take(task).unwrap());
    let mut restore = Restore::new(task_of, Box::new(store.clone()), Arc::new(LaneSettings::default()));
    let ready = loop {
        match restore.step(Some(&mut *reader), &SystemClock::start()) {
            RestoreStep::Again(_) => {}
            RestoreStep::Ready(ready) => break ready,
            RestoreStep::Failed(error) => panic!("{error}"),
        }
    };
    assert_eq!(ready.records, u64::from(RECORDS) + 1);
    // `kill -9`: the files as they are, while the store is open.
    let killed = TempDir::copy_of(dir.path());
    let killed = rocks(&killed);
    assert!(killed.get(task, &StateKey::position()).unwrap().is_some());
    for number in 0..RECORDS {
        assert!(killed.get(task, &key(number)).unwrap().is_some(), "record {number} is missing behind its Position");
    }
}

#[test]
fn a_reset_reaches_agents_in_the_order_of_their_keys() {
    const AGENTS: usize = 12;
    let mut records: Vec<Fed> = Vec::new();
    let mut now_ms = 1_795_291_200_000;
    let mut number = 0;
    let mut add = |agent: usize, what: &str| {
        now_ms += 100;
        number += 1;
        // Begun in another order than that of their names.
        let agent = (agent * 5) % AGENTS;
        let json = format!(r#"{{"id":"e{number}","session_id":"s","agent":{{"id":"a{agent:02}"}},"time":{now_ms},{what}}}"#);
        records.push(("s".to_owned(), Some(json.into_bytes()), now_ms));
    };
    for agent in 0..AGENTS {
        for _ in 0..12 {
            add(agent, r#""kind":"tool","tool":"Bash","args":{"command":"c"},"outcome":"error","error":"boom""#);
        }
    }
    add(0, r#""kind":"reset","scope":"session""#);
    let told = reference(&records);
    let commands = told.outputs.values().flatten().filter_map(|seen| seen.value.as_deref());
    let commands = commands.map(|bytes| serde_json::from_slice::<Value>(bytes).unwrap());
    let lifted = commands.filter(|command| command["action"] == "unblock");
    // The agent that spoke comes first; the others in order.
    let lifted: Vec<String> = lifted.map(|command| command["scope"]["agent_id"].as_str().unwrap().to_owned()).skip(1).collect();
    assert!(lifted.len() >= AGENTS / 2, "{lifted:?}");
    assert!(lifted.is_sorted(), "{lifted:?}");
}

/// In front of each partition so many records of a session of its own, long over when the others begin.
fn feed_strangers(broker: &MemoryBroker, count: u64) {
    for partition in 0..PARTITIONS {
        let mut sessions = (0..).map(|number| format!("stranger-{number}"));
        let session = sessions.find(|session| partition_of(session.as_bytes(), PARTITIONS) == partition).unwrap();
        for number in 0..count {
            let time_ms = 1_795_291_100_000 + number as i64;
            let json = format!(r#"{{"id":"x{number}","session_id":"{session}","kind":"progress","time":{time_ms}}}"#);
            broker.append(session_task(partition), Some(session.as_bytes()), Some(json.as_bytes()), time_ms);
        }
    }
}

/// What workers are told in an outcome: commands, rows and sums. Only the offset of a cause, which is where it lies, may know of
/// strangers: it is put back by their number.
fn told(outcome: Outcome, strangers: u64) -> Outcome {
    let Outcome { mut outputs, rows, counts, .. } = outcome;
    for seen in outputs.values_mut() {
        seen.retain(|seen| seen.headers.iter().any(|(name, _)| name == "ce_id"));
        for command in seen {
            let text = String::from_utf8(command.value.take().unwrap()).unwrap();
            let json: Value = serde_json::from_str(&text).unwrap();
            let offset = json["trigger"]["offset"].as_u64().unwrap();
            let field = |offset: u64| format!(r#""offset":{offset},"#);
            assert_eq!(text.matches(&field(offset)).count(), 1, "{text}");
            command.value = Some(text.replace(&field(offset), &field(offset - strangers)).into_bytes());
        }
    }
    Outcome { outputs, rows, states: Vec::new(), counts }
}

#[test]
fn a_command_is_a_function_of_its_records_whenever_it_is_made() {
    const YEARS_MS: i64 = 5 * 365 * 86_400_000;
    let records = fleet(5, 400);
    let outcome = reference(&records);
    reference(&records).assert_is(&outcome, "the second time");
    let expected = told(outcome, 0);
    assert!(expected.outputs.values().map(Vec::len).sum::<usize>() >= 5, "too few commands to prove anything");
    // Processes and their lanes, how far their clocks are ahead of those of the reference, strangers.
    let worlds = [
        (vec![("other", 1)], 0, 0),
        (vec![("a", 2), ("b", 1)], 0, 0),
        (vec![("ref", 1)], YEARS_MS, 0),
        (vec![("ref", 1)], 0, 97),
        (vec![("x", 1), ("y", 3)], YEARS_MS, 501),
    ];
    for (processes, ahead_ms, strangers) in worlds {
        let what = format!("{processes:?}, {ahead_ms} ms ahead, {strangers} strangers");
        let mut world = TestWorld::new(config(20), settings(CommitTrigger::Timed { max_ms: 100, min_ms: 5 }));
        world.broker.advance(ahead_ms);
        feed_strangers(&world.broker, strangers);
        feed(&world.broker, &records);
        for (name, lanes) in processes {
            world.start(name, lanes);
        }
        assert!(world.settle(), "{what}: {:?}", world.exits);
        assert_eq!(world.exits, [], "{what}");
        world.audit();
        told(world.outcome(), strangers).assert_is(&expected, &what);
    }
}

#[test]
fn lanes_that_commit_at_once_leave_no_gap_and_no_double_in_the_numbers() {
    const LANES: u32 = 4;
    // So many that two threads meet between any two steps of a commit.
    const COMMITS: u64 = 4_000;
    let dir = TempDir::new();
    let options = EmbeddedOptions { partitions: LANES, lanes: LANES, ..EmbeddedOptions::default() };
    let broker = EmbeddedBroker::open(rocks(&dir), options).unwrap();
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let mut log = broker.lane(lane);
            scope.spawn(move || {
                let task = TaskId { stage: Stage::Session, partition: lane };
                for number in 0..COMMITS {
                    log.stage(Output {
                        destination: Destination::Commands,
                        key: b"s".to_vec(),
                        value: Some(format!("{lane}-{number}").into_bytes()),
                        headers: Headers::default(),
                        timestamp_ms: 1,
                    });
                    let outcome = log.commit(&[(task, NextOffset(number))]);
                    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
                }
            });
        }
    });
    broker.reader().rows(b"", &|_| true, 1, Duration::from_secs(60)).unwrap();
    let mut seen = Vec::new();
    let mut visit = |output: loopwarden::log::embedded::EmbeddedOutput| {
        seen.push((output.sequence, output.value.unwrap()));
        std::ops::ControlFlow::Continue(())
    };
    broker.reader().read(Feed::Commands, 0, &mut visit).unwrap();
    let numbers: Vec<u64> = seen.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..u64::from(LANES) * COMMITS).collect::<Vec<_>>());
    let mut values: Vec<Vec<u8>> = seen.into_iter().map(|(_, value)| value).collect();
    values.sort();
    values.dedup();
    assert_eq!(values.len() as u64, u64::from(LANES) * COMMITS);
}
