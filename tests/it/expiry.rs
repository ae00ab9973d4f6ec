//! When state ends: a session that fell silent, a task that went elsewhere.

use std::sync::Arc;

use loopwarden::config::policy::load_with_overrides;
use loopwarden::event::{EventTime, Stage};
use loopwarden::store::{Change, KeyFamily, MemoryStore, Position, RocksOptions, RocksStore, StateKey, StateStore, StoreOwner};
use loopwarden::task::{CommitTrigger, Leases, sweep};
use loopwarden_sim::MemoryTopic;
use serde_json::Value;

use crate::world::{TestWorld, config, outputs_by_task, session_task, settings};
use crate::{golden::RULES, store::temp_dir::TempDir};

const START_MS: i64 = 1_795_291_200_000;
const DAY_MS: i64 = 24 * 3_600_000;

/// A failing call of a session whose clock is `lag_ms` behind the log.
fn call(world: &TestWorld, session: &str, second: i64, lag_ms: i64) {
    let now_ms = START_MS + second * 1_000;
    let json = format!(
        r#"{{"id":"{session}{second}","session_id":"{session}","time":{},"kind":"tool","tool":"Bash","args":{{"command":"c"}},"outcome":"error","error":"boom"}}"#,
        now_ms - lag_ms
    );
    world.broker.append(session_task(0), Some(session.as_bytes()), Some(json.as_bytes()), now_ms);
}

#[test]
fn a_session_whose_clock_lags_lives_as_long_as_it_speaks_and_no_longer() {
    let mut world = TestWorld::new(config(20), settings(CommitTrigger::EveryRecords(1)));
    world.start("lw", 1);
    // Three times the 20 s after which this policy forgets.
    const LAG_MS: i64 = 60_000;
    for second in 0..40 {
        call(&world, "punctual", second, 0);
        call(&world, "slow", second, LAG_MS);
    }
    assert!(world.settle(), "{:?}", world.exits);
    world.audit();
    let forgotten = |world: &TestWorld| world.processes[0].lanes[0].as_ref().unwrap().stats().sessions_forgotten;
    assert_eq!(forgotten(&world), 0);
    let outputs = outputs_by_task(&world.broker);
    let told = outputs.values().flatten().filter(|seen| seen.key == b"slow").count();
    assert!(told >= 3, "a loop of 40 failing calls was told {told} times");
    let idle = world.broker.committed(MemoryTopic::Changelog(Stage::Session)).into_iter().filter(|record| {
        let key = StateKey::from_changelog(record.key.as_deref().unwrap()).unwrap();
        key.family == KeyFamily::Timer && key.bytes.ends_with(b"slow\x1fmain") && key.bytes[8] == 1 && record.value.is_some()
    });
    // It moves, but not with each event.
    let moves = idle.count();
    assert!((2..=30).contains(&moves), "the idle timer was written {moves} times");

    for second in 40..60 {
        call(&world, "punctual", second, 0);
    }
    assert!(world.settle());
    assert_eq!(forgotten(&world), 0, "it was silent for less than 20 s");
    for second in 60..65 {
        call(&world, "punctual", second, 0);
    }
    assert!(world.settle());
    assert_eq!(forgotten(&world), 1);
    world.audit();
}

#[test]
fn a_refusal_of_a_session_whose_clock_lags_is_in_force_when_it_is_issued() {
    let mut world = TestWorld::new(config(20), settings(CommitTrigger::EveryRecords(1)));
    let overrides: toml::Table = "only = ['call_rate']".parse().unwrap();
    world.policy = Arc::new(load_with_overrides(RULES, &overrides).unwrap());
    world.start("lw", 1);
    for second in 0..21 {
        call(&world, "slow", second, 300_000);
    }
    assert!(world.settle(), "{:?}", world.exits);
    let outputs = outputs_by_task(&world.broker);
    let commands = outputs.values().flatten().filter_map(|seen| serde_json::from_slice::<Value>(seen.value.as_deref()?).ok());
    let blocks: Vec<Value> = commands.filter(|json| json["action"] == "block").collect();
    assert_eq!(blocks.len(), 1);
    let time = |field: &str| EventTime::parse_rfc3339(blocks[0][field].as_str().unwrap()).unwrap().0;
    assert_eq!(time("issued_at"), START_MS + 20_000);
    // The oldest of the twenty that count is a minute old 40 s later.
    assert_eq!(time("expires_at") - time("issued_at"), 40_000);
}

fn fill(store: &mut impl StateStore, partition: u32, at_end_ms: Option<i64>) {
    let task = session_task(partition);
    let mut changes = vec![Change { task, key: StateKey::new(KeyFamily::Head, b"s".to_vec()), value: Some(b"v".to_vec()) }];
    if let Some(at_end_ms) = at_end_ms {
        let position = Position { at_end_ms, ..Position::default() };
        changes.push(Change { task, key: StateKey::position(), value: Some(position.encode_for_store().unwrap()) });
    }
    store.commit(changes).unwrap();
}

/// Released state stays until a restore would not trust it; what somebody holds stays in any case.
fn released_state_goes(store: &mut impl StateStore) {
    let now_ms = START_MS;
    // Held and old; released and fresh; released and just not too old; released and too old; half wiped.
    fill(store, 0, Some(now_ms - 9 * DAY_MS));
    fill(store, 1, Some(now_ms - 1));
    fill(store, 2, Some(now_ms - 3 * DAY_MS + 3_600_000));
    fill(store, 3, Some(now_ms - 3 * DAY_MS + 3_599_999));
    fill(store, 4, None);
    let leases = Leases::new();
    let held = leases.take(session_task(0)).unwrap();
    let removed = sweep(store, &leases, now_ms, 3 * DAY_MS).unwrap();
    assert_eq!(removed, [session_task(3), session_task(4)]);
    assert_eq!(store.tasks().unwrap(), [0, 1, 2].map(session_task));
    // Nothing is held on to: a lane may have any of them now.
    assert!((1..5).all(|partition| leases.is_free(session_task(partition))));
    drop(held);
    assert_eq!(sweep(store, &leases, now_ms, 3 * DAY_MS).unwrap(), [session_task(0)]);
}

#[test]
fn released_state_stays_on_disk_until_no_restore_would_trust_it() {
    released_state_goes(&mut MemoryStore::new());
    let dir = TempDir::new();
    let owner = StoreOwner { app: "loopwarden".to_owned(), instance: "lw-0".to_owned(), cluster: None };
    released_state_goes(&mut RocksStore::open(dir.path(), &RocksOptions::default(), &owner).unwrap());
}

#[test]
fn many_timers_that_one_record_makes_due_are_cut_into_commits() {
    const SESSIONS: i64 = 5_000;
    let mut world = TestWorld::new(config(10_000), settings(CommitTrigger::Timed { max_ms: 100, min_ms: 5 }));
    for number in 0..SESSIONS {
        call(&world, &format!("s{number}"), 0, 0);
    }
    world.start("lw", 1);
    assert!(world.settle(), "{:?}", world.exits);
    let stats = |world: &TestWorld| world.processes[0].lanes[0].as_ref().unwrap().stats();
    let before = stats(&world);
    call(&world, "late", 3_600, 0);
    assert!(world.settle(), "{:?}", world.exits);
    let after = stats(&world);
    assert_eq!(after.sessions_forgotten - before.sessions_forgotten, SESSIONS as u64);
    assert_eq!(after.transactions[0] - before.transactions[0], 2);
    world.audit();
}
