//! How fast state comes back from a changelog (T13), and that it is the same. `LOOPWARDEN_RESTORE_MB` makes it as large as wanted.

use std::sync::Arc;

use loopwarden::log::{Destination, Headers, Log, Output};
use loopwarden::store::{
    Change, KeyFamily, MemoryStore, Position, RocksOptions, RocksStore, StateKey, StateStore, StoreOwner, state_hash,
};
use loopwarden::task::{LaneSettings, Leases, Restore, RestoreStep, SystemClock, Task};
use loopwarden::{clock::Stopwatch, event::NextOffset};

use crate::broker;
use crate::world::{World, commit, session};

/// Bytes of a value: a head, or a step or two.
const VALUE_BYTES: usize = 400;
/// Changelog records of a transaction.
const RECORDS: u64 = 4_000;

/// How long this thread has run on a core: what a busy machine does not change.
fn on_cpu_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0) / 1_000_000
}

#[test]
fn a_changelog_of_many_sessions_becomes_the_same_store() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let megabytes = std::env::var("LOOPWARDEN_RESTORE_MB").ok().and_then(|value| value.parse::<u64>().ok()).unwrap_or(48);
    let world = World::new(bootstrap, 1);
    world.produce(&[(0, "a", "e0")]);
    let mut log = world.running(1);
    let task = session(0);
    let mut expected = MemoryStore::new();
    let records = megabytes * 1_000_000 / (VALUE_BYTES as u64 + 40);
    let mut written = 0;
    while written < records {
        let mut changes = Vec::new();
        for number in written..(written + RECORDS).min(records) {
            // A third is written again and again, as sessions are.
            let session = if number % 3 == 0 { number % 999 } else { number };
            let name = format!("\u{1f}session-{session:012}\u{1f}main");
            let mut value = vec![1_u8; VALUE_BYTES];
            value[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            changes.push(Change { task, key: StateKey::new(KeyFamily::Head, name.into_bytes()), value: Some(value) });
        }
        written += changes.len() as u64;
        let position = Position { next_offset: NextOffset(1), ..Position::default() };
        let value = Some(position.encode_for_changelog().expect("bytes"));
        changes.push(Change { task, key: StateKey::position(), value });
        for change in &changes {
            log.stage(Output {
                destination: Destination::Changelog(task),
                key: change.key.to_changelog(),
                value: change.value.clone(),
                headers: Headers::default(),
                timestamp_ms: 1_700_000_000_000,
            });
        }
        commit(&mut log, &[(task, 1)]);
        expected.commit(changes).expect("memory");
    }

    // What the last commit wrote is no part of the changelog for readers before its markers are there.
    world.until_stable(&world.options.changelog_topic(task.stage));

    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("restore-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let owner = StoreOwner { app: world.options.app.clone(), instance: "lw-0".into(), cluster: None };
    let store = RocksStore::open(&dir, &RocksOptions::default(), &owner).expect("a store");
    let mut reader = log.changelog().expect("a reader").expect("there is one");
    let clock = SystemClock::start();
    let (watch, cpu) = (Stopwatch::start(), on_cpu_ms());
    let lease = Leases::new().take(task).expect("free");
    let mut restore = Restore::new(Task::new(task, lease), Box::new(store.clone()), Arc::new(LaneSettings::default()));
    let ready = loop {
        match restore.step(Some(&mut *reader), &clock) {
            RestoreStep::Again(0) => {}
            RestoreStep::Again(ms) => std::thread::park_timeout(std::time::Duration::from_millis(ms)),
            RestoreStep::Ready(ready) => break ready,
            RestoreStep::Failed(error) => panic!("{error}"),
        }
    };
    let took = watch.elapsed();
    let speed = ready.bytes as f64 / took.as_secs_f64() / 1e6;
    let (records_read, read, cpu) = (ready.records, ready.bytes / 1_000_000, on_cpu_ms() - cpu);
    println!(
        "restored {records_read} records, {read} MB in {took:?} by one thread ({cpu} ms of them on a core): {speed:.0} MB/s"
    );
    assert_eq!(ready.position.next_offset, NextOffset(1));
    // The broker may have compacted some of it: a marker's time of today closes the segment of records of 2023.
    assert!(ready.records > 0 && ready.records <= records + records.div_ceil(RECORDS), "{} records", ready.records);
    let families = [KeyFamily::Head, KeyFamily::Position];
    assert_eq!(state_hash(&store, task, &families), state_hash(&expected, task, &families));
    drop((restore, ready, store));
    let _ = std::fs::remove_dir_all(&dir);
}
