//! A `reset` with scope `session`: the same agents whatever the cuts are, and no more of them at a time than a commit takes. An act without
//! a key: it is judged where its release will be, or not at all.

use loopwarden::event::partition_of;
use loopwarden::limits::RESET_AGENTS_MAX;
use loopwarden::task::{CommitTrigger, LaneSettings};
use loopwarden_log::Partitions;
use loopwarden_sim::{Fault, Faults, MemoryTopic, Step};

use crate::world::{Fed, PARTITIONS, TestWorld, config, feed, header, reference, session_task, settings};

const TIMED: CommitTrigger = CommitTrigger::Timed { max_ms: 100, min_ms: 5 };
const START_MS: i64 = 1_795_291_200_000;
/// A fraction of what the reset of all agents takes.
const OVERLAY_BYTES: usize = 4_000;

/// An event of an agent of one session.
fn event(number: usize, agent: &str, time_ms: i64, rest: &str) -> Fed {
    let json = format!(r#"{{"id":"e{number}","session_id":"s","agent":{{"id":"{agent}"}},"time":{time_ms},{rest}}}"#);
    ("s".to_owned(), Some(json.into_bytes()), time_ms)
}

fn call(number: usize, agent: &str, time_ms: i64) -> Fed {
    event(number, agent, time_ms, &format!(r#""kind":"tool","tool":"Bash","args":{{"command":"c{number}"}},"result":"r""#))
}

/// Agents of one session that a reset reaches, more than one commit takes.
fn many_agents() -> (TestWorld, Vec<Fed>) {
    const AGENTS: usize = 60;
    let mut records: Vec<Fed> = (0..AGENTS * 20).map(|n| call(n, &format!("a{:02}", n % AGENTS), START_MS + n as i64)).collect();
    records.push(event(records.len(), "z", START_MS + 2_000, r#""kind":"reset","scope":"session""#));
    records.push(call(records.len(), "z", START_MS + 2_001));
    let mut world = TestWorld::new(config(500), LaneSettings { overlay_bytes_max: OVERLAY_BYTES, ..settings(TIMED) });
    let (calls, reset) = records.split_at(AGENTS * 20);
    feed(&world.broker, calls);
    world.start("lw", 1);
    assert!(world.settle());
    feed(&world.broker, reset);
    (world, records)
}

fn commits(world: &TestWorld) -> u64 {
    world.processes[0].lanes[0].as_ref().unwrap().stats().transactions[0]
}

#[test]
fn a_process_that_dies_within_a_reset_brings_it_to_the_others_after_its_restart() {
    let (mut world, records) = many_agents();
    let death = || Faults::script([(Step::AfterCommit, Fault::Die)]);
    world.broker.set_faults(death());
    let mut deaths = 0;
    assert!(world.settle_with(&mut |world| {
        let faults = world.broker.set_faults(Faults::none());
        let has_died = !faults.fired().is_empty();
        deaths += usize::from(has_died);
        world.broker.set_faults(if has_died { death() } else { faults });
    }));
    world.broker.set_faults(Faults::none());
    assert!(deaths > 5, "{deaths} deaths");
    world.audit();
    world.outcome().assert_is(&reference(&records), "");
}

#[test]
fn a_reset_of_many_agents_is_committed_in_parts_and_that_does_not_show() {
    let (mut world, records) = many_agents();
    let (mut largest, before) = (0, commits(&world));
    assert!(world.settle_with(&mut |world| {
        largest = largest.max(world.processes[0].lanes[0].as_ref().unwrap().bytes().0);
    }));
    world.audit();
    world.outcome().assert_is(&reference(&records), "");
    assert!(commits(&world) > before + 5, "{} commits are no parts", commits(&world) - before);
    // Nothing is passed over by more than the agent it comes with: a head, and the page of its newest step.
    assert!(largest < OVERLAY_BYTES + 8_000, "{largest} bytes at once");
    let stats = world.processes[0].lanes[0].as_ref().unwrap().stats();
    // The record is read several times, and yet no redelivery.
    assert_eq!((stats.duplicates, stats.limit_reset_agents), (0, 0));
}

#[test]
fn agents_that_are_forgotten_but_not_written_take_no_place_among_those_a_reset_reaches() {
    const ENDED: usize = 50;
    let agent = |number: usize| format!("a{number:05}");
    let mut records: Vec<Fed> = (0..ENDED).map(|n| event(n, &agent(n), START_MS, r#""kind":"session_end""#)).collect();
    records.extend((ENDED..RESET_AGENTS_MAX + 2 * ENDED).map(|n| call(n, &agent(n), START_MS + 1_000)));
    let settled = records.len();
    // The first of these lets the ended ones be forgotten, the second comes before that is committed.
    records.push(call(settled, "z", START_MS + 4_000));
    records.push(event(settled + 1, "z", START_MS + 4_001, r#""kind":"reset","scope":"session""#));
    let mut world = TestWorld::new(config(500), settings(TIMED));
    feed(&world.broker, &records[..settled]);
    world.start("lw", 1);
    assert!(world.settle());
    feed(&world.broker, &records[settled..]);
    assert!(world.settle());
    world.audit();
    let stats = world.processes[0].lanes[0].as_ref().unwrap().stats();
    assert_eq!(stats.sessions_forgotten, ENDED as u64);
    assert!(stats.limit_reset_agents > 0);
    world.outcome().assert_is(&reference(&records), "");
}

#[test]
fn a_stop_without_a_key_is_judged_where_its_release_is_looked_for_or_is_a_dead_letter() {
    let partitions = Some(Partitions { session: PARTITIONS, swarm: 0 });
    let mut world = TestWorld::new(config(20), LaneSettings { partitions, ..settings(TIMED) });
    let act = |id: &str, kind: &str| {
        format!(
            r#"{{"id":"{id}","kind":"{kind}","scope":"session","session_id":"s","reason":"r","until":{},"time":{START_MS}}}"#,
            START_MS + 3_600_000
        )
    };
    let own = partition_of(b"s", PARTITIONS);
    for partition in 0..PARTITIONS {
        let stop = act(&format!("stop-{partition}"), "stop");
        world.broker.append(session_task(partition), None, Some(stop.as_bytes()), START_MS);
    }
    world.broker.append(session_task(own), Some(b"s"), Some(act("release", "release").as_bytes()), START_MS + 1);
    world.start("lw", 1);
    assert!(world.settle(), "{:?}", world.exits);
    let letters = world.broker.committed(MemoryTopic::DeadLetters);
    assert_eq!(letters.len(), PARTITIONS as usize - 1);
    for letter in &letters {
        let of = |name| header(letter, name).unwrap();
        assert_eq!([of("dlq.reason"), of("dlq.field")], ["bad_value", "/session_id"]);
        assert_ne!(of("dlq.partition"), own.to_string());
    }
    let commands = world.broker.committed(MemoryTopic::Commands);
    let codes: Vec<serde_json::Value> = commands
        .iter()
        .map(|command| serde_json::from_slice::<serde_json::Value>(command.value.as_deref().unwrap()).unwrap()["action"].clone())
        .collect();
    assert_eq!(codes, ["block", "unblock"], "the release has found its stop");
}
