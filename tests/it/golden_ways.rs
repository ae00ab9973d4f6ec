//! Every golden case through the whole pipeline, four ways: straight, cut elsewhere, killed at every commit, on other lanes. The bytes are
//! the same each time, and the commands are those of a lane that is stepped event by event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use loopwarden::event::{EventTime, partition_of};
use loopwarden::task::{CommitTrigger, LaneSettings};
use loopwarden::{
    config::policy::load_with_overrides, engine::SubjectKey, identity::base32, log::Partitions, policy::Policy, store::state_hash,
};
use loopwarden_lab::cases::{Case, Way, answers};
use loopwarden_sim::{Fault, Faults, MemoryConfig, MemoryTopic, Step};
use serde_json::Value;

use crate::world::{Dice, FAMILIES, Seen, TestStore, TestWorld, outputs_by_task, session_task, settings};

const PARTITIONS: Partitions = Partitions { session: 8, swarm: 4 };
const TIMED: CommitTrigger = CommitTrigger::Timed { max_ms: 100, min_ms: 2 };
/// Longer than any of these worlds takes to read its input: everything is one commit.
const ONCE: CommitTrigger = CommitTrigger::Timed { max_ms: 20_000, min_ms: 20_000 };

/// What all ways of a case have in common.
#[derive(Debug, PartialEq, Eq)]
struct Answered {
    /// Commands of the session stage as bytes, by task.
    outputs: BTreeMap<String, Vec<Seen>>,
    /// Commands of the swarm stage: what they carry depends on how sums were cut, which there are does not.
    swarm: BTreeSet<String>,
    /// Last row of each agent; of a swarm, that there is one.
    rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// State of each task of the session stage.
    states: Vec<u64>,
}

/// How a case is run.
#[derive(Debug, Clone, Copy)]
struct Ran {
    lanes: usize,
    poll_records_max: usize,
    trigger: CommitTrigger,
    /// Cuts drawn from a seed: after so many records of a commit, with so much time between two turns.
    seed: Option<u64>,
    /// The process dies twice for each commit: in the middle of sending, and when the log has decided and the store has not followed. At
    /// every third death its disk is lost too.
    dies: bool,
    /// The time of the swarm stage waits for its sources, as with brokers.
    aligns: bool,
    /// Sessions held in memory. Bytes.
    cache_bytes_max: usize,
    /// Whether commits write sessions. In a replay they do not: a session is written when it leaves memory.
    keeps_changelog: bool,
}

const STRAIGHT: Ran = Ran {
    lanes: 1,
    poll_records_max: 500,
    trigger: TIMED,
    seed: None,
    dies: false,
    aligns: false,
    cache_bytes_max: 10_000_000,
    keeps_changelog: true,
};

/// Policies by profile and what differs: making one compiles patterns, which costs more than all the rest.
static POLICIES: Mutex<BTreeMap<(String, String), Arc<Policy>>> = Mutex::new(BTreeMap::new());

fn policy(case: &Case, overrides: &Value) -> Arc<Policy> {
    let none = Value::Object(serde_json::Map::new());
    let overrides = if overrides.is_null() { &none } else { overrides };
    let mut policies = POLICIES.lock().unwrap();
    let policy = policies.entry((case.profile.clone(), overrides.to_string()));
    Arc::clone(policy.or_insert_with(|| Arc::new(load_with_overrides(&case.profile, overrides).unwrap())))
}

/// Deaths of one commit.
fn deaths() -> Faults {
    Faults::script([(Step::Send, Fault::Die), (Step::AfterCommit, Fault::Die)])
}

fn settle(world: &mut TestWorld, ran: Ran, deaths_so_far: &mut usize) {
    let dice = Dice::new(ran.seed.unwrap_or_default());
    let is_settled = world.settle_with(&mut |world| {
        if ran.seed.is_some() {
            world.broker.advance(dice.below(40) as i64);
        }
        if ran.dies {
            let faults = world.broker.set_faults(Faults::none());
            let struck = faults.fired().len();
            world.broker.set_faults(if struck == 2 { deaths() } else { faults });
            *deaths_so_far += usize::from(struck == 2);
            if struck == 2 && deaths_so_far.is_multiple_of(3) {
                world.processes[0].store = TestStore::default();
                world.restart(0);
            }
        }
    });
    assert!(is_settled, "not settled: {:?}", world.exits);
    assert_eq!(world.exits, []);
}

