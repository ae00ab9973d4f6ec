//! The swarm stage through the whole pipeline: events in many partitions, sums, one answer, whatever is cut, killed or late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loopwarden::engine::{IdentityRecipe, SwarmCallKey, SwarmEntry, SwarmReport, SwarmReset};
use loopwarden::event::{EventTime, Stage, TaskId, partition_of};
use loopwarden::identity::{Hash128, hash_text};
use loopwarden::store::report::{SwarmRecord, report_key, reset_key};
use loopwarden::store::{KeyFamily, ScanFlow, StateKey, StateStore, read, swarm};
use loopwarden::task::{CommitTrigger, LaneSettings, Stats};
use loopwarden::{config::policy::load_with_overrides, log::Partitions, policy::Policy};
use loopwarden_sim::{MemoryConfig, MemoryTopic};
use serde_json::Value;

use crate::cuts::{random_turn, whole_and_cut};
use crate::swarm_cases::SWARM_CASES;
use crate::world::{Dice, TestStore, TestWorld, header, session_task, settings};

pub(crate) const TIMED: CommitTrigger = CommitTrigger::Timed { max_ms: 100, min_ms: 2 };
/// A whole hour: panes, windows and periods begin here.
pub(crate) const START_MS: i64 = 1_795_291_200_000;
pub(crate) const MINUTE_MS: i64 = 60_000;

pub(crate) fn policy(profile: &str, overrides: &str) -> Arc<Policy> {
    let overrides: toml::Table = overrides.parse().unwrap();
    Arc::new(load_with_overrides(profile, &overrides).unwrap())
}

pub(crate) fn swarm_task(partition: u32) -> TaskId {
    TaskId { stage: Stage::Swarm, partition }
}

pub(crate) fn world(partitions: (u32, u32), policy: Arc<Policy>, settings: LaneSettings) -> TestWorld {
    let (session, swarm) = partitions;
    let partitions = Partitions { session, swarm };
    let config = MemoryConfig { partitions, poll_records_max: 20, ..MemoryConfig::default() };
    let mut world = TestWorld::new(config, settings);
    world.policy = policy;
    world
}

pub(crate) fn feed(world: &TestWorld, session: &str, json: &str, time_ms: i64) {
    let sessions = world.tasks.iter().filter(|task| task.stage == Stage::Session).count() as u32;
    let partition = partition_of(session.as_bytes(), sessions);
    world.broker.append(session_task(partition), Some(session.as_bytes()), Some(json.as_bytes()), time_ms);
}

/// A call that fails, of a session that is its only agent.
pub(crate) fn failing(session: &str, id: usize, swarm: &str, url: &str, time_ms: i64) -> String {
    format!(
        r#"{{"id":"{session}-{id}","session_id":"{session}","swarm_id":"{swarm}","time":{time_ms},"kind":"tool","tool":"fetch","args":{{"url":"{url}"}},"outcome":"error","error":"timed out"}}"#
    )
}

/// Commands of the swarm stage: id and JSON, as a committed reader sees them.
pub(crate) fn told(world: &TestWorld) -> Vec<(String, Value)> {
    let commands = world.broker.committed(MemoryTopic::Commands).into_iter();
    let of_swarm = commands.filter(|record| header(record, "lw_task").unwrap().starts_with("swarm/"));
    of_swarm.map(|record| (header(&record, "ce_id").unwrap(), serde_json::from_slice(&record.value.unwrap()).unwrap())).collect()
}

pub(crate) fn ids(world: &TestWorld) -> BTreeSet<String> {
    let told = told(world);
    let ids: BTreeSet<String> = told.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(ids.len(), told.len(), "an id twice");
    ids
}

fn evidence(command: &Value, name: &str) -> u64 {
    command["reason"]["evidence"][name].as_u64().unwrap()
}

pub(crate) fn stats(world: &TestWorld) -> Stats {
    let mut sum = Stats::default();
    for lane in world.processes.iter().flat_map(|process| process.lanes.iter().flatten()) {
        sum.add(&lane.stats());
    }
    sum
}

pub(crate) fn settle(world: &mut TestWorld) {
    assert!(world.settle(), "not settled: {:?}", world.exits);
    world.audit();
}

/// Records of a family in a task's store.
pub(crate) fn records(store: &impl StateStore, task: TaskId, family: KeyFamily) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    store
        .scan(task, family, &[], &[], &mut |key, value| {
            found.insert(key.to_vec(), value.to_vec());
            ScanFlow::Continue(())
        })
        .unwrap();
    found
}

