//! One contract for every `StateStore`, and what RocksDB adds to it.

use std::ops::ControlFlow;

use loopwarden::event::{EventTime, Stage, TaskId};
use loopwarden::store::{
    Area, Change, KeyFamily, LoadBatch, MemoryStore, Position, RocksOptions, RocksStore, StateKey, StateStore, StoreError,
    StoreOwner, TimerKey, state_hash,
};

#[path = "../common/temp_dir.rs"]
pub(crate) mod temp_dir;

use temp_dir::TempDir;

const A: TaskId = TaskId { stage: Stage::Session, partition: 7 };
const B: TaskId = TaskId { stage: Stage::Session, partition: 8 };
const SWARM: TaskId = TaskId { stage: Stage::Swarm, partition: 7 };

fn owner() -> StoreOwner {
    StoreOwner { app: "loopwarden".to_owned(), instance: "lw-0".to_owned(), cluster: None }
}

fn options() -> RocksOptions {
    RocksOptions { block_cache_bytes: 1 << 20, write_buffer_bytes: 1 << 20, ..RocksOptions::default() }
}

fn open(dir: &TempDir) -> RocksStore {
    RocksStore::open(dir.path(), &options(), &owner()).unwrap()
}

fn put(task: TaskId, family: KeyFamily, key: &[u8], value: &[u8]) -> Change {
    Change { task, key: StateKey::new(family, key.to_vec()), value: Some(value.to_vec()) }
}

fn delete(task: TaskId, family: KeyFamily, key: &[u8]) -> Change {
    Change { task, key: StateKey::new(family, key.to_vec()), value: None }
}

fn keys(store: &dyn StateStore, task: TaskId, family: KeyFamily, prefix: &[u8], from: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    };
    store.scan(task, family, prefix, from, &mut visit).unwrap();
    keys
}

fn get(store: &dyn StateStore, task: TaskId, family: KeyFamily, key: &[u8]) -> Option<Vec<u8>> {
    store.get(task, &StateKey::new(family, key.to_vec())).unwrap()
}

/// Loads changes of one task, as a restore does.
fn load(store: &mut dyn StateStore, changes: &[Change]) -> Result<(), StoreError> {
    let mut batch = LoadBatch::new(changes[0].task);
    for change in changes {
        batch.push(&change.key.to_changelog(), change.value.as_deref());
    }
    store.load(&mut batch)
}

/// Runs a clause on every kind of store.
fn on_each(clause: fn(&mut dyn StateStore)) {
    clause(&mut MemoryStore::new());
    let dir = TempDir::new();
    clause(&mut open(&dir));
}

#[test]
fn what_is_committed_is_read_and_a_later_change_of_a_batch_wins() {
    on_each(|store| {
        store
            .commit(vec![
                put(A, KeyFamily::Head, b"s", b"1"),
                put(A, KeyFamily::Head, b"s", b"2"),
                put(A, KeyFamily::Head, b"t", b"3"),
            ])
            .unwrap();
        assert_eq!(get(store, A, KeyFamily::Head, b"s"), Some(b"2".to_vec()));
        store
            .commit(vec![
                put(A, KeyFamily::Head, b"s", b"4"),
                delete(A, KeyFamily::Head, b"s"),
                delete(A, KeyFamily::Head, b"absent"),
            ])
            .unwrap();
        assert_eq!(get(store, A, KeyFamily::Head, b"s"), None);
        assert_eq!(get(store, A, KeyFamily::Head, b"t"), Some(b"3".to_vec()));
    });
}

#[test]
fn tasks_stages_and_families_do_not_see_each_other() {
    on_each(|store| {
        store
            .commit(vec![
                put(A, KeyFamily::Head, b"k", b"a"),
                put(B, KeyFamily::Head, b"k", b"b"),
                put(SWARM, KeyFamily::Head, b"k", b"s"),
            ])
            .unwrap();
        store.commit(vec![put(A, KeyFamily::Page, b"k", b"x")]).unwrap();
        assert_eq!(get(store, A, KeyFamily::Head, b"k"), Some(b"a".to_vec()));
        assert_eq!(get(store, B, KeyFamily::Head, b"k"), Some(b"b".to_vec()));
        assert_eq!(get(store, SWARM, KeyFamily::Head, b"k"), Some(b"s".to_vec()));
        assert_eq!(get(store, A, KeyFamily::Page, b"k"), Some(b"x".to_vec()));
        assert_eq!(keys(store, A, KeyFamily::Head, b"", b""), [b"k"]);
        assert_eq!(get(store, A, KeyFamily::Timer, b"k"), None);
    });
}

