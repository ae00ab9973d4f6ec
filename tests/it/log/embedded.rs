//! The embedded log: the contract, and what a power cut leaves.

use std::sync::mpsc::{Receiver, sync_channel};
use std::{collections::BTreeMap, ffi::OsString, ops::ControlFlow, path::Path, time::Duration};

use loopwarden::event::{NextOffset, Stage, TaskId};
use loopwarden::log::embedded::{
    Append, EmbeddedBroker, EmbeddedLog, EmbeddedOptions, EmbeddedOutput, Feed as EmbeddedFeed, Retention, TICK_HEADER,
};
use loopwarden::log::{CommitOutcome, Destination, Flow, Log, LogError, LogEvent, Output, Partitions};
use loopwarden::server::Upkeep;
use loopwarden::store::{KeyFamily, RocksOptions, RocksStore, StateStore, StoreOwner};

use super::log_contract::{Feed, Seen, World, change, command, commit, read, session, take_all};
use super::{log_contract, temp_dir::TempDir};

const PARTITIONS: u32 = 3;
const LONG: Duration = Duration::from_secs(60);
/// Any row.
const ANY: fn(&[u8]) -> bool = |_| true;

fn open(dir: &TempDir, change: impl FnOnce(&mut EmbeddedOptions)) -> Result<EmbeddedBroker, LogError> {
    let memory = RocksOptions { block_cache_bytes: 1 << 20, write_buffer_bytes: 1 << 20, ..RocksOptions::default() };
    let owner = StoreOwner { app: "loopwarden".to_owned(), instance: "lw-0".to_owned(), cluster: None };
    let mut options = EmbeddedOptions { partitions: PARTITIONS, ..EmbeddedOptions::default() };
    change(&mut options);
    EmbeddedBroker::open(RocksStore::open(dir.path(), &memory, &owner).unwrap(), options)
}

struct Embedded {
    broker: EmbeddedBroker,
    dir: TempDir,
}

impl Embedded {
    fn with(change: impl FnOnce(&mut EmbeddedOptions)) -> Self {
        let dir = TempDir::new();
        Self { broker: open(&dir, change).unwrap(), dir }
    }

    fn ready(&mut self) -> EmbeddedLog {
        let mut log = self.open();
        take_all(self, &mut log);
        log
    }
}

fn feed(broker: &EmbeddedBroker, feed: EmbeddedFeed) -> Vec<EmbeddedOutput> {
    let mut outputs = Vec::new();
    let mut visit = |output| {
        outputs.push(output);
        ControlFlow::Continue(())
    };
    broker.reader().read(feed, 0, &mut visit).unwrap();
    outputs
}

/// Everything written so far is synced. An empty tick would be a write of its own, so a row is asked for instead.
fn settle(broker: &EmbeddedBroker) {
    broker.reader().rows(b"", &ANY, 1, LONG).unwrap();
}

fn values(outputs: &[EmbeddedOutput]) -> Vec<String> {
    outputs.iter().map(|output| String::from_utf8(output.value.clone().unwrap()).unwrap()).collect()
}

/// Lengths of the write-ahead logs in a directory.
fn wal_lengths(dir: &Path) -> BTreeMap<OsString, u64> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let logs = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "log"));
    logs.map(|entry| (entry.file_name(), entry.metadata().unwrap().len())).collect()
}

/// What is on the disk under a log, and not only in the kernel: of each write-ahead log what it held when RocksDB synced last. The
/// other files RocksDB syncs by itself before they count.
struct Disk {
    syncs: u64,
    synced: BTreeMap<OsString, u64>,
    told: Receiver<(u64, BTreeMap<OsString, u64>)>,
}