/// Plays a spelled-out case; also how many times it died.
fn play(case: &Case, ran: Ran) -> (Answered, usize) {
    let dice = Dice::new(ran.seed.unwrap_or_default());
    let records_max = ran.seed.map_or(u64::MAX, |_| 1 + dice.below(6));
    let settings = LaneSettings {
        lateness_ms: 0,
        overlay_records_max: records_max,
        aligns_sources: ran.aligns,
        partitions: ran.aligns.then_some(PARTITIONS),
        cache_bytes_max: ran.cache_bytes_max,
        ..settings(ran.trigger)
    };
    let config = MemoryConfig { partitions: PARTITIONS, poll_records_max: ran.poll_records_max, ..MemoryConfig::default() };
    let mut world = TestWorld::new(config, settings);
    world.policy = policy(case, &case.policy);
    world.keeps_changelog = ran.keeps_changelog;
    if ran.dies {
        world.broker.set_faults(deaths());
    }
    let mut died = 0;
    world.start("lw", ran.lanes);
    let mut timestamp = EventTime(0);
    for event in &case.events {
        if event["kind"] == "restart" {
            settle(&mut world, ran, &mut died);
            if !ran.keeps_changelog {
                world.write_back();
            }
            if let Some(overrides) = event.get("policy") {
                world.policy = policy(case, overrides);
            }
            world.restart(0);
            continue;
        }
        timestamp = event["time"].as_str().and_then(EventTime::parse_rfc3339).unwrap_or(timestamp);
        let session = event["session_id"].as_str().unwrap();
        let task = session_task(partition_of(session.as_bytes(), PARTITIONS.session));
        world.broker.append(task, Some(session.as_bytes()), Some(event.to_string().as_bytes()), timestamp.0);
    }
    settle(&mut world, ran, &mut died);
    world.broker.set_faults(Faults::none());
    if ran.keeps_changelog {
        world.audit();
    } else {
        world.write_back();
    }
    (answered(&world), died)
}

fn answered(world: &TestWorld) -> Answered {
    let (of_swarm, outputs): (BTreeMap<_, _>, BTreeMap<_, _>) =
        outputs_by_task(&world.broker).into_iter().partition(|(task, _)| task.starts_with("swarm/"));
    let mut rows = BTreeMap::new();
    for row in world.broker.committed(MemoryTopic::State) {
        let key = row.key.unwrap();
        let value = if key.starts_with(b"agent") { row.value } else { row.value.map(|_| Vec::new()) };
        rows.insert(key, value);
    }
    // Whether a row was written before its tombstone depends on the cut.
    rows.retain(|_, value| value.is_some());
    let states = (0..PARTITIONS.session).map(session_task);
    Answered {
        outputs,
        swarm: of_swarm.into_values().flatten().map(|seen| seen.id).collect(),
        rows,
        states: states.map(|task| state_hash(world.store_of(task), task, &FAMILIES).unwrap()).collect(),
    }
}

/// Ids of a case's commands from a lane that is stepped event by event: of each session in order, and those of swarms and fleets.
fn stepped(case: &Case) -> (BTreeMap<String, Vec<String>>, BTreeSet<String>) {
    let (mut sessions, mut swarm) = (BTreeMap::<_, Vec<_>>::new(), BTreeSet::new());
    for command in answers(case, Way::Straight).into_iter().flat_map(|answer| answer.commands) {
        let id = base32(&command.id.0);
        match &command.subject {
            SubjectKey::Agent { session_id, .. } => sessions.entry(session_id.clone()).or_default().push(id),
            SubjectKey::Swarm { .. } | SubjectKey::Fleet { .. } | SubjectKey::Group { .. } | SubjectKey::Stop(_) => {
                swarm.insert(id);
            }
        }
    }
    (sessions, swarm)
}