#[test]
fn a_scan_visits_one_prefix_in_order_from_a_key_on_and_stops_when_told() {
    on_each(|store| {
        let mut changes: Vec<Change> = (0..200u8).map(|slot| put(A, KeyFamily::Page, &[b's', 0x1f, 0, slot], &[slot])).collect();
        changes.push(put(A, KeyFamily::Page, b"r", b""));
        changes.push(put(A, KeyFamily::Page, &[b's', 0x20], b""));
        changes.push(put(A, KeyFamily::Timer, &[b's', 0x1f], b""));
        store.commit(changes).unwrap();
        let all = keys(store, A, KeyFamily::Page, &[b's', 0x1f], b"");
        assert_eq!(all.len(), 200);
        assert!(all.is_sorted());
        let late = keys(store, A, KeyFamily::Page, &[b's', 0x1f], &[b's', 0x1f, 0, 198]);
        assert_eq!(late, [vec![b's', 0x1f, 0, 198], vec![b's', 0x1f, 0, 199]]);
        assert_eq!(keys(store, A, KeyFamily::Page, b"s", b"z"), Vec::<Vec<u8>>::new());
        assert_eq!(keys(store, A, KeyFamily::Page, b"r", b"a"), [b"r"]);
        let mut seen = 0;
        let mut visit = |_: &[u8], _: &[u8]| {
            seen += 1;
            if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        store.scan(A, KeyFamily::Page, b"", b"", &mut visit).unwrap();
        assert_eq!(seen, 3);
    });
}

#[test]
fn a_scan_copes_with_keys_of_only_high_bytes() {
    on_each(|store| {
        store.commit(vec![put(A, KeyFamily::Swarm, &[0xff, 0xff], b"1"), put(A, KeyFamily::Swarm, &[0xff], b"2")]).unwrap();
        assert_eq!(keys(store, A, KeyFamily::Swarm, &[0xff], b""), [vec![0xff], vec![0xff, 0xff]]);
        assert_eq!(keys(store, A, KeyFamily::Swarm, &[0xff, 0xff], b""), [vec![0xff, 0xff]]);
    });
}

#[test]
fn timers_are_visited_in_the_order_they_fire_in() {
    on_each(|store| {
        let due = [(5, 1, "b"), (-3, 9, "z"), (5, 0, "y"), (i64::MIN, 0, ""), (i64::MAX, 0, ""), (5, 1, "a"), (0, 0, "m")];
        let keys_of = |(due, kind, subject): &(i64, u8, &'static str)| TimerKey {
            due: EventTime(*due),
            kind: *kind,
            subject: subject.as_bytes(),
        };
        let changes: Vec<Change> =
            due.iter().map(|timer| Change { task: A, key: keys_of(timer).to_state_key(), value: Some(vec![]) }).collect();
        store.commit(changes).unwrap();
        let mut expected = due;
        expected.sort_unstable();
        let expected: Vec<Vec<u8>> = expected.iter().map(|timer| keys_of(timer).encode()).collect();
        assert_eq!(keys(store, A, KeyFamily::Timer, b"", b""), expected);
    });
}

#[test]
fn a_wiped_task_is_gone_with_its_position_and_the_others_stay() {
    on_each(|store| {
        let position = put(A, KeyFamily::Position, b"", b"p");
        store
            .commit(vec![
                position,
                put(A, KeyFamily::Swarm, b"w", b"1"),
                put(B, KeyFamily::Head, b"k", b"b"),
                put(SWARM, KeyFamily::Head, b"k", b"s"),
            ])
            .unwrap();
        store.wipe(A).unwrap();
        for family in KeyFamily::ALL {
            assert_eq!(keys(store, A, family, b"", b""), Vec::<Vec<u8>>::new());
        }
        assert_eq!(get(store, B, KeyFamily::Head, b"k"), Some(b"b".to_vec()));
        assert_eq!(get(store, SWARM, KeyFamily::Head, b"k"), Some(b"s".to_vec()));
        store.commit(vec![put(A, KeyFamily::Head, b"k", b"again")]).unwrap();
        assert_eq!(get(store, A, KeyFamily::Head, b"k"), Some(b"again".to_vec()));
    });
}

#[test]
fn loaded_changes_are_read_like_committed_ones() {
    on_each(|store| {
        load(store, &[put(A, KeyFamily::Head, b"k", b"1")]).unwrap();
        load(store, &[put(A, KeyFamily::Head, b"k", b"2"), put(A, KeyFamily::Head, b"l", b"3")]).unwrap();
        load(store, &[put(A, KeyFamily::Head, b"m", b"4"), delete(A, KeyFamily::Head, b"m")]).unwrap();
        load(
            store,
            &[put(A, KeyFamily::Head, b"m", b"5"), put(A, KeyFamily::Head, b"a", b"6"), put(A, KeyFamily::Head, b"m", b"7")],
        )
        .unwrap();
        load(store, &[delete(A, KeyFamily::Head, b"l"), put(A, KeyFamily::Head, b"l", b"3")]).unwrap();
        store.flush().unwrap();
        assert_eq!(get(store, A, KeyFamily::Head, b"k"), Some(b"2".to_vec()));
        assert_eq!(get(store, A, KeyFamily::Head, b"l"), Some(b"3".to_vec()));
        assert_eq!(get(store, A, KeyFamily::Head, b"m"), Some(b"7".to_vec()));
        assert_eq!(keys(store, A, KeyFamily::Head, b"", b"").len(), 4);
    });
}

#[test]
fn equal_states_have_equal_hashes_whatever_store_holds_them() {
    let position = Position { outputs: 3, owner: "a".to_owned(), changelog_next: 9, at_end_ms: 1, ..Position::default() };
    let other = Position { owner: "b".to_owned(), changelog_next: 7, at_end_ms: 2, ..position.clone() };
    let later = Position { outputs: 4, ..position.clone() };
    let hash_of = |store: &mut dyn StateStore, position: &Position, value: &[u8]| {
        let record = put(A, KeyFamily::Position, b"", &position.encode_for_store().unwrap());
        store.commit(vec![record, put(A, KeyFamily::Head, b"k", value)]).unwrap();
        state_hash(store, A, &KeyFamily::ALL).unwrap()
    };
    let dir = TempDir::new();
    let mut rocks = open(&dir);
    let hash = hash_of(&mut MemoryStore::new(), &position, b"v");
    assert_eq!(hash_of(&mut rocks, &other, b"v"), hash);
    assert_ne!(hash_of(&mut rocks, &later, b"v"), hash);
    assert_ne!(hash_of(&mut rocks, &position, b"w"), hash);
}

#[test]
fn a_snapshot_of_memory_does_not_follow_and_a_clone_does() {
    let mut store = MemoryStore::new();
    store.commit(vec![put(A, KeyFamily::Head, b"k", b"1")]).unwrap();
    let (snapshot, clone) = (store.snapshot(), store.clone());
    store.commit(vec![put(A, KeyFamily::Head, b"k", b"2")]).unwrap();
    assert_eq!(get(&snapshot, A, KeyFamily::Head, b"k"), Some(b"1".to_vec()));
    assert_eq!(get(&clone, A, KeyFamily::Head, b"k"), Some(b"2".to_vec()));
}

#[test]
fn rocksdb_keeps_what_was_committed_and_what_was_flushed() {
    let dir = TempDir::new();
    let mut store = open(&dir);
    store.commit(vec![put(A, KeyFamily::Head, b"k", b"1")]).unwrap();
    load(&mut store, &[put(B, KeyFamily::Head, b"k", b"2")]).unwrap();
    store.flush().unwrap();
    drop(store);
    let store = open(&dir);
    assert_eq!(get(&store, A, KeyFamily::Head, b"k"), Some(b"1".to_vec()));
    assert_eq!(get(&store, B, KeyFamily::Head, b"k"), Some(b"2".to_vec()));
}

#[test]
fn after_a_kill_commits_are_there_and_unflushed_loads_are_not() {
    let dir = TempDir::new();
    let mut store = open(&dir);
    store.commit(vec![put(A, KeyFamily::Head, b"k", b"1")]).unwrap();
    load(&mut store, &[put(B, KeyFamily::Head, b"k", b"2")]).unwrap();
    // What a kill leaves: the files as the kernel has them, without a close.
    let left = TempDir::copy_of(dir.path());
    let after = open(&left);
    assert_eq!(get(&after, A, KeyFamily::Head, b"k"), Some(b"1".to_vec()));
    assert_eq!(get(&after, B, KeyFamily::Head, b"k"), None);
    store.flush().unwrap();
    let left = TempDir::copy_of(dir.path());
    assert_eq!(get(&open(&left), B, KeyFamily::Head, b"k"), Some(b"2".to_vec()));
}

#[test]
fn a_torn_end_of_the_write_ahead_log_costs_only_the_end() {
    let dir = TempDir::new();
    let mut store = open(&dir);
    for n in 0..100u8 {
        store.commit(vec![put(A, KeyFamily::Head, b"last", &[n]), put(A, KeyFamily::Page, &[n], &[n; 100])]).unwrap();
    }
    for cut in [1u64, 50, 500, 5_000] {
        let left = TempDir::copy_of(dir.path());
        let logs = std::fs::read_dir(left.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|x| x == "log"));
        let log = logs.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
        file.set_len(file.metadata().unwrap().len() - cut).unwrap();
        let store = open(&left);
        let last = get(&store, A, KeyFamily::Head, b"last").unwrap()[0];
        assert!(last < 99, "the cut took nothing away");
        let steps = keys(&store, A, KeyFamily::Page, b"", b"");
        assert_eq!(steps, (0..=last).map(|n| vec![n]).collect::<Vec<_>>(), "a prefix of the batches, each whole");
    }
}