impl Disk {
    fn under(world: &Embedded) -> Self {
        let (sender, told) = sync_channel(64);
        let (store, dir) = (world.broker.store(), world.dir.path().to_owned());
        let syncs = store.stats().unwrap().wal_syncs;
        world.broker.on_synced(move || {
            // The last sync is that of the end, when nobody listens any more.
            let _ = sender.try_send((store.stats().unwrap().wal_syncs, wal_lengths(&dir)));
        });
        Self { syncs, synced: BTreeMap::new(), told }
    }

    /// Waits until the log says that it synced; nothing may be written meanwhile. Only what RocksDB counts as a sync is one.
    fn next_sync(&mut self) {
        let (syncs, lengths) = self.told.recv_timeout(LONG).unwrap();
        if syncs > self.syncs {
            (self.syncs, self.synced) = (syncs, lengths);
        }
    }

    /// What is left of a directory when the power goes now.
    fn power_cut(&self, dir: &Path) -> TempDir {
        let left = TempDir::copy_of(dir);
        for name in wal_lengths(left.path()).into_keys() {
            let file = std::fs::OpenOptions::new().write(true).open(left.path().join(&name)).unwrap();
            file.set_len(self.synced.get(&name).copied().unwrap_or(0)).unwrap();
        }
        left
    }
}

impl World for Embedded {
    type Log = EmbeddedLog;

    fn new() -> Self {
        Self::with(|_| {})
    }

    fn partitions(&self) -> Partitions {
        self.broker.partitions()
    }

    fn open(&mut self) -> EmbeddedLog {
        self.broker.lane(0)
    }

    fn append(&mut self, partition: u32, key: &str, value: &str, timestamp_ms: i64) -> u64 {
        self.broker
            .append_to(partition, &Append { key: key.as_bytes(), value: value.as_bytes(), headers: vec![], timestamp_ms })
            .unwrap()
    }

    fn outputs(&mut self, of: Feed) -> Vec<Seen> {
        settle(&self.broker);
        let of = match of {
            Feed::Commands => EmbeddedFeed::Commands,
            Feed::DeadLetters => EmbeddedFeed::DeadLetters,
        };
        let seen = feed(&self.broker, of).into_iter().map(|output| Seen {
            key: output.key,
            value: output.value,
            headers: output.headers.into_iter().map(|(name, value)| (name, value.unwrap())).collect(),
            timestamp_ms: output.timestamp_ms,
        });
        seen.collect()
    }

    fn state(&mut self, task: TaskId) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut state = BTreeMap::new();
        for family in KeyFamily::ALL {
            let mut visit = |key: &[u8], value: &[u8]| {
                state.insert([&[family.byte()], key].concat(), value.to_vec());
                ControlFlow::Continue(())
            };
            self.broker.store().scan(task, family, b"", b"", &mut visit).unwrap();
        }
        state
    }

    fn committed(&mut self, task: TaskId) -> Option<NextOffset> {
        self.broker.committed(task).map(NextOffset)
    }
}

crate::contract!(contract, super::Embedded);

#[test]
fn a_task_that_stands_behind_the_end_of_its_log_does_not_start() {
    let mut world = Embedded::new();
    let mut log = world.ready();
    world.append(0, "a", "e0", 1);
    log.start(session(0), NextOffset(1)).unwrap();
    let refused = log.start(session(0), NextOffset(88_120)).unwrap_err();
    assert!(
        matches!(&refused, LogError::Fatal { code: "E0502", message } if message.contains("stands at 88120, but its input ends at 1")),
        "{refused}"
    );
}

