//! The broker in memory: the contract, and each fault once.

use std::{collections::BTreeMap, time::Duration};

use loopwarden::event::{NextOffset, Stage, TaskId};
use loopwarden::log::{CommitOutcome, Destination, Flow, Log, LogError, LogEvent, Output, Partitions};
use loopwarden_sim::{Fault, Faults, MemoryBroker, MemoryConfig, MemoryLog, MemoryTopic, Step};

use super::log_contract;
use super::log_contract::{Feed, Seen, Transactional, World, change, command, commit, session, take_all};

const PARTITIONS: Partitions = Partitions { session: 3, swarm: 2 };

struct Memory(MemoryBroker);

impl World for Memory {
    type Log = MemoryLog;

    fn new() -> Self {
        Self(MemoryBroker::new(MemoryConfig { partitions: PARTITIONS, ..MemoryConfig::default() }, Faults::none()))
    }

    fn partitions(&self) -> Partitions {
        PARTITIONS
    }

    fn open(&mut self) -> MemoryLog {
        self.0.open("lw-0", 0)
    }

    fn append(&mut self, partition: u32, key: &str, value: &str, timestamp_ms: i64) -> u64 {
        self.0.append(session(partition), Some(key.as_bytes()), Some(value.as_bytes()), timestamp_ms)
    }

    fn outputs(&mut self, feed: Feed) -> Vec<Seen> {
        let topic = match feed {
            Feed::Commands => MemoryTopic::Commands,
            Feed::DeadLetters => MemoryTopic::DeadLetters,
        };
        let seen = self.0.committed(topic).into_iter().map(|record| Seen {
            key: record.key.unwrap(),
            value: record.value,
            headers: record.headers.into_iter().map(|(name, value)| (name, value.unwrap())).collect(),
            timestamp_ms: record.timestamp_ms,
        });
        seen.collect()
    }

    fn state(&mut self, task: TaskId) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut state = BTreeMap::new();
        for record in
            self.0.committed(MemoryTopic::Changelog(task.stage)).into_iter().filter(|record| record.partition == task.partition)
        {
            match record.value {
                Some(value) => state.insert(record.key.unwrap(), value),
                None => state.remove(&record.key.unwrap()),
            };
        }
        state
    }

    fn committed(&mut self, task: TaskId) -> Option<NextOffset> {
        self.0.group_offset(task)
    }
}

impl Transactional for Memory {
    fn abort_next(&mut self, _log: &mut MemoryLog) {
        self.fault(Step::Offsets, Fault::Abort);
    }

    fn open_transaction(&mut self, output: &Output) -> Box<dyn FnOnce(bool)> {
        let open = self.0.open_transaction("foreign", output);
        Box::new(|commit| open.end(commit))
    }
}

impl Memory {
    fn fault(&self, step: Step, fault: Fault) {
        self.0.set_faults(Faults::script([(step, fault)]));
    }

    fn commands(&self) -> Vec<String> {
        self.0
            .committed(MemoryTopic::Commands)
            .into_iter()
            .map(|record| String::from_utf8(record.value.unwrap()).unwrap())
            .collect()
    }

    fn ready(&mut self) -> MemoryLog {
        let mut log = self.open();
        take_all(self, &mut log);
        log
    }
}

crate::contract!(contract, super::Memory);
crate::transactional_contract!(transactional, super::Memory);

fn try_commit(log: &mut MemoryLog, value: &str, next: u64) -> CommitOutcome {
    log.stage(command("s", value));
    log.commit(&[(session(0), NextOffset(next))])
}

fn poll(log: &mut MemoryLog) -> Result<LogEvent, LogError> {
    log.poll(Duration::ZERO, &mut |_, _| Flow::Continue)
}

/// Answers every rebalance event until nothing is new.
fn obey(log: &mut MemoryLog) {
    loop {
        match poll(log).unwrap() {
            LogEvent::Assigned(tasks) => log.assign(&tasks).unwrap(),
            LogEvent::Revoked(tasks) | LogEvent::Lost(tasks) => log.unassign(&tasks).unwrap(),
            LogEvent::Records(_) | LogEvent::End => return,
        }
    }
}