#[test]
fn one_batch_writes_to_all_areas_or_to_none() {
    let dir = TempDir::new();
    let store = open(&dir);
    let mut batch = store.batch();
    batch.put(Area::Events, b"e", b"1");
    batch.put(Area::Outputs, b"o", b"2");
    batch.change(&put(A, KeyFamily::Head, b"k", b"3"));
    let mut dropped = store.batch();
    dropped.put(Area::Events, b"x", b"1");
    drop(dropped);
    store.write(batch).unwrap();
    assert_eq!(store.get_raw(Area::Events, b"e").unwrap(), Some(b"1".to_vec()));
    assert_eq!(store.get_raw(Area::Events, b"x").unwrap(), None);
    assert_eq!(store.get_raw(Area::Outputs, b"o").unwrap(), Some(b"2".to_vec()));
    assert_eq!(store.get_raw(Area::State, b"o").unwrap(), None);
    assert_eq!(get(&store, A, KeyFamily::Head, b"k"), Some(b"3".to_vec()));
    let stats = store.stats().unwrap();
    assert!(stats.memtable_bytes > 0 && !stats.write_stopped);
}

#[test]
fn a_second_opener_is_kept_out() {
    let dir = TempDir::new();
    let store = open(&dir);
    let error = RocksStore::open(dir.path(), &options(), &owner()).unwrap_err();
    assert!(matches!(&error, StoreError::Locked(_)), "{error}");
    drop(store);
    open(&dir);
}