#[test]
fn attocodes_global_cases_are_answered_by_the_whole_pipeline() {
    for case in SWARM_CASES {
        for trigger in [TIMED, CommitTrigger::EveryRecords(1)] {
            let overrides = format!("[detectors.swarm_repeat]\nthreshold = {}\n", case.threshold);
            let mut world = world((4, 4), policy("attocode", &overrides), settings(trigger));
            for name in ["a", "b"] {
                world.start(name, 2);
            }
            settle(&mut world);
            for number in 0..case.acts.len() {
                match case.event(number, START_MS) {
                    Some((session, json, time_ms)) => feed(&world, &session, &json, time_ms),
                    None => {
                        settle(&mut world);
                        (0..2).for_each(|at| world.restart(at));
                    }
                }
                // attocode checks at each call: so does this world, or two steps would be one crossing.
                settle(&mut world);
            }
            let mut commands = told(&world);
            commands.sort_by_key(|(_, command)| command["seq"].as_u64());
            let sums: Vec<(u64, u64)> =
                commands.iter().map(|(_, command)| (evidence(command, "count"), evidence(command, "workers"))).collect();
            assert_eq!(sums, case.told, "{}", case.name);
            for (_, command) in &commands {
                assert!(command["message"].as_str().unwrap().contains("GLOBAL DOOM LOOP"), "{}", case.name);
                assert_eq!((&command["scope"]["kind"], &command["swarm_id"]), (&"swarm".into(), &case.name.into()));
            }
            let agents: Vec<String> = world
                .broker
                .committed(MemoryTopic::Commands)
                .iter()
                .filter(|record| header(record, "lw_task").unwrap().starts_with("session/"))
                .map(|record| String::from_utf8(record.key.clone().unwrap()).unwrap())
                .collect();
            let expected: Vec<String> = case.told_agents.iter().map(|worker| format!("{}-{worker}", case.name)).collect();
            assert_eq!(agents, expected, "{}", case.name);
        }
    }
}

/// Fifty sessions that make one identical failing call each.
fn fifty(lanes: usize, kills: u64) -> (TestWorld, BTreeSet<String>) {
    let dice = Dice::new(lanes as u64 * 1_000 + kills);
    let mut world = world((12, 5), policy("default", ""), settings(TIMED));
    world.start("a", lanes.div_ceil(2));
    if lanes > 1 {
        world.start("b", lanes / 2);
    }
    let processes = world.processes.len() as u64;
    for number in 0..50 {
        let session = format!("s{number}");
        let time_ms = START_MS + number * 700;
        feed(&world, &session, &failing(&session, 0, "w", "http://dead", time_ms), time_ms);
        for _ in 0..dice.below(6) {
            random_turn(&mut world, &dice, 40);
        }
        if kills > 0 && number % 10 == 5 {
            let at = dice.below(processes) as usize;
            world.restart(at);
        }
    }
    settle(&mut world);
    let ids = ids(&world);
    (world, ids)
}

#[test]
fn fifty_sessions_with_one_failing_call_are_one_command_with_one_id_in_twenty_runs() {
    let mut seen = BTreeSet::new();
    for run in 0..20 {
        let (world, ids) = fifty(1 + run as usize % 8, run / 8);
        assert_eq!(ids.len(), 1, "run {run}: {:?}", told(&world));
        seen.extend(ids);
    }
    assert_eq!(seen.len(), 1);
}

#[test]
fn the_command_says_how_many_and_the_row_what_is_in_force() {
    let (world, _) = fifty(2, 0);
    let (_, command) = &told(&world)[0];
    assert!(evidence(command, "count") >= 10 && evidence(command, "workers") >= 2);
    assert_eq!((evidence(command, "calls_at_least"), evidence(command, "workers_at_least")), (10, 2));
    assert_eq!((&command["epoch"], &command["seq"]), (&START_MS.into(), &1.into()));
    assert!(command.get("session_id").is_none());
    let rows = world.broker.committed(MemoryTopic::State);
    let rows: Vec<_> = rows.iter().filter(|row| row.key.as_ref().unwrap().starts_with(b"swarm\x1f\x1fw\x1f")).collect();
    assert_eq!(rows.len(), 1);
    let row: Value = serde_json::from_slice(rows[0].value.as_ref().unwrap()).unwrap();
    assert_eq!(row["active"][0]["command_id"], command["id"]);
    assert_eq!((&row["epoch"], &row["seq"], &row["status"]), (&command["epoch"], &1.into(), &"nudged".into()));
    assert_eq!(row["subject"]["kind"], "swarm");
}

#[test]
fn fifty_readers_of_one_file_who_get_on_are_told_nothing() {
    let mut world = world((12, 5), policy("default", ""), settings(TIMED));
    world.start("a", 3);
    let mut time_ms = START_MS;
    for session in (0..50).map(|number| format!("s{number}")) {
        for (id, path) in ["README.md", "src/a.rs", "src/b.rs", "README.md"].iter().enumerate() {
            time_ms += 100;
            let json = format!(
                r#"{{"id":"{session}-{id}","session_id":"{session}","swarm_id":"w","time":{time_ms},"kind":"tool","tool":"read_file","args":{{"path":"{path}","page":{id}}},"result":"text of {path} page {id}"}}"#
            );
            feed(&world, &session, &json, time_ms);
        }
    }
    settle(&mut world);
    assert_eq!(told(&world), []);
}

#[test]
fn one_worker_alone_is_never_the_swarms_business() {
    let mut world = world((3, 2), policy("default", ""), settings(TIMED));
    world.start("a", 1);
    for id in 0..60 {
        let time_ms = START_MS + id as i64 * 500;
        feed(&world, "s", &failing("s", id, "w", "http://dead", time_ms), time_ms);
    }
    settle(&mut world);
    assert!(stats(&world).swarm_reports > 0);
    assert_eq!(told(&world), []);
}

/// Calls of a small fleet over most of an hour: swarms, fingerprints, agents, one partition far behind.
fn calls(seed: u64, count: usize) -> Vec<(String, String, i64)> {
    let dice = Dice::new(seed);
    (0..count)
        .map(|number| {
            let session = format!("s{}", dice.below(25));
            let time_ms = START_MS + number as i64 * (50 * MINUTE_MS / count as i64);
            let url = format!("http://dead{}", dice.below(3));
            let json = failing(&session, number, &format!("w{}", dice.below(2)), &url, time_ms);
            (session, json, time_ms)
        })
        .collect()
}

