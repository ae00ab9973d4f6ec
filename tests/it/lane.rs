//! The runtime: whatever is cut, killed, lost or moved, the outcome is that of one lane without faults.

use std::{collections::BTreeSet, sync::Arc};

use loopwarden::event::NextOffset;
use loopwarden::store::{KeyFamily, Position, StateKey, StateStore};
use loopwarden::task::{CommitTrigger, Exit, LaneSettings, ProcessMode, TaskState};
use loopwarden_sim::{Fault, Faults, MemoryConfig, MemoryTopic, Step};

use crate::golden::RULES;
use crate::world::{
    Fed, PARTITIONS, TestStore, TestWorld, config, feed, fleet, header, outputs_by_task, policy_with, reference, session_task,
    settings,
};

pub(crate) const TIMED: CommitTrigger = CommitTrigger::Timed { max_ms: 100, min_ms: 5 };
const RECORDS: usize = 400;

pub(crate) fn records() -> Vec<Fed> {
    fleet(7, RECORDS)
}

/// Runs an input in a world of one process and compares everything with the reference.
fn check(
    records: &[Fed],
    config: MemoryConfig,
    settings: LaneSettings,
    lanes: usize,
    prepare: impl FnOnce(&mut TestWorld),
) -> TestWorld {
    let expected = reference(records);
    let mut world = TestWorld::new(config, settings);
    feed(&world.broker, records);
    world.start("lw", lanes);
    prepare(&mut world);
    assert!(world.settle(), "not settled: {:?}", world.exits);
    world.audit();
    world.outcome().assert_is(&expected, "");
    world
}

#[test]
fn the_input_of_these_tests_reaches_every_path() {
    let records = records();
    let mut world = TestWorld::new(config(500), settings(TIMED));
    feed(&world.broker, &records);
    world.start("lw", 1);
    assert!(world.settle());
    let stats = world.processes[0].lanes[0].as_ref().unwrap().stats();
    for (what, count) in [
        ("commands", stats.commands.iter().flatten().sum::<u64>()),
        ("rejected", stats.rejected.iter().sum()),
        ("panics", stats.panics),
        ("timers", stats.timers_fired),
        ("forgotten", stats.sessions_forgotten),
        ("late", stats.late),
        ("commits", stats.transactions[0]),
        ("resets", stats.events[7]),
        ("blocks", stats.commands[1][0]),
    ] {
        assert!(count > 0, "{what}");
    }
    assert!(!world.outcome().counts.is_empty());
    let hot = world.processes[0].lanes[0].as_ref().unwrap().tasks();
    assert!(hot.iter().all(|view| view.state == TaskState::Running));
}

#[test]
fn batch_cuts_do_not_show() {
    let records = records();
    for batch in [1, 3, 17, 500] {
        check(&records, config(batch), settings(TIMED), 1, |_| {});
    }
}

#[test]
fn commit_cuts_do_not_show_not_even_between_two_timers() {
    let records = records();
    for (records_max, bytes_max) in [(1, usize::MAX), (7, usize::MAX), (u64::MAX, 1), (u64::MAX, 3_000)] {
        let settings = LaneSettings { overlay_records_max: records_max, overlay_bytes_max: bytes_max, ..settings(TIMED) };
        check(&records, config(500), settings, 1, |_| {});
    }
}

#[test]
fn the_number_of_lanes_does_not_show() {
    let records = records();
    for lanes in [2, 3, 4] {
        check(&records, config(20), settings(TIMED), lanes, |_| {});
    }
}

#[test]
fn a_cache_of_no_size_does_not_show() {
    let settings = LaneSettings { cache_bytes_max: 1, ..settings(TIMED) };
    check(&records(), config(50), settings, 1, |_| {});
}

#[test]
fn sessions_that_are_written_when_they_leave_say_the_same() {
    let records = records();
    let expected = reference(&records);
    for (cache_bytes_max, records_max) in [(1, 1), (30_000, 7), (10_000_000, 1), (10_000_000, 50)] {
        let settings = LaneSettings { cache_bytes_max, overlay_records_max: records_max, ..settings(TIMED) };
        let mut world = TestWorld::new(config(50), settings);
        world.keeps_changelog = false;
        feed(&world.broker, &records);
        world.start("lw", 1);
        assert!(world.settle(), "not settled: {:?}", world.exits);
        let lane = world.processes[0].lanes[0].as_ref().unwrap();
        assert!(lane.stats().panics > 0, "what is rewound was not written");
        let heads = |world: &TestWorld| {
            let mut heads = 0;
            for task in (0..PARTITIONS).map(session_task) {
                let mut count = |_: &[u8], _: &[u8]| {
                    heads += 1;
                    std::ops::ControlFlow::Continue(())
                };
                world.store_of(task).scan(task, KeyFamily::Head, &[], &[], &mut count).unwrap();
            }
            heads
        };
        let (cached, written) = (lane.sessions_cached(), heads(&world));
        world.write_back();
        assert_eq!(heads(&world) > written, cached > 0, "only what left the cache was written");
        world.outcome().assert_is(&expected, "written when they leave");
    }
}