#[test]
fn a_lost_answer_hides_either_truth_and_a_reopen_shows_it() {
    for committed in [true, false] {
        let mut world = Memory::new();
        let mut log = world.ready();
        world.fault(Step::Commit, Fault::AnswerLost { committed });
        assert!(matches!(try_commit(&mut log, "c", 1), CommitOutcome::Unknown { .. }));
        let mut reader = log.changelog().unwrap().unwrap();
        if !committed {
            // Withheld while nobody knows (rule R3).
            assert!(matches!(reader.committed(session(0), Duration::ZERO), Err(LogError::Transient(_))));
            assert!(!world.0.is_settled());
        }
        log.reopen().unwrap();
        assert!(world.0.is_settled());
        assert_eq!(reader.committed(session(0), Duration::ZERO).unwrap(), committed.then_some(NextOffset(1)));
        assert_eq!(world.commands(), if committed { vec!["c"] } else { vec![] });
    }
}

#[test]
fn a_late_request_is_fenced_by_a_reopen() {
    let mut world = Memory::new();
    let mut log = world.ready();
    world.fault(Step::Commit, Fault::RequestLate);
    assert!(matches!(try_commit(&mut log, "late", 1), CommitOutcome::Unknown { .. }));
    log.reopen().unwrap();
    world.fault(Step::Offsets, Fault::Abort);
    assert!(matches!(try_commit(&mut log, "aborted", 1), CommitOutcome::Aborted { .. }));
    world.0.advance(1);
    assert_eq!(world.commands(), Vec::<String>::new());
    assert_eq!(world.committed(session(0)), None);
}

#[test]
fn a_late_request_commits_the_next_transaction_of_a_producer_that_was_kept() {
    let mut world = Memory::new();
    let mut log = world.ready();
    world.fault(Step::Commit, Fault::RequestLate);
    assert!(matches!(try_commit(&mut log, "late", 1), CommitOutcome::Unknown { .. }));
    // No reopen: what rule C15 forbids.
    world.fault(Step::Offsets, Fault::Abort);
    assert!(matches!(try_commit(&mut log, "aborted", 1), CommitOutcome::Aborted { .. }));
    assert_eq!(world.commands(), ["late"], "a transaction that was given up became visible");
}

#[test]
fn a_duplicate_request_after_an_ok_hits_nothing_since_the_producer_is_replaced() {
    let mut world = Memory::new();
    let mut log = world.ready();
    world.fault(Step::AfterCommit, Fault::DuplicateLate);
    assert!(matches!(try_commit(&mut log, "first", 1), CommitOutcome::Committed { .. }));
    world.fault(Step::Send, Fault::Abort);
    log.stage(command("s", "half"));
    assert!(matches!(try_commit(&mut log, "aborted", 2), CommitOutcome::Aborted { .. }));
    assert_eq!(world.commands(), ["first"]);
}

#[test]
fn markers_may_come_late_on_either_side() {
    for offsets_first in [true, false] {
        let mut world = Memory::new();
        let mut log = world.ready();
        world.fault(Step::AfterCommit, Fault::SlowMarkers { offsets_first });
        log.stage(change(session(0), b"\x02k", Some(b"v")));
        assert!(matches!(try_commit(&mut log, "c", 1), CommitOutcome::Committed { .. }));
        let mut reader = log.changelog().unwrap().unwrap();
        let offset = reader.committed(session(0), Duration::ZERO);
        if offsets_first {
            assert_eq!(offset.unwrap(), Some(NextOffset(1)));
            assert_eq!(reader.range(session(0)).unwrap().end, 0);
        } else {
            assert!(matches!(offset, Err(LogError::Transient(_))));
            assert_eq!(world.commands(), ["c"]);
        }
        world.0.advance(1);
        assert!(world.0.is_settled());
        assert_eq!((world.commands().len(), world.committed(session(0))), (1, Some(NextOffset(1))));
    }
}