#[test]
fn a_directory_of_another_instance_application_or_world_is_refused() {
    let dir = TempDir::new();
    drop(open(&dir));
    let try_as = |owner: &StoreOwner| RocksStore::open(dir.path(), &options(), owner).map(drop);
    // A host that is renamed keeps its log.
    try_as(&StoreOwner { instance: "lw-1".to_owned(), ..owner() }).unwrap();
    assert!(matches!(try_as(&StoreOwner { app: "other".to_owned(), ..owner() }), Err(StoreError::OtherOwner(_))));
    // Positions of an embedded log mean nothing to Kafka, and a cluster's nothing to another or to an embedded log.
    let cluster = |id: &str| StoreOwner { cluster: Some(id.to_owned()), ..owner() };
    assert!(matches!(try_as(&cluster("c1")), Err(StoreError::OtherOwner(_))));
    try_as(&owner()).unwrap();
    let of_kafka = TempDir::new();
    let try_as = |owner: &StoreOwner| RocksStore::open(of_kafka.path(), &options(), owner).map(drop);
    try_as(&cluster("c1")).unwrap();
    assert!(matches!(try_as(&cluster("c2")), Err(StoreError::OtherOwner(_))));
    let refused = try_as(&StoreOwner { instance: "lw-1".to_owned(), ..cluster("c1") }).unwrap_err();
    let dir_name = of_kafka.path().display();
    assert_eq!(
        refused.to_string(),
        format!("E0405: state in {dir_name} belongs to instance \"lw-0\", this is instance \"lw-1\"")
    );
    let refused = try_as(&owner()).unwrap_err().to_string();
    assert!(refused.ends_with("belongs to the Kafka cluster \"c1\", this is an embedded log"), "{refused}");
    try_as(&cluster("c1")).unwrap();
}