#[test]
fn what_a_swarm_is_told_depends_on_no_cut_no_lag_and_no_fault() {
    for seed in 0..25 {
        let dice = Dice::new(seed ^ 0xcafe);
        let calls = calls(seed, 300);
        let policy = policy("default", "[detectors.swarm_repeat]\nmode = \"block\"\nthreshold = 8\nblock_at = 20\n");
        let (expected, world) = whole_and_cut(seed, &dice, &policy, &calls);
        assert!(!ids(&expected).is_empty());
        assert_eq!(ids(&world), ids(&expected), "seed {seed}");
        assert_eq!(sums(&world), sums(&expected), "seed {seed}");
        assert_eq!(sums(&world).values().sum::<u32>(), 300, "seed {seed}");
        assert_eq!(stats(&world).swarm_late, 0);
    }
}

/// Calls by counter, pane and session, as the stores hold them.
fn sums(world: &TestWorld) -> BTreeMap<(Vec<u8>, i64, String), u32> {
    let mut sums = BTreeMap::new();
    for task in world.tasks.iter().copied().filter(|task| task.stage == Stage::Swarm) {
        let store = world.store_of(task);
        for key in records(store, task, KeyFamily::SwarmCounter).into_keys() {
            for (start, pane) in swarm::load(store, task, &key).unwrap().unwrap().counter.panes {
                assert_eq!(pane.further_calls, 0);
                for ((session, _), made) in pane.agents {
                    sums.insert((key.clone(), start.0, session), made.calls);
                }
            }
        }
    }
    sums
}

pub(crate) fn key(swarm_id: &str, fingerprint: u128) -> SwarmCallKey {
    SwarmCallKey::Swarm { tenant: String::new(), swarm_id: swarm_id.to_owned(), fingerprint: Hash128(fingerprint) }
}

/// Puts a report into `swarm-counts` as a lane would: one call of each agent at `time_ms`.
pub(crate) fn report(world: &TestWorld, key: &SwarmCallKey, agents: &[&str], time_ms: i64) {
    report_of(world, IdentityRecipe::Opaque, key, agents, time_ms);
}

pub(crate) fn report_of(world: &TestWorld, recipe: IdentityRecipe, key: &SwarmCallKey, agents: &[&str], time_ms: i64) {
    let entry = |agent: &&str| SwarmEntry {
        pane: EventTime(time_ms - time_ms.rem_euclid(MINUTE_MS)),
        session_id: (*agent).to_owned(),
        agent_id: "main".to_owned(),
        calls: 1,
        last: EventTime(time_ms),
    };
    let report = SwarmReport {
        tool: "fetch".to_owned(),
        recipe,
        record_time: EventTime(time_ms),
        entries: agents.iter().map(entry).collect(),
        used: None,
        spawned: None,
    };
    let key = report_key(key);
    let count = world.tasks.iter().filter(|task| task.stage == Stage::Swarm).count() as u32;
    let value = SwarmRecord::Report(report).encode().unwrap();
    world.broker.append(swarm_task(partition_of(&key, count)), Some(&key), Some(&value), time_ms);
}

pub(crate) fn reset(world: &TestWorld, partition: u32, swarm_id: &str, time_ms: i64) {
    let reset = SwarmReset { tenant: String::new(), swarm_id: swarm_id.to_owned(), time: EventTime(time_ms) };
    let value = SwarmRecord::Reset(reset.time).encode().unwrap();
    // A broker stamps these records by itself, here a week later.
    world.broker.append(swarm_task(partition), Some(&reset_key(&reset)), Some(&value), time_ms + 7 * 24 * 60 * MINUTE_MS);
}

pub(crate) fn direct(overrides: &str) -> TestWorld {
    world((1, 1), policy("default", overrides), settings(TIMED))
}

#[test]
fn distinct_fingerprints_do_not_grow_the_state_past_its_limit() {
    const KEYS: usize = 100_000;
    const KEYS_MAX: usize = 500;
    let mut world = direct(&format!("[detectors.swarm_repeat]\nkeys_max = {KEYS_MAX}\nthreshold = 2\n"));
    world.start("a", 1);
    settle(&mut world);
    // Told at once: worth more than those that were only seen, until its period is over.
    report(&world, &key("w", u128::MAX), &["a", "b"], START_MS);
    for number in 0..KEYS {
        report(&world, &key("w", number as u128), &["a"], START_MS + number as i64);
        if number % 10_000 == 0 {
            settle(&mut world);
        }
    }
    settle(&mut world);
    let (task, store) = (swarm_task(0), world.store_of(swarm_task(0)).clone());
    let counters = records(&store, task, KeyFamily::SwarmCounter);
    assert_eq!(counters.len(), KEYS_MAX);
    assert_eq!(records(&store, task, KeyFamily::SwarmPane).len(), KEYS_MAX);
    assert_eq!(records(&store, task, KeyFamily::SwarmSeen).len(), KEYS_MAX);
    assert_eq!(records(&store, task, KeyFamily::Timer).len(), KEYS_MAX + 1, "a timer each, and one for what was told");
    assert_eq!(read(&store, task, &[]), Ok(Some([KEYS_MAX as u64, 0, 0])));
    assert_eq!(stats(&world).limit_swarm_keys, (KEYS + 1 - KEYS_MAX) as u64);
    assert!(counters.contains_key(&report_key(&key("w", u128::MAX))), "what was told is still known");
    assert!(counters.contains_key(&report_key(&key("w", KEYS as u128 - 1))), "the last seen stays");
    assert!(!counters.contains_key(&report_key(&key("w", 0))), "the longest unseen goes");
    // Seen again within its period: not told again.
    report(&world, &key("w", u128::MAX), &["c"], START_MS + 150_000);
    settle(&mut world);
    assert_eq!(ids(&world).len(), 1);
}

