//! A `reset` with scope `session`: the same agents whatever the cuts are, and no more of them at a time than a commit takes. An act that
//! has not its own key, or lies elsewhere: it is not judged at all.

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
fn an_act_counts_with_its_own_key_where_that_leads_to_and_is_a_dead_letter_with_any_other() {
    let partitions = Some(Partitions { session: PARTITIONS, swarm: 0 });
    let mut world = TestWorld::new(config(20), LaneSettings { partitions, ..settings(TIMED) });
    let until = |hours: i64| START_MS + 3_600_000 * hours;
    let act = |id: &str, kind: &str, until: i64| {
        format!(
            r#"{{"id":"{id}","kind":"{kind}","scope":"session","session_id":"s","reason":"r","until":{until},"time":{START_MS}}}"#
        )
    };
    let own = partition_of(b"s", PARTITIONS);
    let append = |partition: u32, key: Option<&[u8]>, act: String| {
        world.broker.append(session_task(partition), key, Some(act.as_bytes()), START_MS);
    };
    append(own, Some(b"s"), act("long", "stop", until(2)));
    // A producer without keys, one with the key of others, and one whose partitioner is another: they neither stop, shorten nor release.
    for partition in 0..PARTITIONS {
        append(partition, None, act(&format!("keyless-{partition}"), "stop", until(1)));
        append(partition, Some(b"t"), act(&format!("other-{partition}"), "release", until(1)));
        if partition != own {
            append(partition, Some(b"s"), act(&format!("elsewhere-{partition}"), "stop", until(1)));
        }
    }
    append(own, Some(b"s"), act("release", "release", until(1)));
    world.start("lw", 1);
    assert!(world.settle(), "{:?}", world.exits);
    let letters = world.broker.committed(MemoryTopic::DeadLetters);
    assert_eq!(letters.len(), 3 * PARTITIONS as usize - 1);
    assert!(letters.iter().all(|letter| header(letter, "dlq.reason").unwrap() == "wrong_key"));
    let commands = world.broker.committed(MemoryTopic::Commands);
    let told = commands.iter().map(|command| {
        let command: serde_json::Value = serde_json::from_slice(command.value.as_deref().unwrap()).unwrap();
        (command["action"].as_str().unwrap().to_owned(), command["trigger"]["event_id"].as_str().unwrap().to_owned())
    });
    let expected = [("block", "long"), ("unblock", "release")].map(|(action, id)| (action.to_owned(), id.to_owned()));
    assert_eq!(told.collect::<Vec<_>>(), expected, "the release has found its stop, and nothing else did anything");
}