#[test]
fn sessions_that_grow_leave_the_cache_after_the_commit_that_wrote_them() {
    const SESSIONS: usize = 40;
    const CACHE_BYTES: usize = 400_000;
    let mut records: Vec<Fed> = Vec::new();
    for number in 0..SESSIONS * 60 {
        let (session, time_ms) = (format!("s{}", number % SESSIONS), 1_795_291_200_000 + number as i64);
        let json = format!(
            r#"{{"id":"e{number}","session_id":"{session}","time":{time_ms},"kind":"tool","tool":"Bash","args":{{"command":"c{number}"}},"result":"r{number}"}}"#
        );
        records.push((session, Some(json.into_bytes()), time_ms));
    }
    // All begin at once, small; then no new one ever comes.
    let settings = LaneSettings { cache_bytes_max: CACHE_BYTES, overlay_records_max: 50, ..settings(TIMED) };
    let world = check(&records, config(50), settings, 1, |_| {});
    let lane = world.processes[0].lanes[0].as_ref().unwrap();
    assert!(lane.bytes().1 <= CACHE_BYTES, "{} bytes of sessions", lane.bytes().1);
    assert!((1..SESSIONS).contains(&lane.sessions_cached()), "{} sessions cached", lane.sessions_cached());
    // And the lane did not resort to a commit for each record.
    assert!(lane.stats().transactions[0] < records.len() as u64 / 10, "{} commits", lane.stats().transactions[0]);
}

#[test]
fn every_fault_at_every_step_of_a_commit_leaves_no_trace() {
    let records = fleet(11, 240);
    let expected = reference(&records);
    let steps = [Step::Poll, Step::Begin, Step::Send, Step::Offsets, Step::Commit, Step::AfterCommit];
    // Records that are committed; none as long as a task has not even committed where it begins.
    let committed = |world: &TestWorld| {
        let offset = |partition| world.broker.group_offset(session_task(partition)).map(|next| next.0);
        (0..PARTITIONS).map(offset).sum::<Option<u64>>()
    };
    for step in steps {
        for fault in step.faults() {
            // A commit is due after ten polls of ten records at the latest: enough are left for another one to strike.
            for after in [1, 40, 90] {
                let what = format!("{step:?} {fault:?} after {after}");
                let mut world = TestWorld::new(config(10), settings(TIMED));
                feed(&world.broker, &records);
                world.start("lw", 1);
                while committed(&world) < Some(after) {
                    assert!(world.broker.now_ms() < 60_000, "{what}: {:?} committed", committed(&world));
                    world.turn(0, 0);
                    world.broker.advance(10);
                }
                world.broker.set_faults(Faults::script([(step, *fault)]));
                assert!(world.settle(), "{what}: {:?}", world.exits);
                let faults = world.broker.set_faults(Faults::none());
                assert_eq!(faults.fired(), [("loopwarden-lw-0".to_owned(), step, *fault)], "{what}");
                world.audit();
                assert_eq!(world.exits, [], "{what}");
                world.outcome().assert_is(&expected, &what);
                let stats = world.processes[0].lanes[0].as_ref().unwrap().stats();
                let [_, _, unknown, _] = stats.transactions;
                assert_eq!(stats.unknown_resolved.iter().sum::<u64>(), unknown, "{what}: {stats:?}");
                if let Fault::AnswerLost { committed } = fault {
                    assert_eq!(unknown, 1, "{what}");
                    assert_eq!(stats.unknown_resolved, [u64::from(*committed), u64::from(!*committed)], "{what}");
                }
            }
        }
    }
}

#[test]
fn a_store_that_fails_at_s7_ends_the_process_and_a_restart_has_lost_nothing() {
    let records = fleet(12, 150);
    for commits in [1, 3, 6] {
        let store = TestStore::default();
        // The first three commits of the store are the restores' Positions.
        *store.fails_in.lock().unwrap() = Some(PARTITIONS + commits);
        let mut world = TestWorld::new(config(10), LaneSettings { overlay_records_max: 15, ..settings(TIMED) });
        feed(&world.broker, &records);
        world.start_on("lw", 1, store);
        assert!(world.settle(), "{:?}", world.exits);
        assert!(matches!(world.exits[..], [Exit::Store(_)]), "{:?}", world.exits);
        world.audit();
        world.outcome().assert_is(&reference(&records), "");
    }
}