#[test]
fn a_task_full_of_what_never_ends_still_hears_of_what_is_new() {
    for (overrides, resets) in [("window_ms = 0\n", 8), ("window_ms = 0\n", 0), ("cooldown_ms = 0\n", 8)] {
        let mut world = direct(&format!("[detectors.swarm_repeat]\nkeys_max = 5\nthreshold = 2\n{overrides}"));
        world.start("a", 1);
        settle(&mut world);
        // Floors, or counters that have told something: each of them stands for ever, if nobody needs its place.
        for number in 0..8 {
            let time_ms = START_MS + i64::from(number) * MINUTE_MS;
            if resets > 0 {
                reset(&world, 0, &format!("ended-{number}"), time_ms);
            } else {
                report(&world, &key("w", 1_000 + u128::from(number as u32)), &["a", "b"], time_ms);
            }
        }
        settle(&mut world);
        let before = ids(&world).len();
        for agent in ["a", "b"] {
            report(&world, &key("w", 1), &[agent], START_MS + 10 * MINUTE_MS);
            settle(&mut world);
        }
        assert_eq!(ids(&world).len(), before + 1, "{overrides}: {resets} resets");
        assert!(stats(&world).limit_swarm_keys > 0);
    }
}

#[test]
fn a_counter_holds_so_many_agents_and_counts_the_calls_of_the_others() {
    let mut world = direct("[detectors.swarm_repeat]\nworkers_max = 4\nthreshold = 8\n");
    world.start("a", 1);
    for number in 0..8 {
        report(&world, &key("w", 1), &[&format!("s{number}")], START_MS + number);
    }
    settle(&mut world);
    let (_, command) = &told(&world)[0];
    assert_eq!((evidence(command, "count"), evidence(command, "workers")), (8, 4));
    assert_eq!(stats(&world).limit_swarm_workers, 4);
}

