//! A load that is not spread evenly: half of all events are of one session, nine of ten of one swarm. Memory stays within its bounds, and
//! the others are told what they would be told alone.

use std::{collections::BTreeSet, sync::Arc};

use loopwarden::task::{CommitTrigger, LaneSettings};
use loopwarden::{event::partition_of, log::Partitions};
use loopwarden_sim::{MemoryConfig, MemoryTopic};
use serde_json::Value;

use crate::golden::RULES;
use crate::world::{TestWorld, header, session_task, settings};

const PARTITIONS: u32 = 4;
const EVENTS: usize = 12_000;
/// A whole hour: windows and periods begin here.
const START_MS: i64 = 1_795_291_200_000;
const CACHE_BYTES_MAX: usize = 512 * 1_024;
const OVERLAY_BYTES_MAX: usize = 256 * 1_024;
/// What one record may add before the bound is looked at.
const SLACK_BYTES: usize = 128 * 1_024;

struct Call {
    session: String,
    swarm: &'static str,
    json: String,
    time_ms: i64,
}

fn call(at: usize) -> Call {
    let (session, swarm) = match at % 10 {
        0 | 2 | 4 | 6 | 8 => ("giant".to_owned(), "crew"),
        1 | 3 | 5 | 7 => (format!("crew-{}", at / 10 % 800), "crew"),
        _ => (format!("other-{}", at / 10 % 300), "others"),
    };
    let time_ms = START_MS + at as i64 * 20;
    // The others go round in circles, each with the same call as all; the giant and its crew get on.
    let url = if swarm == "others" { "http://dead".to_owned() } else { format!("http://{at}") };
    let json = format!(
        r#"{{"id":"{at}","kind":"tool","session_id":"{session}","swarm_id":"{swarm}","time":{time_ms},"tool":"fetch","args":{{"url":"{url}"}},"outcome":"error","error":"refused {}"}}"#,
        if swarm == "others" { 0 } else { at }
    );
    Call { session, swarm, json, time_ms }
}

/// Runs the calls through one lane; ids and scopes of what was said to or of the swarm `others` and its sessions.
fn told(calls: &[Call]) -> BTreeSet<(String, String)> {
    let limits = LaneSettings {
        cache_bytes_max: CACHE_BYTES_MAX,
        overlay_bytes_max: OVERLAY_BYTES_MAX,
        ..settings(CommitTrigger::Timed { max_ms: 100, min_ms: 2 })
    };
    let partitions = Partitions { session: PARTITIONS, swarm: PARTITIONS };
    let mut world = TestWorld::new(MemoryConfig { partitions, poll_records_max: 500, ..MemoryConfig::default() }, limits);
    world.policy = Arc::new(loopwarden::config::policy::load(RULES).unwrap());
    for call in calls {
        let partition = partition_of(call.session.as_bytes(), PARTITIONS);
        let record = (Some(call.session.as_bytes()), Some(call.json.as_bytes()), call.time_ms);
        world.broker.append(session_task(partition), record.0, record.1, record.2);
    }
    world.start("lw", 1);
    let mut within_bounds = |world: &mut TestWorld| {
        let (overlay, held) = world.processes[0].lanes[0].as_ref().unwrap().bytes();
        assert!(overlay < OVERLAY_BYTES_MAX + SLACK_BYTES, "{overlay} bytes wait for a commit");
        assert!(held < 2 * CACHE_BYTES_MAX + SLACK_BYTES, "{held} bytes of sessions and counters");
    };
    assert!(world.settle_with(&mut within_bounds), "not settled: {:?}", world.exits);
    assert_eq!(world.exits, []);
    world.audit();
    let commands = world.broker.committed(MemoryTopic::Commands).into_iter();
    let said = commands.map(|record| {
        let id = header(&record, "ce_id").unwrap();
        let command: Value = serde_json::from_slice(&record.value.unwrap()).unwrap();
        let subject = command["session_id"].as_str().or(command["swarm_id"].as_str()).unwrap().to_owned();
        (subject, id)
    });
    said.filter(|(subject, _)| subject.starts_with("other")).collect()
}

#[test]
fn one_session_of_half_the_load_and_one_swarm_of_nine_tenths_change_nothing_for_the_others() {
    let calls: Vec<Call> = (0..EVENTS).map(call).collect();
    let of = |what: fn(&Call) -> bool| calls.iter().filter(|call| what(call)).count();
    assert_eq!(of(|call| call.session == "giant"), EVENTS / 2);
    assert_eq!(of(|call| call.swarm == "crew"), EVENTS / 10 * 9);
    let skewed = told(&calls);
    let alone: Vec<Call> = calls.into_iter().filter(|call| call.swarm == "others").collect();
    assert_eq!(skewed, told(&alone));
    let swarm = skewed.iter().filter(|(subject, _)| subject == "others").count();
    assert!(swarm > 0 && skewed.len() > swarm, "{} commands, {swarm} of them to the swarm", skewed.len());
}