#[test]
fn a_directory_of_a_newer_program_is_refused() {
    let dir = TempDir::new();
    let store = open(&dir);
    let mut record = store.get_raw(Area::Meta, b"owner").unwrap().unwrap();
    record[0] += 1;
    let mut batch = store.batch();
    batch.put(Area::Meta, b"owner", &record);
    store.write(batch).unwrap();
    drop(store);
    assert!(matches!(RocksStore::open(dir.path(), &options(), &owner()), Err(StoreError::OtherFormat(_))));
}

#[test]
fn a_damaged_file_is_corruption_and_not_an_empty_store() {
    let dir = TempDir::new();
    let mut store = open(&dir);
    store.commit(vec![put(A, KeyFamily::Head, b"k", &[7; 4000])]).unwrap();
    store.flush().unwrap();
    drop(store);
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|x| x == "sst") {
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, vec![0x55; bytes.len()]).unwrap();
        }
    }
    let refused = RocksStore::open(dir.path(), &options(), &owner()).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt(_)), "{refused}");
}

#[test]
fn merging_files_removes_nothing_that_was_not_deleted() {
    const FILES: u8 = 6;
    let families: Vec<KeyFamily> = KeyFamily::ALL.into_iter().filter(|family| *family != KeyFamily::Position).collect();
    let dir = TempDir::new();
    let mut store = open(&dir);
    let mut expected = MemoryStore::new();
    for number in 0..FILES {
        // Overlapping keys of every family, old times among them: files that must be merged, and nothing that may go by itself.
        let of_family =
            |family: KeyFamily| (0..9_u8).map(move |key| put(A, family, &[0, key % 4, key, number / 2], &[number, key]));
        let mut changes: Vec<Change> = families.iter().copied().flat_map(of_family).collect();
        changes.push(delete(A, KeyFamily::Head, &[0, 1, 1, 0]));
        store.commit(changes.clone()).unwrap();
        expected.commit(changes).unwrap();
        store.flush().unwrap();
    }
    let files = || {
        let entries = std::fs::read_dir(dir.path()).unwrap().flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "sst")).count()
    };
    let patience = loopwarden::clock::Deadline::after(std::time::Duration::from_secs(60));
    while files() >= usize::from(FILES) {
        assert!(!patience.is_over(), "{} files are never merged", files());
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    drop(store);
    let store = open(&dir);
    assert_eq!(state_hash(&store, A, &families).unwrap(), state_hash(&expected, A, &families).unwrap());
    for family in families {
        assert_eq!(keys(&store, A, family, b"", b""), keys(&expected, A, family, b"", b""), "{}", family.as_str());
    }
}