#[test]
fn numbers_of_outputs_have_no_gaps_and_go_on_after_a_restart() {
    let mut world = Embedded::new();
    let mut log = world.ready();
    for n in 0..3u64 {
        world.append(0, "s", "e", 1);
        log.stage(command("s", &format!("{n}a")));
        log.stage(Output { destination: Destination::DeadLetters { source_partition: 0 }, ..command("k", "bad") });
        log.stage(command("t", &format!("{n}b")));
        commit(&mut log, &[(session(0), n)]);
    }
    drop((log, world.broker));
    let broker = open(&world.dir, |_| {}).unwrap();
    let mut world = Embedded { broker, dir: world.dir };
    let mut log = world.ready();
    log.stage(command("s", "3a"));
    commit(&mut log, &[(session(0), 3)]);
    settle(&world.broker);
    let outputs = feed(&world.broker, EmbeddedFeed::Commands);
    assert_eq!(outputs.iter().map(|output| output.sequence).collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
    assert_eq!(values(&outputs), ["0a", "0b", "1a", "1b", "2a", "2b", "3a"]);
    assert_eq!(world.broker.reader().range(EmbeddedFeed::DeadLetters), 0..3);
}

#[test]
fn what_was_acknowledged_or_seen_survives_a_power_cut_under_the_same_numbers() {
    // After the first sync the next one waits for longer than the test, or for many bytes.
    let mut world = Embedded::with(|options| {
        options.sync_wait_max = Duration::from_secs(3_600);
        options.sync_bytes = 10_000;
    });
    let mut disk = Disk::under(&world);
    let mut log = world.ready();
    let large = vec![b'v'; 20_000];
    let append = |value: &'static str| Append {
        key: b"s",
        value: value.as_bytes(),
        headers: vec![("h", Some(b"v")), ("null", None)],
        timestamp_ms: 9,
    };
    let places = world.broker.append(&[append("one"), append("two")]).unwrap();
    disk.next_sync();
    let task = session(places[0].0);
    assert_eq!(read(&mut log, 2)[1].value, "two");
    log.stage(command("s", "seen"));
    log.stage(change(task, b"\x02k", Some(&large)));
    commit(&mut log, &[(task, 2)]);
    assert!(world.broker.reader().wait(EmbeddedFeed::Commands, 0, LONG).unwrap());
    disk.next_sync();
    // Nobody was told of these: they go with the power.
    world.broker.append_unsynced(&[append("three")]).unwrap();
    log.stage(command("s", "unseen"));
    commit(&mut log, &[(task, 3)]);
    let left = disk.power_cut(world.dir.path());
    let broker = open(&left, |_| {}).unwrap();
    assert_eq!(broker.input_range(task), 0..2);
    assert_eq!(broker.committed(task), Some(2));
    let outputs = feed(&broker, EmbeddedFeed::Commands);
    assert_eq!((values(&outputs), outputs[0].sequence), (vec!["seen".to_owned()], 0));
    let mut after = Embedded { broker, dir: left };
    assert_eq!(after.state(task), BTreeMap::from([(b"\x02k".to_vec(), large)]));
    let mut log = after.ready();
    log.start(task, NextOffset(1)).unwrap();
    assert_eq!(read(&mut log, 1)[0].value, "two");
    // Under the number of what was lost comes what is acknowledged now.
    assert_eq!(after.broker.append(&[append("four")]).unwrap(), [(task.partition, 2)]);
}

#[test]
fn a_cut_anywhere_leaves_events_outputs_state_and_offsets_of_one_moment() {
    let mut world = Embedded::new();
    let mut log = world.ready();
    let task = session(0);
    // As if none of it had been acknowledged: how far the log was durable at the start.
    let durable = std::fs::read(world.dir.path().join("DURABLE")).unwrap();
    for n in 0..50u64 {
        world.broker.append_to(0, &Append { key: b"s", value: b"e", headers: vec![], timestamp_ms: 0 }).unwrap();
        log.stage(command("s", &n.to_string()));
        log.stage(change(task, b"\x02k", Some(&n.to_be_bytes())));
        commit(&mut log, &[(task, n + 1)]);
    }
    settle(&world.broker);
    for cut in (1..9_000).step_by(331) {
        let left = TempDir::copy_of(world.dir.path());
        std::fs::write(left.path().join("DURABLE"), &durable).unwrap();
        let logs = std::fs::read_dir(left.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|x| x == "log"));
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(logs.max_by_key(|path| path.metadata().unwrap().len()).unwrap())
            .unwrap();
        file.set_len(file.metadata().unwrap().len().saturating_sub(cut)).unwrap();
        let mut after = Embedded { broker: open(&left, |_| {}).unwrap(), dir: left };
        let committed = after.broker.committed(task).unwrap_or(0);
        let outputs = feed(&after.broker, EmbeddedFeed::Commands);
        assert!(committed < 50, "the cut took nothing away");
        assert_eq!(outputs.len() as u64, committed);
        assert!(outputs.iter().enumerate().all(|(index, output)| output.sequence == index as u64));
        let state = after.state(task).remove(&b"\x02k"[..]);
        assert_eq!(state, committed.checked_sub(1).map(|last| last.to_be_bytes().to_vec()));
        let events = after.broker.input_range(task).end;
        assert!(events == committed || events == committed + 1, "{events} events, {committed} committed");
    }
}