#[test]
fn a_second_process_takes_over_half_and_gives_it_back() {
    let records = records();
    let expected = reference(&records);
    let mut world = TestWorld::new(config(7), settings(TIMED));
    feed(&world.broker, &records[..200]);
    world.start("a", 1);
    for _ in 0..40 {
        world.turn(0, 0);
        world.broker.advance(5);
    }
    world.start("b", 2);
    assert!(world.settle());
    feed(&world.broker, &records[200..300]);
    assert!(world.settle());
    assert_eq!(world.broker.members().len(), 3);
    // The first one dies; after its session time-out the others have everything.
    world.kill(0);
    feed(&world.broker, &records[300..]);
    world.processes.remove(0);
    for _ in 0..600 {
        world.turn(0, 0);
        world.turn(0, 1);
        world.broker.advance(20);
    }
    assert!(world.settle(), "{:?}", world.exits);
    assert_eq!(world.broker.members().len(), 2);
    world.audit();
    world.outcome().assert_is(&expected, "");
}

#[test]
fn a_stopped_process_commits_what_it_has_and_its_successor_goes_on() {
    let records = records();
    let mut world = TestWorld::new(config(50), settings(TIMED));
    feed(&world.broker, &records);
    world.start("lw", 1);
    for _ in 0..15 {
        world.turn(0, 0);
    }
    world.stop(0, 0, false);
    assert!(world.processes[0].lanes[0].is_none());
    assert_eq!(world.exits, []);
    world.restart(0);
    assert!(world.settle());
    world.audit();
    world.outcome().assert_is(&reference(&records), "");
}