#[test]
fn a_phantom_that_takes_the_id_fences_the_commit() {
    for step in [Step::Begin, Step::Send, Step::Offsets, Step::Commit] {
        let mut world = Memory::new();
        let mut log = world.ready();
        world.fault(step, Fault::Fenced);
        log.stage(command("s", "a"));
        assert!(matches!(try_commit(&mut log, "b", 1), CommitOutcome::Fenced { .. }), "{step:?}");
        assert!(matches!(try_commit(&mut log, "c", 1), CommitOutcome::Fenced { .. }), "{step:?}");
        log.reopen().unwrap();
        commit(&mut log, &[(session(0), 1)]);
        assert_eq!(world.commands(), Vec::<String>::new());
    }
}

#[test]
fn a_generation_that_moved_on_refuses_a_commit_until_the_next_poll() {
    let mut world = Memory::new();
    let mut log = world.ready();
    world.fault(Step::Send, Fault::Rebalance);
    let outcome = try_commit(&mut log, "a", 1);
    assert_eq!(outcome, CommitOutcome::Aborted { cause: "ILLEGAL_GENERATION".to_owned(), reopen: false });
    poll(&mut log).unwrap();
    assert!(matches!(try_commit(&mut log, "b", 1), CommitOutcome::Committed { .. }));
    assert_eq!(world.commands(), ["b"]);
}

#[test]
fn an_abort_that_fails_leaves_the_transaction_open_until_the_reopen() {
    let mut world = Memory::new();
    let mut log = world.ready();
    world.fault(Step::Offsets, Fault::Suspect);
    assert!(matches!(try_commit(&mut log, "a", 1), CommitOutcome::Aborted { reopen: true, .. }));
    assert!(!world.0.is_settled());
    log.reopen().unwrap();
    assert!(world.0.is_settled());
    assert_eq!(world.commands(), Vec::<String>::new());
}

#[test]
fn a_death_leaves_what_it_had_sent_and_the_successor_cleans_up() {
    for (step, visible) in [(Step::Begin, 0), (Step::Send, 0), (Step::Offsets, 0), (Step::Commit, 0), (Step::AfterCommit, 1)] {
        let mut world = Memory::new();
        let mut log = world.ready();
        world.fault(step, Fault::Die);
        assert!(matches!(try_commit(&mut log, "a", 1), CommitOutcome::Unknown { .. }));
        assert!(log.is_dead() && matches!(poll(&mut log), Err(LogError::Lost(_))));
        let _new = world.ready();
        assert!(world.0.is_settled(), "{step:?}");
        assert_eq!(world.commands().len(), visible, "{step:?}");
    }
}

#[test]
fn a_transaction_left_open_times_out_and_its_producer_is_fenced() {
    let mut world = Memory::new();
    let mut log = world.ready();
    world.fault(Step::Commit, Fault::AnswerLost { committed: false });
    assert!(matches!(try_commit(&mut log, "a", 1), CommitOutcome::Unknown { .. }));
    for _ in 0..11 {
        world.0.advance(1_000);
        poll(&mut log).unwrap();
    }
    assert!(world.0.is_settled());
    assert!(matches!(try_commit(&mut log, "b", 1), CommitOutcome::Fenced { .. }));
}

#[test]
fn tasks_move_only_when_their_owner_gave_them_back() {
    let world = Memory::new();
    let mut a = world.0.open("lw-0", 0);
    obey(&mut a);
    let mut b = world.0.open("lw-1", 0);
    obey(&mut b);
    assert_eq!(world.0.members(), ["lw-0-0", "lw-1-0"]);
    let LogEvent::Revoked(tasks) = poll(&mut a).unwrap() else { panic!("nothing was revoked") };
    assert_eq!(tasks.len(), 2, "one of three session tasks, one of two swarm tasks: {tasks:?}");
    assert_eq!(poll(&mut b).unwrap(), LogEvent::Records(0));
    // The commit that a revocation waits for is still valid.
    assert!(matches!(try_commit(&mut a, "last", 1), CommitOutcome::Committed { .. }));
    a.unassign(&tasks).unwrap();
    assert_eq!(poll(&mut b).unwrap(), LogEvent::Assigned(tasks.clone()));
    b.assign(&tasks).unwrap();
    assert_eq!(world.0.owner_of(tasks[0]).as_deref(), Some("lw-1-0"));
    b.close(true).unwrap();
    obey(&mut a);
    assert_eq!(world.0.owner_of(tasks[0]).as_deref(), Some("lw-0-0"));
}