#[test]
fn nothing_is_seen_before_it_is_synced() {
    // A sync that waits for longer than the test, once it was done for the first time.
    let mut world = Embedded::with(|options| options.sync_wait_max = Duration::from_secs(3_600));
    let mut log = world.ready();
    log.stage(command("s", "first"));
    commit(&mut log, &[(session(0), 1)]);
    let reader = world.broker.reader();
    assert!(reader.wait(EmbeddedFeed::Commands, 0, LONG).unwrap());
    log.stage(command("s", "unsynced"));
    log.stage(Output { destination: Destination::State, ..command("row", "unsynced") });
    commit(&mut log, &[(session(0), 2)]);
    assert_eq!(values(&feed(&world.broker, EmbeddedFeed::Commands)), ["first"]);
    assert_eq!(reader.range(EmbeddedFeed::Commands), 0..1);
    assert!(!reader.wait(EmbeddedFeed::Commands, 1, Duration::from_millis(1)).unwrap());
    assert!(matches!(reader.rows(b"row", &ANY, 9, Duration::from_millis(1)), Err(LogError::Transient(_))));
    // A mebibyte does not wait.
    world.broker.append(&[Append { key: b"s", value: &vec![b'x'; 1 << 20], headers: vec![], timestamp_ms: 0 }]).unwrap();
    assert_eq!(values(&feed(&world.broker, EmbeddedFeed::Commands)), ["first", "unsynced"]);
    assert_eq!(reader.rows(b"row", &ANY, 9, LONG).unwrap().len(), 1);
}

#[test]
fn appenders_that_come_together_share_numbers_without_gaps() {
    let world = Embedded::new();
    let synced = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counter = std::sync::Arc::clone(&synced);
    world.broker.on_synced(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    });
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let broker = world.broker.clone();
            std::thread::spawn(move || {
                let key = format!("session-{n}");
                (0..25)
                    .flat_map(|_| broker.append(&[Append { key: key.as_bytes(), value: b"e", ..Append::default() }]).unwrap())
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let mut places: Vec<(u32, u64)> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 100);
    let total: u64 = (0..PARTITIONS).map(|partition| world.broker.input_range(session(partition)).end).sum();
    assert_eq!(total, 100);
    assert!(synced.load(std::sync::atomic::Ordering::SeqCst) > 0);
}