#[test]
fn a_reset_forgets_a_swarm_in_every_partition_and_nothing_else() {
    let mut world = world((4, 3), policy("default", "[detectors.swarm_repeat]\nthreshold = 4\n"), settings(TIMED));
    world.start("a", 2);
    let url = |number: usize| format!("http://dead{number}");
    let mut id = 0;
    let mut call = |world: &TestWorld, session: &str, swarm: &str, number: usize, time_ms: i64| {
        id += 1;
        feed(world, session, &failing(session, id, swarm, &url(number), time_ms), time_ms);
    };
    // Twelve fingerprints lie in all three partitions; each gets three of the four calls it would take.
    for number in 0..12 {
        for session in ["a", "b", "c"] {
            for swarm in ["w", "other"] {
                call(&world, &format!("{session}{swarm}"), swarm, number, START_MS + number as i64);
            }
        }
    }
    settle(&mut world);
    assert_eq!(told(&world), []);
    let time_ms = START_MS + 10_000;
    let json = format!(r#"{{"id":"r","session_id":"aw","swarm_id":"w","time":{time_ms},"kind":"reset","scope":"swarm"}}"#);
    feed(&world, "aw", &json, time_ms);
    settle(&mut world);
    let resets = world.broker.committed(MemoryTopic::Input(Stage::Swarm)).into_iter();
    let resets: Vec<u32> =
        resets.filter(|record| record.key.as_deref() == Some(b"\x1fw\x1f")).map(|record| record.partition).collect();
    assert_eq!(resets, [0, 1, 2]);
    let left: BTreeSet<Vec<u8>> = sums(&world).into_keys().map(|(key, ..)| key).collect();
    assert!(left.iter().all(|key| key.starts_with(b"\x1fother\x1f")), "only the other swarm's");
    assert_eq!(left.len(), 12);
    // The fourth call: of the swarm that was reset it is the first.
    for number in 0..12 {
        for swarm in ["w", "other"] {
            call(&world, &format!("d{swarm}"), swarm, number, time_ms + 1_000);
        }
    }
    // A fingerprint that nobody had before; its calls from before the reset come after it.
    for session in ["a", "b", "c", "e"] {
        call(&world, &format!("late-{session}w"), "w", 99, START_MS + 5_000);
    }
    settle(&mut world);
    let told = told(&world);
    assert_eq!(told.len(), 12);
    assert!(told.iter().all(|(_, command)| command["swarm_id"] == "other"));
    assert_eq!(sums(&world).keys().filter(|(key, ..)| key.starts_with(b"\x1fw\x1f")).count(), 12);
}

#[test]
fn a_pane_of_many_agents_with_long_names_still_fits_into_one_record() {
    let mut world = direct("[detectors.swarm_repeat]\nworkers_max = 8192\nthreshold = 2000\nblock_at = 4000\n");
    world.start("a", 1);
    // The longest names: 256 characters of four bytes. Some agents are seen twice, in a report of their own.
    let names: Vec<String> = (0..1_500).map(|number| format!("{number:06}{}", "\u{1f980}".repeat(250))).collect();
    for (at, some) in names.chunks(100).enumerate() {
        let agents: Vec<&str> = some.iter().map(String::as_str).collect();
        report(&world, &key("w", 1), &agents, START_MS + at as i64);
    }
    let again: Vec<&str> = names.iter().take(500).map(String::as_str).collect();
    report(&world, &key("w", 1), &again, START_MS + 100);
    settle(&mut world);
    let panes = records(world.store_of(swarm_task(0)), swarm_task(0), KeyFamily::SwarmPane);
    let bytes = panes.values().map(Vec::len).max().unwrap();
    assert!((700_000..900_000).contains(&bytes), "{bytes}");
    // All calls count, and the agents that had a place keep it.
    let (_, command) = &told(&world)[0];
    assert_eq!(evidence(command, "count"), 2_000);
    let held = evidence(command, "workers");
    assert!((700..800).contains(&held), "{held}");
    assert_eq!(stats(&world).limit_swarm_workers, 1_500 - held);
}

#[test]
fn after_a_reset_the_same_step_is_told_again_under_another_id_and_the_row_ends() {
    let mut world = direct("[detectors.swarm_repeat]\nthreshold = 2\n");
    world.start("a", 1);
    report(&world, &key("w", 1), &["a", "b"], START_MS + 1_000);
    settle(&mut world);
    reset(&world, 0, "w", START_MS + 2_000);
    settle(&mut world);
    let rows = world.broker.committed(MemoryTopic::State);
    assert_eq!(rows.iter().map(|row| row.value.is_some()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(rows[1].timestamp_ms, START_MS + 2_000, "the time of the reset, not of its record");
    assert_eq!(records(world.store_of(swarm_task(0)), swarm_task(0), KeyFamily::SwarmCounter).len(), 0);
    // What was counted before, sent again by a lane that lagged: no.
    report(&world, &key("w", 1), &["a", "b"], START_MS + 2_000);
    settle(&mut world);
    assert_eq!(ids(&world).len(), 1);
    report(&world, &key("w", 1), &["a", "b"], START_MS + 3_000);
    settle(&mut world);
    let told = told(&world);
    assert_eq!(ids(&world).len(), 2);
    assert_eq!(told[1].1["epoch"], START_MS + 2_000);
}

#[test]
fn a_reset_of_many_counters_is_cut_into_commits_and_ends_the_same() {
    let state = |bytes_max: usize| {
        let settings = LaneSettings { overlay_bytes_max: bytes_max, cache_bytes_max: 1, ..settings(TIMED) };
        let mut world = world((1, 1), policy("default", "[detectors.swarm_repeat]\nthreshold = 2\n"), settings);
        world.start("a", 1);
        for number in 0..40 {
            let agents: &[&str] = if number % 3 == 0 { &["a", "b"] } else { &["a"] };
            report(&world, &key(if number % 2 == 0 { "w" } else { "v" }, number), agents, START_MS + number as i64);
        }
        settle(&mut world);
        // Calls behind the floor keep their counters; all others go.
        report(&world, &key("w", 0), &["z"], START_MS + 5_000);
        reset(&world, 0, "w", START_MS + 1_000);
        reset(&world, 0, "w", START_MS + 500);
        settle(&mut world);
        let task = swarm_task(0);
        let families = [KeyFamily::SwarmCounter, KeyFamily::SwarmPane, KeyFamily::Swarm, KeyFamily::SwarmSeen, KeyFamily::Timer];
        let hash = loopwarden::store::state_hash(world.store_of(task), task, &families).unwrap();
        let commits = stats(&world).transactions[0];
        (hash, ids(&world), records(world.store_of(task), task, KeyFamily::SwarmCounter).len(), commits)
    };
    let (whole, cut) = (state(usize::MAX), state(1));
    assert!(cut.3 > whole.3 + 10, "{} {}", cut.3, whole.3);
    assert_eq!((&whole.0, &whole.1, whole.2), (&cut.0, &cut.1, cut.2));
    assert_eq!(whole.2, 21);
}

#[test]
fn a_call_whose_pane_is_gone_is_counted_as_late_and_tells_nothing_twice() {
    let mut world = direct("[detectors.swarm_repeat]\nthreshold = 4\n");
    world.start("a", 1);
    // A period is ten minutes; its first pane crosses.
    report(&world, &key("w", 1), &["a", "b", "c", "d"], START_MS);
    settle(&mut world);
    assert_eq!(ids(&world).len(), 1);
    let task = swarm_task(0);
    // Another fingerprint moves the time on: the first pane is gone, the fourth of the same period would not be.
    report(&world, &key("w", 2), &["a"], START_MS + 62 * MINUTE_MS);
    settle(&mut world);
    let counter = swarm::load(world.store_of(task), task, &report_key(&key("w", 1))).unwrap().unwrap().counter;
    assert_eq!((counter.panes.len(), counter.periods.len()), (0, 1), "what it told is known as long as its period takes calls");
    report(&world, &key("w", 1), &["e", "f", "g", "h"], START_MS);
    report(&world, &key("w", 1), &["e", "f", "g", "h"], START_MS + 3 * MINUTE_MS);
    settle(&mut world);
    assert_eq!(ids(&world).len(), 1);
    assert_eq!(stats(&world).swarm_late, 4);
    // When nothing of the period can come any more, nothing is left of it.
    report(&world, &key("w", 2), &["a"], START_MS + 80 * MINUTE_MS);
    settle(&mut world);
    assert!(swarm::load(world.store_of(task), task, &report_key(&key("w", 1))).unwrap().is_none());
}

#[test]
fn a_quiet_swarm_leaves_nothing_behind() {
    let mut world = direct("[detectors.swarm_repeat]\nthreshold = 2\n");
    world.start("a", 1);
    for number in 0..30 {
        report(&world, &key(&format!("w{}", number % 3), number), &["a", "b"], START_MS + number as i64 * 1_000);
    }
    for swarm in ["w0", "w1", "never-seen"] {
        reset(&world, 0, swarm, START_MS + 20_000);
    }
    settle(&mut world);
    let task = swarm_task(0);
    assert!(records(world.store_of(task), task, KeyFamily::Swarm).len() == 4);
    // A day later somebody else calls once.
    report(&world, &key("x", 1), &["a"], START_MS + 24 * 60 * MINUTE_MS);
    settle(&mut world);
    let store = world.store_of(task);
    for (family, left) in [
        (KeyFamily::SwarmCounter, 1),
        (KeyFamily::SwarmPane, 1),
        (KeyFamily::SwarmSeen, 1),
        (KeyFamily::Timer, 1),
        (KeyFamily::Swarm, 1),
    ] {
        assert_eq!(records(store, task, family).len(), left, "{family:?}");
    }
    assert_eq!(read(store, task, &[]), Ok(Some([1, 0, 0])));
    let rows = world.broker.committed(MemoryTopic::State);
    let last: BTreeMap<_, _> = rows.into_iter().map(|row| (row.key.unwrap(), row.value)).collect();
    assert!(!last.is_empty() && last.values().all(Option::is_none), "every row has ended");
}

#[test]
fn a_new_host_goes_on_from_the_changelog() {
    let mut world = world((4, 3), policy("default", ""), settings(TIMED));
    world.start("a", 2);
    for number in 0..9 {
        let session = format!("s{number}");
        feed(&world, &session, &failing(&session, 0, "w", "http://dead", START_MS), START_MS);
    }
    settle(&mut world);
    assert_eq!(told(&world), []);
    world.kill(0);
    world.processes[0].store = TestStore::default();
    world.restart(0);
    feed(&world, "s9", &failing("s9", 0, "w", "http://dead", START_MS), START_MS);
    settle(&mut world);
    let told = told(&world);
    assert_eq!(told.len(), 1);
    assert_eq!((evidence(&told[0].1, "count"), evidence(&told[0].1, "workers")), (10, 10));
}

#[test]
fn the_fleet_may_start_one_definition_so_often_and_no_more() {
    let overrides = "[detectors.fleet_rate]\nmode = \"block\"\nlimit = 5\nwindow_ms = 300000\nkeys_max = 3\n";
    let mut world = world((4, 3), policy("default", overrides), settings(TIMED));
    world.start("a", 2);
    // Sessions without a swarm, spread over the partitions; the sixth start in the window is one too many.
    for number in 0..9 {
        let session = format!("s{number}");
        let time_ms = START_MS + number * 1_000;
        let json = format!(
            r#"{{"id":"{session}","session_id":"{session}","time":{time_ms},"kind":"tool","tool":"dispatch","args":{{"definition":"d"}},"result":"started {number}"}}"#
        );
        feed(&world, &session, &json, time_ms);
    }
    settle(&mut world);
    let told = told(&world);
    assert_eq!(told.len(), 1, "{told:?}");
    let command = &told[0].1;
    assert_eq!((&command["action"], &command["scope"]["kind"]), (&"block".into(), &"tenant".into()));
    assert_eq!(command["reason"]["code"], "fleet_rate");
    assert!(command["message"].as_str().unwrap().contains("CIRCUIT BREAKER"));
    let fingerprint = command["scope"]["fingerprint"].as_str().unwrap();
    let rows = world.broker.committed(MemoryTopic::State);
    let key = format!("fleet\u{1f}\u{1f}{fingerprint}").into_bytes();
    assert!(rows.iter().any(|row| row.key.as_deref() == Some(&key) && row.value.is_some()));
}

#[test]
fn a_worker_makes_a_definition_of_the_fleet_out_by_the_rules_of_its_tool() {
    let overrides = "[detectors.fleet_rate]\nmode = \"block\"\nlimit = 5\nwindow_ms = 300000\nkey = \"args\"\n";
    let mut world = world((4, 3), policy("default", overrides), settings(TIMED));
    world.start("a", 2);
    // Of `Task` the policy ignores the description: nine briefs are one.
    for number in 0..9 {
        let (session, time_ms) = (format!("s{number}"), START_MS + number * 1_000);
        let json = format!(
            r#"{{"id":"{session}","session_id":"{session}","time":{time_ms},"kind":"tool","tool":"Task","args":{{"prompt":"p","description":"{number}"}},"result":"started {number}"}}"#
        );
        feed(&world, &session, &json, time_ms);
    }
    settle(&mut world);
    let told = told(&world);
    assert_eq!(told.len(), 1, "{told:?}");
    let scope = &told[0].1["scope"];
    assert_eq!(scope["identity"], serde_json::json!({ "kind": "args", "args_ignored": ["description"] }));
    assert_eq!(scope["fingerprint"], hash_text(r#"{"prompt":"p"}"#).hash128().to_string());
}

#[test]
fn a_worker_makes_the_fingerprint_out_by_the_published_recipe() {
    for (args, kind, text) in [
        (r#"{"url":"u","page":2,"timeout":5}"#, "coarse", r#"lookup:{"page":2,"url":"u"}"#),
        (r#"{"customer":"c"}"#, "coarse", r#"lookup:{"customer":"c"}"#),
        (r#"{"customer":"c","limit":10}"#, "call", "lookup\n{\"customer\":\"c\",\"limit\":10}"),
    ] {
        let mut world = world((4, 3), policy("default", ""), settings(TIMED));
        world.start("a", 2);
        for number in 0..12 {
            let session = format!("s{number}");
            let time_ms = START_MS + number * 1_000;
            let json = format!(
                r#"{{"id":"{session}","session_id":"{session}","swarm_id":"w","time":{time_ms},"kind":"tool","tool":"lookup","args":{args},"outcome":"error","error":"that is not known"}}"#
            );
            feed(&world, &session, &json, time_ms);
        }
        settle(&mut world);
        let told = told(&world);
        assert_eq!(told.len(), 1, "{told:?}");
        let scope = &told[0].1["scope"];
        assert_eq!((&scope["tool"], &scope["identity"]["kind"]), (&"lookup".into(), &kind.into()));
        assert_eq!(scope["fingerprint"], hash_text(text).hash128().to_string());
        let listed = scope["identity"]["args"].as_array().map_or(0, Vec::len);
        assert_eq!(listed > 0, kind == "coarse", "targets and modifiers");
    }
}

#[test]
fn what_is_no_report_becomes_a_dead_letter_and_the_next_report_counts() {
    let mut world = direct("[detectors.swarm_repeat]\nthreshold = 2\n");
    world.start("a", 1);
    let good = report_key(&key("w", 1));
    let report_of_none = SwarmRecord::Reset(EventTime(1)).encode().unwrap();
    for (key, value) in [
        (Some(&good[..]), Some(&b"1\xff\xff\xff\xff\xff"[..])),
        (Some(&good[..]), None),
        (None, Some(&report_of_none[..])),
        (Some(&b"\x1f\x1f"[..]), Some(&report_of_none[..])),
    ] {
        world.broker.append(swarm_task(0), key, value, START_MS);
    }
    report(&world, &key("w", 1), &["a", "b"], START_MS);
    settle(&mut world);
    let letters = world.broker.committed(MemoryTopic::DeadLetters);
    let reasons: Vec<String> = letters.iter().map(|letter| header(letter, "dlq.reason").unwrap()).collect();
    assert_eq!(reasons, ["bad_value", "null_value", "bad_value", "bad_value"]);
    assert_eq!(ids(&world).len(), 1);
}

#[test]
fn a_report_of_a_newer_program_stops_this_one() {
    let mut world = direct("");
    world.restarts = false;
    world.start("a", 1);
    world.broker.append(swarm_task(0), Some(&report_key(&key("w", 1))), Some(b"2whatever"), START_MS);
    world.settle();
    assert!(world.exits.iter().any(|exit| exit.to_string().starts_with("E0402")), "{:?}", world.exits);
}

#[test]
fn a_position_of_the_swarm_stage_stands_with_its_state() {
    let (world, _) = fifty(3, 0);
    for task in world.tasks.iter().filter(|task| task.stage == Stage::Swarm) {
        assert!(world.store_of(*task).get(*task, &StateKey::position()).unwrap().is_some());
    }
}

/// Events of fifty sessions with one failing call each in two swarms, of which one is reset, and loops again.
fn replayed() -> Vec<(String, String, i64)> {
    let mut events = Vec::new();
    for number in 0..50 {
        let session = format!("s{number}");
        let time_ms = START_MS + number * 700;
        events.push((session.clone(), failing(&session, 0, "w", "http://dead", time_ms), time_ms));
        events.push((session.clone(), failing(&session, 1, "done", "http://gone", time_ms), time_ms));
    }
    let time_ms = START_MS + 40_000;
    events.push((
        "s0".to_owned(),
        format!(r#"{{"id":"r","session_id":"s0","swarm_id":"done","time":{time_ms},"kind":"reset","scope":"swarm"}}"#),
        time_ms,
    ));
    for number in 0..12 {
        let session = format!("s{number}");
        let time_ms = START_MS + 41_000 + number;
        events.push((session.clone(), failing(&session, 2, "done", "http://gone", time_ms), time_ms));
    }
    events
}

/// Ids of a replay with so many lanes, in its own order.
pub(crate) fn replay(path: &std::path::Path, lanes: u32, cut: u64) -> Vec<String> {
    use loopwarden::log::file::{FileInput, FileOptions, Published, RecordedInput};
    let options = FileOptions { lanes, ..FileOptions::default() };
    let input = RecordedInput::open(vec![FileInput::Path(path.to_owned())], &options).unwrap();
    let settings = Arc::new(settings(CommitTrigger::EveryRecords(cut)));
    let (collected, _) = crate::log::file::published(&input, lanes as usize, ("loopwarden", &policy("default", "")), &settings);
    let commands = collected.into_iter().filter(|of| of.task.stage == Stage::Swarm);
    let ids = commands.filter_map(|of| match of.published {
        Published::Command(command, _) => Some(loopwarden::identity::base32(&command.id.0)),
        Published::DeadLetter(_) => None,
    });
    ids.collect()
}

#[test]
fn a_replay_tells_swarms_the_same_whatever_its_lanes_and_to_the_last_line() {
    let dir = crate::store::temp_dir::TempDir::new();
    let path = dir.path().join("events.ndjson");
    let lines: Vec<String> = replayed().into_iter().map(|(_, json, _)| json).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let sorted = |lanes, cut| replay(&path, lanes, cut).into_iter().collect::<BTreeSet<_>>();
    let expected = sorted(1, 4_096);
    assert_eq!(expected.len(), 3, "one swarm, and the other before and after its reset");
    for cut in [1, 7, 30] {
        assert_eq!(sorted(1, cut), expected, "a commit every {cut}");
    }
    // Between partitions a reset and the calls before it have no order; without one, lanes do not show.
    std::fs::write(&path, lines[..100].join("\n")).unwrap();
    let expected = sorted(1, 4_096);
    assert_eq!(expected.len(), 2);
    for (lanes, cut) in [(2, 7), (3, 4_096), (5, 3), (24, 4_096)] {
        assert_eq!(sorted(lanes, cut), expected, "{lanes} lanes, a commit every {cut}");
    }
}

#[test]
fn one_machines_log_carries_both_stages_and_a_death_between_them() {
    use loopwarden::engine::SessionEngine;
    use loopwarden::log::embedded::{Append, EmbeddedBroker, EmbeddedOptions, Feed};
    use loopwarden::store::{RocksOptions, RocksStore, StoreOwner};
    use loopwarden::task::{InlineRestorer, Lane, Leases, SystemClock, Turn};
    let dir = crate::store::temp_dir::TempDir::new();
    let memory = RocksOptions { block_cache_bytes: 1 << 20, write_buffer_bytes: 1 << 20, ..RocksOptions::default() };
    let owner = StoreOwner { app: "loopwarden".to_owned(), instance: "lw-0".to_owned(), cluster: None };
    let (policy, settings) = (policy("default", ""), Arc::new(settings(CommitTrigger::Timed { max_ms: 1, min_ms: 1 })));
    let events = replayed();
    let mut seen = BTreeSet::new();
    // Opened again and again: the last turns before a death have often committed sums that nobody has read.
    for (part, turns) in events.chunks(20).zip([12, 15, 18, 21, 24, 2_000]) {
        let store = RocksStore::open(dir.path(), &memory, &owner).unwrap();
        let options = EmbeddedOptions { partitions: 4, lanes: 2, ..EmbeddedOptions::default() };
        let broker = EmbeddedBroker::open(store, options).unwrap();
        for (session, json, timestamp_ms) in part {
            let event =
                Append { key: session.as_bytes(), value: json.as_bytes(), timestamp_ms: *timestamp_ms, headers: Vec::new() };
            broker.append_to(partition_of(session.as_bytes(), 4), &event).unwrap();
        }
        let leases = Leases::new();
        let mut lanes: Vec<_> = (0..2)
            .map(|number| {
                let restorer = Box::new(InlineRestorer::new(broker.store(), None, Arc::clone(&settings)));
                let engine = SessionEngine::new("loopwarden", Arc::clone(&policy));
                Lane::new(broker.lane(number), broker.store(), engine, restorer, leases.clone(), Arc::clone(&settings))
            })
            .collect();
        let clock = SystemClock::start();
        let (mut left, mut idle) = (turns, 0);
        while left > 0 && idle < 6 {
            left -= 1;
            for lane in &mut lanes {
                match lane.turn(&clock) {
                    Turn::Worked => idle = 0,
                    Turn::Idle => idle += 1,
                    Turn::Ended(exit) => panic!("{exit}"),
                }
            }
        }
        drop(lanes);
        broker
            .reader()
            .read(Feed::Commands, 0, &mut |output| {
                let header = |name: &str| output.headers.iter().find(|(header, _)| header == name).unwrap().1.clone().unwrap();
                if header("lw_task").starts_with(b"swarm/") {
                    seen.insert((header("lw_task"), header("lw_ordinal"), header("ce_id")));
                }
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
    }
    let ids: BTreeSet<&Vec<u8>> = seen.iter().map(|(.., id)| id).collect();
    assert_eq!((seen.len(), ids.len()), (3, 3));
    let path = dir.path().join("events.ndjson");
    let lines: Vec<String> = events.into_iter().map(|(_, json, _)| json).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let replayed: BTreeSet<Vec<u8>> = replay(&path, 1, 16).into_iter().map(String::into_bytes).collect();
    assert_eq!(ids.into_iter().cloned().collect::<BTreeSet<_>>(), replayed, "as a replay says");
}

/// A measurement, not a claim: what one counted call costs a lane before it is sent.
#[test]
fn adding_a_call_to_the_sums_is_cheap() {
    use loopwarden::engine::{RecipeForm, SwarmCall, SwarmSums};
    const CALLS: usize = 200_000;
    let policy = policy("default", "");
    let call = |number: usize| SwarmCall {
        key: key("swarm-of-agents", (number % 50) as u128),
        tool: "fetch".to_owned(),
        form: RecipeForm::Opaque,
        session_id: format!("session-{:04}", number % 200),
        agent_id: "main".to_owned(),
        time: EventTime(START_MS + number as i64),
        record_time: EventTime(START_MS + number as i64),
    };
    let calls: Vec<SwarmCall> = (0..CALLS).map(call).collect();
    let mut sums = SwarmSums::default();
    let watch = loopwarden::clock::Stopwatch::start();
    for call in calls {
        sums.add(&policy, call);
    }
    println!("{:.3} µs a call", watch.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
    let total: u32 = sums.drain_sorted().iter().flat_map(|(_, report)| &report.entries).map(|entry| entry.calls).sum();
    assert_eq!(total as usize, CALLS);
}