fn by_session(answered: &Answered) -> BTreeMap<String, Vec<String>> {
    let mut sessions = BTreeMap::<_, Vec<_>>::new();
    for seen in answered.outputs.values().flatten() {
        sessions.entry(String::from_utf8(seen.key.clone()).unwrap()).or_default().push(seen.id.clone());
    }
    sessions
}

/// Runs every case straight and in other ways; deaths in all.
fn every_case(ways: &[Ran]) -> usize {
    let mut died = 0;
    for (file, cases) in crate::golden::all() {
        for case in cases.iter().map(|case| case.spelled_out().unwrap()) {
            let (straight, _) = play(&case, STRAIGHT);
            for way in ways {
                let (other, deaths) = play(&case, *way);
                died += deaths;
                assert_eq!(other, straight, "{file}: {} {way:?}", case.name);
            }
        }
    }
    died
}

#[test]
fn a_golden_case_gives_the_same_commands_stepped_as_in_any_cut() {
    let mut commands = 0;
    for (file, cases) in crate::golden::all() {
        for case in cases.iter().map(|case| case.spelled_out().unwrap()) {
            let (straight, _) = play(&case, STRAIGHT);
            let (sessions, swarm) = stepped(&case);
            assert_eq!(by_session(&straight), sessions, "{file}: {}", case.name);
            assert_eq!(straight.swarm, swarm, "{file}: {}", case.name);
            commands += sessions.values().map(Vec::len).sum::<usize>() + swarm.len();
        }
    }
    assert!(commands > 300, "only {commands} commands");
}

#[test]
fn a_golden_case_gives_the_same_bytes_wherever_it_is_cut() {
    let each = Ran { poll_records_max: 1, trigger: CommitTrigger::EveryRecords(1), ..STRAIGHT };
    let once = Ran { trigger: ONCE, ..STRAIGHT };
    let drawn = |seed| Ran { poll_records_max: 1 + seed as usize % 4, seed: Some(seed), ..STRAIGHT };
    let crowded = Ran { cache_bytes_max: 1, ..drawn(4) };
    every_case(&[each, once, drawn(1), drawn(2), drawn(3), crowded]);
}

#[test]
fn a_golden_case_gives_the_same_bytes_where_a_session_is_written_when_it_leaves() {
    let each = Ran { poll_records_max: 1, trigger: CommitTrigger::EveryRecords(1), keeps_changelog: false, ..STRAIGHT };
    every_case(&[each, Ran { cache_bytes_max: 1, ..each }, Ran { cache_bytes_max: 20_000, seed: Some(5), ..each }]);
}

#[test]
fn a_golden_case_gives_the_same_bytes_when_it_is_killed_at_every_commit() {
    let each = Ran { poll_records_max: 1, trigger: CommitTrigger::EveryRecords(1), dies: true, ..STRAIGHT };
    let died = every_case(&[each, Ran { cache_bytes_max: 1, ..each }]);
    assert!(died > 2_000, "only {died} commits were killed");
}

#[test]
fn a_golden_case_gives_the_same_bytes_on_any_number_of_lanes() {
    every_case(&[2, 3, 4, 5, 6, 7, 8].map(|lanes| Ran { lanes, ..STRAIGHT }));
}

#[test]
fn a_golden_case_gives_the_same_commands_where_time_waits_for_sources() {
    let ways = [
        Ran { aligns: true, ..STRAIGHT },
        Ran { aligns: true, lanes: 3, poll_records_max: 2, seed: Some(4), ..STRAIGHT },
        Ran { aligns: true, poll_records_max: 1, trigger: CommitTrigger::EveryRecords(1), dies: true, ..STRAIGHT },
    ];
    for (file, cases) in crate::golden::all() {
        for case in cases.iter().map(|case| case.spelled_out().unwrap()) {
            let (straight, _) = play(&case, STRAIGHT);
            for way in ways {
                // When the row of a verdict that is over goes is a matter of time, and a silent task has a Position of its own.
                let (other, _) = play(&case, way);
                assert_eq!(other.outputs, straight.outputs, "{file}: {} {way:?}", case.name);
                assert_eq!(other.swarm, straight.swarm, "{file}: {} {way:?}", case.name);
            }
        }
    }
}