#[test]
fn lanes_share_the_partitions_and_wake_each_other() {
    let world = Embedded::with(|options| options.lanes = 2);
    let mut lanes: Vec<EmbeddedLog> = (0..2).map(|lane| world.broker.lane(lane)).collect();
    let mut owned = Vec::new();
    for log in &mut lanes {
        let LogEvent::Assigned(tasks) = log.poll(Duration::ZERO, &mut |_, _| unreachable!()).unwrap() else { panic!("no tasks") };
        log.assign(&tasks).unwrap();
        for task in &tasks {
            log.start(*task, NextOffset(0)).unwrap();
        }
        owned.push(tasks);
    }
    let partitions =
        |tasks: &[TaskId], stage| tasks.iter().filter(|task| task.stage == stage).map(|task| task.partition).collect::<Vec<_>>();
    assert_eq!((partitions(&owned[0], Stage::Session), partitions(&owned[1], Stage::Swarm)), (vec![0, 2], vec![1]));
    let key = (0..100)
        .map(|n| format!("swarm-{n}"))
        .find(|key| loopwarden::event::partition_of(key.as_bytes(), PARTITIONS) == 1)
        .unwrap();
    let mut other = lanes.pop().unwrap();
    let waiting = std::thread::spawn(move || {
        let mut seen = 0;
        other
            .poll(LONG, &mut |task, _| {
                seen += task.partition;
                loopwarden::log::Flow::Continue
            })
            .map(|event| (event, seen))
    });
    lanes[0].stage(Output { destination: Destination::SwarmCounts, ..command(&key, "sum") });
    commit(&mut lanes[0], &[(session(0), 1)]);
    assert_eq!(waiting.join().unwrap().unwrap(), (LogEvent::Records(1), 1));
}

#[test]
fn a_lane_that_waits_for_records_looks_up_when_it_is_called_before_or_meanwhile() {
    let mut world = Embedded::new();
    let mut log = world.ready();
    let (sender, polled) = sync_channel(1);
    world.broker.call_lanes();
    std::thread::spawn(move || {
        // Both ends are the test's: nothing else would end such a wait.
        while sender.send(log.poll(60 * LONG, &mut |_, _| unreachable!())).is_ok() {}
    });
    for _ in 0..2 {
        assert_eq!(polled.recv_timeout(LONG).expect("it looks up"), Ok(LogEvent::Records(0)));
        world.broker.call_lanes();
    }
}

#[test]
fn state_rows_are_found_by_prefix_and_deleted_by_tombstones() {
    let mut world = Embedded::new();
    let mut log = world.ready();
    let row = |key: &str, value: Option<&str>| Output {
        destination: Destination::State,
        value: value.map(|value| value.as_bytes().to_vec()),
        ..command(key, "")
    };
    for key in
        ["agent\u{1f}\u{1f}s1\u{1f}a", "agent\u{1f}\u{1f}s1\u{1f}b", "agent\u{1f}\u{1f}s10\u{1f}a", "swarm\u{1f}\u{1f}w\u{1f}f"]
    {
        log.stage(row(key, Some("blocked")));
    }
    commit(&mut log, &[(session(0), 1)]);
    log.stage(row("agent\u{1f}\u{1f}s1\u{1f}b", None));
    commit(&mut log, &[(session(0), 2)]);
    let rows = world.broker.reader().rows("agent\u{1f}\u{1f}s1\u{1f}".as_bytes(), &ANY, 100, LONG).unwrap();
    assert_eq!(rows, [("agent\u{1f}\u{1f}s1\u{1f}a".as_bytes().to_vec(), b"blocked".to_vec())]);
    assert_eq!(world.broker.reader().rows(b"", &ANY, 100, LONG).unwrap().len(), 3);
    assert_eq!(world.broker.reader().rows(b"", &ANY, 2, LONG).unwrap().len(), 2);
    // What is not wanted takes no place from what is.
    log.stage(row("swarm\u{1f}\u{1f}x\u{1f}f", Some("nudged")));
    commit(&mut log, &[(session(0), 3)]);
    let nudged = world.broker.reader().rows(b"", &|value| value == b"nudged", 1, LONG).unwrap();
    assert_eq!(nudged, [("swarm\u{1f}\u{1f}x\u{1f}f".as_bytes().to_vec(), b"nudged".to_vec())]);
}