#[test]
fn a_zombie_cannot_commit_and_learns_that_its_tasks_are_lost() {
    let world = Memory::new();
    let mut zombie = world.0.open("lw-0", 0);
    let mut other = world.0.open("lw-1", 0);
    for _ in 0..3 {
        obey(&mut zombie);
        obey(&mut other);
    }
    for _ in 0..11 {
        world.0.advance(1_000);
        obey(&mut other);
    }
    assert!((0..3).all(|n| world.0.owner_of(session(n)).as_deref() == Some("lw-1-0")));
    let outcome = try_commit(&mut zombie, "z", 1);
    assert_eq!(outcome, CommitOutcome::Aborted { cause: "UNKNOWN_MEMBER_ID".to_owned(), reopen: false });
    let LogEvent::Lost(tasks) = poll(&mut zombie).unwrap() else { panic!("nobody told it") };
    assert!(!tasks.is_empty());
    zombie.unassign(&tasks).unwrap();
    obey(&mut zombie);
    assert_eq!(world.0.members(), ["lw-0-0", "lw-1-0"]);
    assert_eq!(world.commands(), Vec::<String>::new());
}

#[test]
fn a_restart_in_time_moves_nothing_and_the_old_member_is_refused() {
    let mut world = Memory::new();
    let mut old = world.ready();
    let generation = world.0.generation();
    let mut new = world.ready();
    assert_eq!(world.0.generation(), generation);
    assert!(matches!(poll(&mut old), Err(LogError::Lost(cause)) if cause.starts_with("FENCED_INSTANCE_ID")));
    commit(&mut new, &[(session(0), 1)]);
}

#[test]
fn compaction_keeps_the_last_value_of_each_key_and_its_offset() {
    let mut world = Memory::new();
    let mut log = world.ready();
    for n in 0..3u8 {
        log.stage(change(session(0), b"\x02a", Some(&[n])));
        log.stage(change(session(0), b"\x02b", if n == 1 { None } else { Some(b"v") }));
        log.stage(change(session(0), b"\x02c", None));
        commit(&mut log, &[(session(0), u64::from(n))]);
    }
    let before = world.state(session(0));
    let last = world.0.committed(MemoryTopic::Changelog(Stage::Session)).iter().map(|record| record.offset).max();
    world.0.compact(session(0), false);
    let kept = world.0.committed(MemoryTopic::Changelog(Stage::Session));
    assert_eq!(kept.len(), 3);
    assert_eq!(kept.iter().map(|record| record.offset).max(), last);
    assert_eq!(world.state(session(0)), before);
    world.0.compact(session(0), true);
    assert_eq!(world.0.committed(MemoryTopic::Changelog(Stage::Session)).len(), 2);
    assert_eq!(world.state(session(0)), before);
}

#[test]
fn input_that_was_trimmed_away_is_an_error_and_not_a_silent_jump() {
    let mut world = Memory::new();
    let mut log = world.ready();
    for n in 0..3 {
        world.append(0, "s", "x", n);
    }
    world.0.trim_input(session(0), 2);
    assert!(matches!(poll(&mut log), Err(LogError::OutOfRange(cause)) if cause.contains("OFFSET_OUT_OF_RANGE")));
    // As librdkafka: said once, and nothing more of the task before it is started anew.
    assert_eq!(poll(&mut log).unwrap(), LogEvent::Records(0));
    log.start(session(0), NextOffset(world.0.input_range(session(0)).start)).unwrap();
    assert_eq!(poll(&mut log).unwrap(), LogEvent::Records(1));
}