#[test]
fn another_ring_size_keeps_the_newest_steps_and_leaves_no_old_slot() {
    let records = records();
    let mut world = TestWorld::new(config(50), settings(TIMED));
    feed(&world.broker, &records[..200]);
    world.start("lw", 1);
    assert!(world.settle());
    for more_history in [37, 0] {
        world.policy = policy_with(RULES, more_history);
        world.restart(0);
        let from = if more_history == 0 { 300 } else { 200 };
        feed(&world.broker, &records[from..from + 100]);
        assert!(world.settle(), "{:?}", world.exits);
        world.audit();
        // Every stored session loads: no step is missing, and none is left over.
        for task in (0..PARTITIONS).map(session_task) {
            let store = &world.processes[0].store;
            let mut heads = Vec::new();
            let (mut steps, mut found) = (0, 0);
            store
                .scan(task, KeyFamily::Head, &[], &[], &mut |key, value| {
                    let (_, ring, open) = loopwarden::store::session::decode_whole_head(value).unwrap();
                    steps += ring.len;
                    found += open.len();
                    heads.push(key.to_vec());
                    std::ops::ControlFlow::Continue(())
                })
                .unwrap();
            store
                .scan(task, KeyFamily::Page, &[], &[], &mut |_, value| {
                    found += loopwarden::store::step::decode_page(0, value).unwrap().len();
                    std::ops::ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!(found, steps, "{task}");
            for head in heads {
                assert!(loopwarden::store::session::load(store, task, &head, 100).unwrap().is_some());
            }
        }
    }
}

#[test]
fn a_new_policy_starts_at_a_commit_boundary_and_the_position_says_where() {
    let records = records();
    let mut world = TestWorld::new(config(50), settings(TIMED));
    feed(&world.broker, &records[..100]);
    world.start("lw", 1);
    let (sender, orders) = std::sync::mpsc::sync_channel(1);
    let lane = world.processes[0].lanes[0].take().unwrap().with_orders(orders);
    world.processes[0].lanes[0] = Some(lane);
    assert!(world.settle());
    let ends: Vec<u64> = (0..PARTITIONS).map(|partition| world.broker.input_range(session_task(partition)).end).collect();
    let other = policy_with(RULES, 20);
    assert_ne!(other.hash, world.policy.hash);
    sender.send(loopwarden::task::Order::Policy(Arc::clone(&other))).unwrap();
    feed(&world.broker, &records[100..]);
    assert!(world.settle());
    world.audit();
    for (partition, end) in (0..PARTITIONS).zip(ends) {
        let bytes = world.processes[0].store.get(session_task(partition), &StateKey::position()).unwrap().unwrap();
        let position = Position::decode(&bytes).unwrap();
        assert_eq!((position.policy_sha256, position.policy_since), (other.hash.0, end));
    }
    let outputs = outputs_by_task(&world.broker);
    let last = outputs.values().flatten().rfind(|seen| seen.headers.iter().any(|(name, _)| name == "ce_id")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(last.value.as_ref().unwrap()).unwrap();
    assert_eq!(json["engine"]["policy_sha256"], other.hash.to_string());
}

/// Where a call and its answer are two events, the call finds the repeat, and says what it cost.
#[test]
fn what_loops_cost_is_counted_of_events_at_which_a_detector_that_may_speak_finds_one() {
    let event = |number: i64, kind: &str, rest: &str| {
        let json =
            format!(r#"{{"id":"{kind}{number}","session_id":"s","kind":"{kind}","tool":"Bash","call_id":"c{number}",{rest}}}"#);
        ("s".to_owned(), Some(json.into_bytes()), 1_795_291_200_000 + number)
    };
    let call = r#""args":{"command":"make"},"usage":{"input_tokens":90,"output_tokens":10,"cost_usd":0.5}"#;
    let answer = r#""outcome":"error""#;
    let whole: Vec<Fed> = (0..4).map(|number| event(number, "tool", &format!("{call},{answer}"))).collect();
    let halves: Vec<Fed> =
        (0..4).flat_map(|number| [event(number, "tool_call", call), event(number, "tool_result", answer)]).collect();
    let spent = |mode: &str, records: &[Fed]| {
        let overrides = serde_json::json!({ "only": ["exact_repeat"], "detectors": { "exact_repeat": { "mode": mode } } });
        let mut world = TestWorld::new(config(500), settings(TIMED));
        world.policy = Arc::new(loopwarden::config::policy::load_with_overrides(RULES, &overrides).unwrap());
        feed(&world.broker, records);
        world.start("lw", 1);
        assert!(world.settle());
        let stats = world.processes[0].lanes[0].as_ref().unwrap().stats();
        (stats.loop_tokens, stats.loop_cost_micro_usd)
    };
    // What only answers show: the call that one belongs to is in the loop as well.
    let of_answers = |records: &[Fed]| {
        let overrides = serde_json::json!({ "only": ["outcome_repeat"], "detectors": { "outcome_repeat": { "mode": "nudge" } } });
        let mut world = TestWorld::new(config(3), settings(TIMED));
        world.policy = Arc::new(loopwarden::config::policy::load_with_overrides(RULES, &overrides).unwrap());
        feed(&world.broker, records);
        world.start("lw", 1);
        assert!(world.settle());
        let stats = world.processes[0].lanes[0].as_ref().unwrap().stats();
        (stats.loop_calls, stats.loop_tokens, stats.usage_tokens)
    };
    let found = of_answers(&whole);
    assert!(found.0 > 0 && found.1 == 100 * found.0 && found.2 == 400, "{found:?}");
    assert_eq!(of_answers(&halves), found);
    for records in [whole.as_slice(), halves.as_slice()] {
        // The third call and the fourth.
        assert_eq!(spent("block", records), (200, 1_000_000));
        assert_eq!(spent("nudge", records), (200, 1_000_000));
        assert_eq!(spent("shadow", records), (0, 0));
    }
}

#[test]
fn a_ring_of_another_size_after_a_reload_does_not_depend_on_what_was_in_memory() {
    let step = |number: i64| {
        let json = format!(
            r#"{{"id":"e{number}","session_id":"s","kind":"tool","tool":"Bash","args":{{"command":"c{number}"}},"result":"r{number}"}}"#
        );
        ("s".to_owned(), Some(json.into_bytes()), 1_795_291_200_000 + number)
    };
    let records: Vec<Fed> = (0..160).map(step).collect();
    let outcome = |cache_bytes_max: usize| {
        let mut world = TestWorld::new(config(50), LaneSettings { cache_bytes_max, ..settings(TIMED) });
        world.policy = policy_with(RULES, 40);
        feed(&world.broker, &records[..130]);
        world.start("lw", 1);
        let (sender, orders) = std::sync::mpsc::sync_channel(1);
        let lane = world.processes[0].lanes[0].take().unwrap().with_orders(orders);
        world.processes[0].lanes[0] = Some(lane);
        assert!(world.settle());
        sender.send(loopwarden::task::Order::Policy(policy_with(RULES, 0))).unwrap();
        feed(&world.broker, &records[130..]);
        assert!(world.settle());
        world.audit();
        world.outcome()
    };
    outcome(10_000_000).assert_is(&outcome(1), "cached");
}

fn validator(schema: &str) -> jsonschema::Validator {
    jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap()
}

#[test]
fn every_command_and_row_is_as_its_schema_says() {
    let mut world = TestWorld::new(config(50), settings(TIMED));
    feed(&world.broker, &fleet(3, 1_500));
    world.start("lw", 1);
    assert!(world.settle());
    let commands = world.broker.committed(MemoryTopic::Commands);
    let rows = world.broker.committed(MemoryTopic::State);
    assert!(commands.len() > 20 && rows.iter().any(|row| row.value.is_none()));
    let command = validator(include_str!("../../config/schemas/command.v1.schema.json"));
    let row = validator(include_str!("../../config/schemas/session-state.v1.schema.json"));
    for (validator, records) in [(command, &commands), (row, &rows)] {
        for record in records.iter().filter(|record| record.value.is_some()) {
            let json: serde_json::Value = serde_json::from_slice(record.value.as_ref().unwrap()).unwrap();
            let problems: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
            assert!(problems.is_empty(), "{problems:?} in {json}");
        }
    }
    for record in &commands {
        let json: serde_json::Value = serde_json::from_slice(record.value.as_ref().unwrap()).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        assert_eq!(record.key.as_deref(), Some(text(&json["session_id"]).as_bytes()));
        for (name, value) in [
            ("ce_specversion", "1.0".to_owned()),
            ("ce_id", text(&json["id"])),
            ("ce_source", "/loopwarden/loopwarden".to_owned()),
            ("ce_type", format!("dev.loopwarden.command.{}.v1", text(&json["action"]))),
            ("ce_subject", text(&json["session_id"])),
            ("ce_time", text(&json["issued_at"])),
            ("ce_dataschema", "urn:loopwarden:schema:command:1".to_owned()),
            ("ce_sequence", format!("{:020}-{:020}", json["epoch"].as_u64().unwrap(), json["seq"].as_u64().unwrap())),
            ("ce_expirytime", text(&json["expires_at"])),
            ("ce_correlationid", text(&json["episode"])),
            ("ce_causationid", text(&json["trigger"]["event_id"])),
            ("content-type", "application/json".to_owned()),
        ] {
            assert_eq!(header(record, name), Some(value), "{name}");
        }
    }
}

#[test]
fn a_shadow_process_says_so_and_keeps_no_rows() {
    let mut world = TestWorld::new(config(50), LaneSettings { mode: ProcessMode::Shadow, ..settings(TIMED) });
    feed(&world.broker, &records());
    world.start("lw", 1);
    assert!(world.settle());
    let commands = world.broker.committed(MemoryTopic::Commands);
    assert!(!commands.is_empty());
    for record in commands {
        let json: serde_json::Value = serde_json::from_slice(&record.value.unwrap()).unwrap();
        assert_eq!(json["mode"], "shadow");
    }
    assert!(world.broker.committed(MemoryTopic::State).is_empty());
}

#[test]
fn with_the_swarm_stage_off_nothing_is_staged_for_it() {
    let mut world = TestWorld::new(config(50), LaneSettings { swarm: false, ..settings(TIMED) });
    feed(&world.broker, &records());
    world.start("lw", 1);
    assert!(world.settle());
    let swarm = MemoryTopic::Input(loopwarden::event::Stage::Swarm);
    assert!(world.broker.uncommitted(swarm).is_empty());
}

#[test]
fn an_identity_that_is_fenced_ten_times_within_a_minute_gives_up() {
    let mut world = TestWorld::new(config(5), settings(TIMED));
    world.restarts = false;
    feed(&world.broker, &records());
    world.start("lw", 1);
    for fences in [9, 1] {
        assert_eq!(world.exits, []);
        feed(&world.broker, &records());
        world.broker.set_faults(Faults::script(vec![(Step::Begin, Fault::Fenced); fences]));
        for _ in 0..400 {
            world.turn(0, 0);
            world.broker.advance(5);
        }
        assert_eq!(world.broker.set_faults(Faults::none()).fired().len(), fences);
    }
    assert!(matches!(world.exits[..], [Exit::Fenced(_)]), "{:?}", world.exits);
}

#[test]
fn a_process_with_the_same_identity_ends_the_old_one() {
    let mut world = TestWorld::new(config(5), settings(TIMED));
    feed(&world.broker, &records());
    world.start("lw", 1);
    for _ in 0..30 {
        world.turn(0, 0);
        world.broker.advance(5);
    }
    world.restarts = false;
    world.start("lw", 1);
    for _ in 0..10 {
        world.turn(0, 0);
    }
    assert!(matches!(world.exits[..], [Exit::Fenced(_)]), "{:?}", world.exits);
    world.processes.remove(0);
    assert!(world.settle());
    world.audit();
    world.outcome().assert_is(&reference(&records()), "");
}

#[test]
fn a_member_that_its_group_forgot_joins_anew_and_nothing_shows() {
    let expected = reference(&records());
    // While it restores, between two commits, with something uncommitted and with nothing.
    for turns in 0..30 {
        let mut world = TestWorld::new(config(5), settings(TIMED));
        world.restarts = false;
        feed(&world.broker, &records());
        world.start("lw", 1);
        for _ in 0..turns {
            world.turn(0, 0);
            world.broker.advance(5);
        }
        // Who asks for its place while brokers are away asks again.
        let away = (Step::Rejoin, Fault::Transient);
        world.broker.set_faults(Faults::script([(Step::Poll, Fault::Forgotten), away, away]));
        assert!(world.settle());
        assert_eq!(world.broker.set_faults(Faults::none()).fired().len(), 3);
        assert_eq!(world.exits, []);
        world.audit();
        world.outcome().assert_is(&expected, &format!("after {turns} turns"));
    }
}

#[test]
fn lanes_run_on_threads_of_their_own_with_restore_threads_beside_them() {
    use loopwarden::task::{Clock, Fleet, Lane, Leases, RestorePool, SystemClock};
    use loopwarden::{engine::SessionEngine, log::Log};
    let records = records();
    let mut world = TestWorld::new(config(50), settings(TIMED));
    feed(&world.broker, &records);
    let store = TestStore::default();
    let clock = SystemClock::start();
    let readers = (0..2).map(|number| world.broker.open("reader", number).changelog().unwrap().unwrap()).collect();
    // The readers' handles only served to make them.
    world.broker.advance(20_000);
    let shared: Arc<dyn Clock + Send + Sync> = Arc::new(clock);
    let pool = RestorePool::start(store.clone(), Arc::clone(&world.settings), readers, &shared).unwrap();
    let leases = Leases::new();
    let mut fleet = Fleet::new(clock, 2);
    for lane in 0..2 {
        let (broker, store, settings) = (world.broker.clone(), store.clone(), Arc::clone(&world.settings));
        let (restorer, leases, policy) = (pool.client(), leases.clone(), Arc::clone(&world.policy));
        let make = move || {
            let engine = SessionEngine::new("loopwarden", policy);
            let lane = Lane::new(broker.open("lw", lane), store, engine, restorer, leases, settings);
            Ok(lane.with_observer(Box::new(crate::world::Explosive)))
        };
        fleet.spawn(make).unwrap();
    }
    fleet.watch().unwrap();
    let ends = |world: &TestWorld| {
        (0..PARTITIONS)
            .map(session_task)
            .all(|task| world.broker.group_offset(task) == Some(NextOffset(world.broker.input_range(task).end)))
    };
    // A bound, not a sleep: an exit would end it at once.
    for _ in 0..12_000 {
        if ends(&world) {
            break;
        }
        assert_eq!(fleet.next_exit(std::time::Duration::from_millis(10)), None);
    }
    assert!(ends(&world));
    // A lane that comes late takes tasks when everything is read: nobody can say what is in force in a task that is being restored.
    let all_run = || {
        let views: Vec<Vec<_>> = fleet
            .handles()
            .iter()
            .map(|handle| {
                let (sender, answer) = std::sync::mpsc::sync_channel(1);
                assert!(handle.ask(loopwarden::task::Ask::new(|view| Ok(view.tasks.clone()), sender)));
                answer.recv_timeout(std::time::Duration::from_secs(120)).unwrap().unwrap()
            })
            .collect();
        let runs = |id| views.iter().flatten().any(|view| view.id == id && view.state == TaskState::Running);
        views.iter().all(|views| !views.is_empty()) && (0..PARTITIONS).map(session_task).all(runs)
    };
    for _ in 0..12_000 {
        if all_run() {
            break;
        }
        assert_eq!(fleet.next_exit(std::time::Duration::from_millis(10)), None);
    }
    assert!(all_run());
    // What is in force, as lanes find it by its timers.
    let mut in_force = BTreeSet::new();
    for handle in fleet.handles() {
        let (sender, answer) = std::sync::mpsc::sync_channel(1);
        assert!(handle.ask(loopwarden::task::Ask::new(|view| view.in_force(256), sender)));
        let found = answer.recv_timeout(std::time::Duration::from_secs(120)).unwrap().unwrap();
        assert!(!found.more);
        in_force.extend(found.rows.iter().filter_map(|row| of_agent(row)));
    }
    assert_eq!(fleet.stop(false), Exit::Stopped);
    pool.stop();
    world.start_on("lw", 2, store);
    assert!(world.settle());
    world.audit();
    let outcome = world.outcome();
    let rows: BTreeSet<String> = outcome.rows.values().flatten().filter_map(|row| of_agent(row)).collect();
    assert!(!rows.is_empty());
    assert_eq!(in_force, rows, "what lanes say is in force is what the rows in the log say");
    outcome.assert_is(&reference(&records), "threads");
}

/// Whom a state row is about and what is in force for him, where he is an agent.
fn of_agent(row: &[u8]) -> Option<String> {
    let row: serde_json::Value = serde_json::from_slice(row).unwrap();
    row["subject"]["agent_id"].is_string().then(|| format!("{} {} {}", row["subject"], row["status"], row["active"]))
}

#[test]
fn a_log_that_is_its_own_state_gives_the_same_outcome() {
    use loopwarden::engine::SessionEngine;
    use loopwarden::log::embedded::{Append, EmbeddedBroker, EmbeddedOptions, Feed};
    use loopwarden::store::{RocksOptions, RocksStore, StoreOwner};
    use loopwarden::task::{InlineRestorer, Lane, Leases, Turn};
    let mut records = records();
    for (_, value, _) in &mut records {
        // There is no tombstone over HTTP.
        value.get_or_insert_with(|| b"rubbish".to_vec());
    }
    let expected = reference(&records);
    let dir = crate::store::temp_dir::TempDir::new();
    let memory = RocksOptions { block_cache_bytes: 1 << 20, write_buffer_bytes: 1 << 20, ..RocksOptions::default() };
    let owner = StoreOwner { app: "loopwarden".to_owned(), instance: "lw-0".to_owned(), cluster: None };
    let policy = crate::world::policy();
    // Commands of the swarm stage have a test of their own.
    let settings = Arc::new(LaneSettings { swarm: false, ..settings(CommitTrigger::EveryRecords(7)) });
    let mut fed = 0;
    // Killed and opened again a few times on the way.
    for until in [90, 200, RECORDS] {
        let store = RocksStore::open(dir.path(), &memory, &owner).unwrap();
        let options = EmbeddedOptions { partitions: PARTITIONS, ..EmbeddedOptions::default() };
        let broker = EmbeddedBroker::open(store, options).unwrap();
        for (session, value, timestamp_ms) in &records[fed..until] {
            let partition = loopwarden::event::partition_of(session.as_bytes(), PARTITIONS);
            let event = Append {
                key: session.as_bytes(),
                value: value.as_ref().unwrap(),
                timestamp_ms: *timestamp_ms,
                headers: Vec::new(),
            };
            broker.append_to(partition, &event).unwrap();
        }
        fed = until;
        let engine = SessionEngine::new("loopwarden", Arc::clone(&policy));
        let restorer = InlineRestorer::new(broker.store(), None, Arc::clone(&settings));
        let lane = Lane::new(broker.lane(0), broker.store(), engine, Box::new(restorer), Leases::new(), Arc::clone(&settings));
        let mut lane = lane.with_observer(Box::new(crate::world::Explosive));
        let clock = loopwarden::task::SystemClock::start();
        let mut idle = 0;
        while idle < 3 {
            match lane.turn(&clock) {
                Turn::Idle => idle += 1,
                Turn::Worked => idle = 0,
                Turn::Ended(exit) => panic!("{exit}"),
            }
        }
        if until == RECORDS {
            let (sender, orders) = std::sync::mpsc::sync_channel(1);
            sender.send(loopwarden::task::Order::Stop { leave: false }).unwrap();
            let mut lane = lane.with_orders(orders);
            assert_eq!(lane.turn(&clock), Turn::Ended(Exit::Stopped));
            for (partition, state) in (0..PARTITIONS).zip(&expected.states) {
                let hash =
                    loopwarden::store::state_hash(&broker.store(), session_task(partition), &crate::world::FAMILIES).unwrap();
                assert_eq!(hash, *state, "{partition}");
            }
            let mut seen: Vec<Vec<u8>> = Vec::new();
            broker
                .reader()
                .read(Feed::Commands, 0, &mut |output| {
                    // Of the session stage: the reference has no other.
                    if output.headers.iter().any(|(name, value)| {
                        name == "lw_task" && value.as_deref().is_some_and(|task| task.starts_with(b"session"))
                    }) {
                        seen.push(output.value.unwrap());
                    }
                    std::ops::ControlFlow::Continue(())
                })
                .unwrap();
            let mut commands: Vec<Vec<u8>> = expected
                .outputs
                .values()
                .flatten()
                .filter(|seen| seen.headers.iter().any(|(name, _)| name == "ce_id"))
                .map(|seen| seen.value.clone().unwrap())
                .collect();
            seen.sort_unstable();
            commands.sort_unstable();
            assert_eq!(seen.len(), commands.len());
            assert!(seen == commands);
        }
    }
}

/// A world in which nothing is committed before time moves on.
fn reluctant() -> TestWorld {
    TestWorld::new(config(10), settings(CommitTrigger::Timed { max_ms: 1_000, min_ms: 1_000 }))
}

#[test]
fn a_revoked_task_takes_its_uncommitted_work_with_it() {
    let records = records();
    for fault in [None, Some((Step::Begin, Fault::Abort)), Some((Step::Commit, Fault::AnswerLost { committed: false }))] {
        let mut world = reluctant();
        feed(&world.broker, &records[..150]);
        world.start("a", 1);
        assert!(world.settle());
        feed(&world.broker, &records[150..300]);
        for _ in 0..12 {
            world.turn(0, 0);
        }
        assert!(world.processes[0].lanes[0].as_ref().unwrap().bytes().0 > 10_000, "nothing is uncommitted");
        world.start("b", 1);
        world.broker.set_faults(Faults::script(fault));
        feed(&world.broker, &records[300..]);
        assert!(world.settle(), "{:?}", world.exits);
        assert!(world.processes.iter().all(|process| !process.lanes[0].as_ref().unwrap().tasks().is_empty()));
        world.audit();
        world.outcome().assert_is(&reference(&records), &format!("{fault:?}"));
    }
}

#[test]
fn a_successor_waits_until_it_is_known_how_the_last_transaction_ended() {
    let records = records();
    let faults = [
        (Step::AfterCommit, Fault::SlowMarkers { offsets_first: true }),
        (Step::AfterCommit, Fault::SlowMarkers { offsets_first: false }),
        (Step::Commit, Fault::RequestLate),
        (Step::Commit, Fault::AnswerLost { committed: true }),
        (Step::Commit, Fault::AnswerLost { committed: false }),
        (Step::Offsets, Fault::Suspect),
    ];
    for fault in faults {
        let mut world = reluctant();
        feed(&world.broker, &records[..150]);
        world.start("a", 1);
        assert!(world.settle());
        world.start("b", 1);
        feed(&world.broker, &records[150..]);
        // The first lane reads on, and leaves the group with a transaction that is not quite over.
        for _ in 0..5 {
            world.turn(0, 0);
        }
        world.broker.set_faults(Faults::script([fault]));
        world.stop(0, 0, true);
        assert!(world.processes[0].lanes[0].is_none());
        // Time stands still: whoever does not wait for it begins too early.
        for _ in 0..200 {
            world.turn(1, 0);
        }
        assert!(world.settle(), "{fault:?}: {:?}", world.exits);
        assert_eq!(world.broker.set_faults(Faults::none()).fired().len(), 1, "{fault:?}");
        world.audit();
        world.outcome().assert_is(&reference(&records), &format!("{fault:?}"));
    }
}

#[test]
fn records_below_the_next_offset_are_skipped_and_counted() {
    let records = records();
    let mut world = TestWorld::new(config(20), settings(TIMED));
    world.rereads = 3;
    feed(&world.broker, &records[..200]);
    world.start("lw", 1);
    assert!(world.settle());
    world.restart(0);
    feed(&world.broker, &records[200..]);
    assert!(world.settle());
    assert!(world.processes[0].lanes[0].as_ref().unwrap().stats().skipped >= 3 * u64::from(PARTITIONS));
    world.audit();
    world.outcome().assert_is(&reference(&records), "");
}

#[test]
fn an_input_is_cut_by_its_bytes_too() {
    let mut world = TestWorld::new(config(5), LaneSettings { swarm: false, ..settings(CommitTrigger::EveryRecords(1_000_000)) });
    let (text, start_ms) = ("x".repeat(200_000), 1_795_291_200_000);
    let event = |number: i64| {
        let json = format!(r#"{{"id":"e{number}","session_id":"s","kind":"tool","tool":"cat","args":{{}},"result":"{text}"}}"#);
        ("s".to_owned(), Some(json.into_bytes()), start_ms + number)
    };
    feed(&world.broker, &(0..40).map(event).collect::<Vec<_>>());
    world.start("lw", 1);
    for _ in 0..100 {
        world.turn(0, 0);
    }
    let task = session_task(loopwarden::event::partition_of(b"s", PARTITIONS));
    // 21 of them are the first that have more than 4 MiB.
    assert_eq!(world.broker.group_offset(task).map(|next| next.0), Some(21));
}