#[test]
fn retention_removes_what_is_old_and_consumed_and_nothing_else() {
    let mut world = Embedded::new();
    let mut log = world.ready();
    for n in 0..10 {
        world.append(0, "s", "event", n * 1_000);
    }
    read(&mut log, 10);
    for n in 0..10 {
        log.stage(Output { timestamp_ms: n * 1_000, ..command("s", &n.to_string()) });
    }
    commit(&mut log, &[(session(0), 4)]);
    settle(&world.broker);
    let all = Retention { input_ms: i64::MAX, input_bytes: u64::MAX, output_ms: i64::MAX, output_bytes: u64::MAX };
    assert_eq!(world.broker.retain(20_000, &all).unwrap(), 0);
    let bytes = world.broker.input_bytes();
    // Records 0 to 7 are older than 12 s, but only 4 are consumed.
    assert!(world.broker.retain(20_000, &Retention { input_ms: 12_000, output_ms: 18_000, ..all }).unwrap() > 0);
    assert_eq!(world.broker.input_range(session(0)), 4..10);
    assert_eq!(world.broker.input_bytes(), bytes / 10 * 6);
    assert_eq!(world.broker.reader().range(EmbeddedFeed::Commands), 2..10);
    assert_eq!(values(&feed(&world.broker, EmbeddedFeed::Commands)), ["2", "3", "4", "5", "6", "7", "8", "9"]);
    // By size: everything that is consumed.
    commit(&mut log, &[(session(0), 9)]);
    world.broker.retain(20_000, &Retention { input_bytes: 0, ..all }).unwrap();
    assert_eq!(world.broker.input_range(session(0)), 9..10);
    // Nothing of a feed is left: whoever reads goes on behind its end, and does not ask for ever.
    world.broker.retain(20_000, &Retention { output_bytes: 0, ..all }).unwrap();
    let reader = world.broker.reader();
    assert_eq!(reader.range(EmbeddedFeed::Commands), 10..10);
    assert_eq!(reader.read(EmbeddedFeed::Commands, 0, &mut |_| unreachable!("it is empty")).unwrap(), 10);
    drop((reader, log, world.broker));
    let broker = open(&world.dir, |_| {}).unwrap();
    assert_eq!((broker.input_range(session(0)), broker.input_bytes()), (9..10, bytes / 10));
    let mut world = Embedded { broker, dir: world.dir };
    let mut log = world.ready();
    assert_eq!(read(&mut log, 1)[0].offset, 9);
}

#[test]
fn a_wall_clock_that_runs_a_month_ahead_deletes_nothing_and_fires_nothing() {
    const DAY_MS: i64 = 24 * 3_600_000;
    const NOW_MS: i64 = 1_795_291_200_000;
    let mut world = Embedded::new();
    let mut log = world.ready();
    for n in 0..5 {
        world.append(0, "s", "event", NOW_MS - n);
    }
    read(&mut log, 5);
    for n in 0..5 {
        log.stage(Output { timestamp_ms: NOW_MS - n, ..command("s", &n.to_string()) });
    }
    commit(&mut log, &[(session(0), 5)]);
    settle(&world.broker);
    let mut mono_ms = 0;
    // So many turns, so many seconds apart, with a wall clock so far ahead of the true one.
    let mut lives = |broker: &EmbeddedBroker, upkeep: &mut Option<Upkeep>, (turns, apart_s): (u64, u64), ahead_ms: i64| {
        for _ in 0..turns {
            mono_ms += apart_s * 1_000;
            let now = (NOW_MS + mono_ms as i64 + ahead_ms, mono_ms);
            let upkeep = upkeep.get_or_insert_with(|| Upkeep::new(broker, 7 * DAY_MS, now).unwrap());
            assert!(upkeep.turn(broker, now).is_empty());
        }
    };
    let held =
        |broker: &EmbeddedBroker| (broker.input_range(session(0)).start, broker.reader().range(EmbeddedFeed::Commands).start);
    // Ticks wait for nobody here: who reads them sees what time they say.
    let last_tick = |log: &mut EmbeddedLog| {
        let mut last = 0;
        let mut visit = |_, record: &loopwarden::event::Record<'_>| {
            last = last.max(record.meta.timestamp.0);
            Flow::Continue
        };
        while !matches!(log.poll(Duration::ZERO, &mut visit).unwrap(), LogEvent::Records(0)) {}
        last
    };
    let mut upkeep = None;
    lives(&world.broker, &mut upkeep, (12, 10), 0);
    lives(&world.broker, &mut upkeep, (12, 10), 30 * DAY_MS);
    assert_eq!(held(&world.broker), (0, 0));
    assert!(last_tick(&mut log) < NOW_MS + DAY_MS, "a tick of next month ends every session and block");
    // A process that starts while the clock is wrong doubts it like the one before.
    upkeep = None;
    lives(&world.broker, &mut upkeep, (12, 10), 30 * DAY_MS);
    assert_eq!(held(&world.broker), (0, 0));
    assert!(last_tick(&mut log) < NOW_MS + DAY_MS);
    // The clock is right again, and a week passes in truth.
    lives(&world.broker, &mut upkeep, (7 * 24 * 6 - 2, 600), 0);
    assert_eq!(held(&world.broker), (0, 0), "not yet a week");
    lives(&world.broker, &mut upkeep, (18, 100), 0);
    assert_eq!(held(&world.broker), (5, 5));
}