/// A lane that knows nothing but its rules: it copies each event to a command, and after anything but an Ok it goes back to the
/// committed offset.
fn run(seed: u64) -> (Vec<String>, Vec<(String, Step, Fault)>) {
    let mut world = Memory::new();
    for n in 0..60 {
        world.append(n % 3, "s", &format!("{n}"), i64::from(n));
    }
    world.0.set_faults(Faults::seed(seed, 120));
    let mut log = world.open();
    let mut tasks: Vec<TaskId> = Vec::new();
    let mut fired = Vec::new();
    for round in 0..3_000 {
        if round == 2_500 {
            fired = world.0.set_faults(Faults::none()).fired().to_vec();
        }
        world.0.advance(10);
        if log.is_dead() {
            log = world.open();
            tasks.clear();
        }
        let mut next: BTreeMap<TaskId, u64> = BTreeMap::new();
        let mut outputs = Vec::new();
        let event = log.poll(Duration::ZERO, &mut |task, record| {
            next.insert(task, record.meta.offset.next().0);
            if task.stage == Stage::Session {
                outputs.push(Output {
                    destination: Destination::Commands,
                    ..command("s", std::str::from_utf8(record.value.unwrap()).unwrap())
                });
            }
            if next.len() + outputs.len() >= 5 { Flow::Stop } else { Flow::Continue }
        });
        let outcome = match event {
            Ok(LogEvent::Assigned(more)) => {
                log.assign(&more).unwrap();
                tasks.extend(more);
                CommitOutcome::Unknown { cause: String::new() }
            }
            Ok(LogEvent::Records(count)) if count > 0 => {
                for output in outputs {
                    log.stage(output);
                }
                log.commit(&next.iter().map(|(task, next)| (*task, NextOffset(*next))).collect::<Vec<_>>())
            }
            Ok(LogEvent::Revoked(lost) | LogEvent::Lost(lost)) => {
                log.unassign(&lost).unwrap();
                tasks.retain(|task| !lost.contains(task));
                continue;
            }
            Err(LogError::Lost(cause)) if !log.is_dead() => {
                while let Err(error) = log.rejoin(&cause) {
                    assert!(matches!(error, LogError::Transient(_)), "{error}");
                }
                tasks.clear();
                continue;
            }
            _ => continue,
        };
        match outcome {
            CommitOutcome::Committed { .. } | CommitOutcome::Aborted { reopen: false, .. } => {}
            _ if log.is_dead() => continue,
            _ => log.reopen().unwrap(),
        }
        let mut reader = log.changelog().unwrap().unwrap();
        for task in &tasks {
            let mut next = reader.committed(*task, Duration::ZERO);
            if next.is_err() {
                world.0.advance(1);
                next = reader.committed(*task, Duration::ZERO);
            }
            log.start(*task, next.unwrap().unwrap_or_default()).unwrap();
        }
    }
    assert!(world.0.is_settled());
    (world.commands(), fired)
}

#[test]
fn whatever_strikes_a_careful_lane_answers_every_event_once() {
    let mut kinds: Vec<(Step, Fault)> = Vec::new();
    for seed in 0..60 {
        let (mut commands, fired) = run(seed);
        commands.sort_by_key(|value| value.parse::<u32>().unwrap());
        assert_eq!(commands, (0..60).map(|n| n.to_string()).collect::<Vec<_>>(), "seed {seed}");
        for (_, step, fault) in fired {
            if !kinds.contains(&(step, fault)) {
                kinds.push((step, fault));
            }
        }
    }
    let all: usize = [Step::Poll, Step::Rejoin, Step::Begin, Step::Send, Step::Offsets, Step::Commit, Step::AfterCommit]
        .iter()
        .map(|step| step.faults().len())
        .sum();
    assert_eq!(kinds.len(), all, "every fault has struck at every step it makes sense at");
}

#[test]
fn faults_of_a_seed_come_in_the_same_order() {
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).1, run(8).1);
}