#[test]
fn a_full_log_refuses_events_until_retention_made_room() {
    let mut world = Embedded::with(|options| options.log_bytes_max = 100);
    let mut log = world.ready();
    let event = Append { key: b"s", value: &[b'x'; 200], headers: vec![], timestamp_ms: 0 };
    let places = world.broker.append(std::slice::from_ref(&event)).unwrap();
    assert!(matches!(world.broker.append(std::slice::from_ref(&event)), Err(LogError::Transient(_))));
    read(&mut log, 1);
    commit(&mut log, &[(session(places[0].0), 1)]);
    let keep = Retention { input_ms: i64::MAX, input_bytes: 0, output_ms: i64::MAX, output_bytes: u64::MAX };
    world.broker.retain(0, &keep).unwrap();
    world.broker.append(&[event]).unwrap();
}

#[test]
fn a_directory_keeps_its_number_of_partitions() {
    let world = Embedded::new();
    drop(world.broker);
    let refused = open(&world.dir, |options| options.partitions = 4).unwrap_err();
    assert!(
        matches!(&refused, LogError::Fatal { code: "E0701", message } if message.contains("3 partitions, 4 are configured")),
        "{refused}"
    );
    open(&world.dir, |_| {}).unwrap();
}

#[test]
fn a_tick_reaches_every_session_partition() {
    let mut world = Embedded::new();
    let mut log = world.ready();
    world.broker.append_tick(77).unwrap();
    let mut seen = Vec::new();
    while seen.len() < PARTITIONS as usize {
        log.poll(LONG, &mut |task, record| {
            assert_eq!((record.meta.timestamp.0, record.value, record.meta.key), (77, None, None));
            assert_eq!(record.meta.headers, [(TICK_HEADER, Some(&b"1"[..]))]);
            seen.push(task);
            loopwarden::log::Flow::Continue
        })
        .unwrap();
    }
    assert_eq!(seen, (0..PARTITIONS).map(session).collect::<Vec<_>>());
}

#[test]
fn a_state_key_of_no_family_is_refused_whole() {
    let mut world = Embedded::new();
    let mut log = world.ready();
    log.stage(command("s", "c"));
    log.stage(change(session(0), b"\x63k", Some(b"v")));
    assert!(matches!(log.commit(&[(session(0), NextOffset(1))]), CommitOutcome::Aborted { reopen: false, .. }));
    assert_eq!(world.outputs(Feed::Commands), []);
    assert_eq!(world.committed(session(0)), None);
}
