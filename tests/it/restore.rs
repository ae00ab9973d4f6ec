//! The restore machine, step by step: what it trusts, what it waits for, what it saves on the way.

use std::{cell::Cell, sync::Arc, time::Duration};

use loopwarden::event::{NextOffset, TaskId};
use loopwarden::log::{Changelog, ChangelogRange, Flow, Log, LogError};
use loopwarden::store::{Change, KeyFamily, MemoryStore, Position, StateKey, StateStore};
use loopwarden::task::{Clock, CommitTrigger, LaneSettings, Leases, Restore, RestoreStep, Task};
use loopwarden_sim::{Fault, Faults, MemoryConfig, Step};

use crate::world::{Fed, PARTITIONS, TestWorld, WALL_MS, config, feed, fleet, reference, session_task, settings};

const HOUR_MS: i64 = 3_600_000;

/// A clock that the test moves; the broker's stands still.
struct At(Cell<i64>);

impl Clock for At {
    fn mono_us(&self) -> u64 {
        self.0.get() as u64 * 1_000
    }

    fn wall_ms(&self) -> i64 {
        WALL_MS + self.0.get()
    }
}

fn restore(id: TaskId, store: impl StateStore + 'static) -> Restore {
    Restore::new(Task::new(id, Leases::new().take(id).unwrap()), Box::new(store), Arc::new(LaneSettings::default()))
}

fn position(store: &impl StateStore, id: TaskId) -> Option<Position> {
    store.get(id, &StateKey::position()).unwrap().map(|bytes| Position::decode(&bytes).unwrap())
}

#[test]
fn brokers_that_are_away_are_asked_less_and_less_often() {
    struct Away;
    impl Changelog for Away {
        fn committed(&mut self, _task: TaskId, _wait: Duration) -> Result<Option<NextOffset>, LogError> {
            unreachable!("the range is asked for first")
        }

        fn range(&mut self, _task: TaskId) -> Result<ChangelogRange, LogError> {
            Err(LogError::Transient("no leader".to_owned()))
        }

        fn high_watermark(&mut self, _task: TaskId) -> Result<u64, LogError> {
            unreachable!("the range is asked for first")
        }

        fn input_range(&mut self, _task: TaskId) -> Result<ChangelogRange, LogError> {
            unreachable!("the range is asked for first")
        }

        fn read(
            &mut self,
            _task: TaskId,
            _from: u64,
            _handler: &mut dyn FnMut(u64, &[u8], Option<&[u8]>) -> Flow,
        ) -> Result<u64, LogError> {
            unreachable!("the range is asked for first")
        }

        fn first_offset(&mut self, _task: TaskId) -> Result<NextOffset, LogError> {
            unreachable!("the range is asked for first")
        }
    }
    let clock = At(Cell::new(WALL_MS));
    let mut restore = restore(session_task(0), MemoryStore::new());
    let mut pauses_ms = Vec::new();
    let failed = loop {
        match restore.step(Some(&mut Away), &clock) {
            RestoreStep::Again(wait_ms) => {
                pauses_ms.push(wait_ms);
                clock.0.set(clock.0.get() + wait_ms as i64);
            }
            ended => break ended,
        }
    };
    assert!(matches!(failed, RestoreStep::Failed(_)), "{failed:?}");
    assert_eq!(pauses_ms[..6], [50, 50, 50, 50, 50, 62]);
    assert!(pauses_ms.is_sorted() && pauses_ms.last() == Some(&1_000), "{pauses_ms:?}");
    assert!(pauses_ms.iter().sum::<u64>() >= 180_000);
}

/// A changelog so large that a restore saves its progress on the way: one key, written again and again.
struct Large;

const LARGE_RECORDS: u64 = 1_000;

impl Changelog for Large {
    fn committed(&mut self, _task: TaskId, _wait: Duration) -> Result<Option<NextOffset>, LogError> {
        Ok(None)
    }

    fn range(&mut self, _task: TaskId) -> Result<ChangelogRange, LogError> {
        Ok(ChangelogRange { start: 0, end: LARGE_RECORDS })
    }

    fn high_watermark(&mut self, _task: TaskId) -> Result<u64, LogError> {
        Ok(LARGE_RECORDS)
    }

    fn input_range(&mut self, _task: TaskId) -> Result<ChangelogRange, LogError> {
        Ok(ChangelogRange { start: 0, end: 0 })
    }

    fn read(
        &mut self,
        _task: TaskId,
        from: u64,
        handler: &mut dyn FnMut(u64, &[u8], Option<&[u8]>) -> Flow,
    ) -> Result<u64, LogError> {
        let (key, value) = (StateKey::new(KeyFamily::Head, b"s".to_vec()).to_changelog(), vec![0; 5 << 20]);
        for offset in from..LARGE_RECORDS {
            if handler(offset, &key, Some(&value)) == Flow::Stop {
                return Ok(offset + 1);
            }
        }
        Ok(LARGE_RECORDS)
    }

    fn first_offset(&mut self, _task: TaskId) -> Result<NextOffset, LogError> {
        Ok(NextOffset(0))
    }
}

#[test]
fn a_restore_that_was_cut_short_does_not_make_its_state_look_younger() {
    let (id, mut store, clock) = (session_task(0), MemoryStore::new(), At(Cell::new(70 * HOUR_MS)));
    let old = Position { changelog_next: 1, at_end_ms: WALL_MS, ..Position::default() };
    let value = Some(old.encode_for_store().unwrap());
    store.commit(vec![Change { task: id, key: StateKey::position(), value }]).unwrap();
    let mut first = restore(id, store.clone());
    while position(&store, id).is_some_and(|position| position.changelog_next == 1) {
        assert!(matches!(first.step(Some(&mut Large), &clock), RestoreStep::Again(0)));
    }
    let saved = position(&store, id).unwrap();
    assert!((2..LARGE_RECORDS).contains(&saved.changelog_next), "{saved:?}");
    assert_eq!(saved.at_end_ms, WALL_MS);
    // Two days later deletions that lie in the rest may be gone from the changelog.
    clock.0.set(120 * HOUR_MS);
    drop(first);
    let mut second = restore(id, store.clone());
    assert!(matches!(second.step(Some(&mut Large), &clock), RestoreStep::Again(0)));
    assert_eq!(position(&store, id), None);
}

/// A world in which a commit is decided, and its markers are not in the changelog yet; and a task that it touched. It comes after so many
/// records.
fn undecided(settled: usize) -> (TestWorld, TaskId) {
    let records = fleet(7, 80);
    let mut world = small_commits(&records[..settled]);
    let id = cut_off(&mut world, &records[settled..]);
    (world, id)
}

/// A world that has read these records, and commits whenever a few records, or a session or two, have been dealt with.
fn small_commits(settled: &[Fed]) -> TestWorld {
    let trigger = CommitTrigger::Timed { max_ms: 100, min_ms: 5 };
    let mut world = TestWorld::new(config(10), LaneSettings { overlay_records_max: 5, cache_bytes_max: 1, ..settings(trigger) });
    if !settled.is_empty() {
        feed(&world.broker, settled);
        world.start("lw", 1);
        assert!(world.settle());
    }
    world
}

/// Reads on until a commit is decided whose markers do not come. Returns a task that it touched.
fn cut_off(world: &mut TestWorld, records: &[Fed]) -> TaskId {
    world.broker.set_faults(Faults::script([(Step::AfterCommit, Fault::SlowMarkers { offsets_first: true })]));
    feed(&world.broker, records);
    if world.processes.is_empty() {
        world.start("lw", 1);
    }
    let is_beyond = |world: &TestWorld, id: TaskId| {
        let next = position(&world.processes[0].store, id).map_or(0, |position| position.changelog_next);
        next > world.broker.changelog_range(id).end
    };
    for _ in 0..100 {
        if let Some(id) = (0..PARTITIONS).map(session_task).find(|id| is_beyond(world, *id)) {
            return id;
        }
        world.turn(0, 0);
    }
    panic!("no commit was cut off");
}

/// Steps a restore for ten minutes in which nothing comes; then the markers do.
fn waits_and_is_ready(world: &TestWorld, mut restore: Restore) -> Position {
    let clock = At(Cell::new(0));
    let mut changelog = world.processes[0].lanes[0].as_ref().unwrap().log().changelog().unwrap().unwrap();
    for _ in 0..600 {
        let step = restore.step(Some(&mut *changelog), &clock);
        assert!(matches!(step, RestoreStep::Again(_)), "{step:?}");
        clock.0.set(clock.0.get() + 1_000);
    }
    world.broker.advance(1);
    for _ in 0..100 {
        match restore.step(Some(&mut *changelog), &clock) {
            RestoreStep::Again(wait_ms) => clock.0.set(clock.0.get() + wait_ms as i64),
            RestoreStep::Ready(ready) => return ready.position,
            RestoreStep::Failed(error) => panic!("{error}"),
        }
    }
    panic!("not ready");
}

#[test]
fn state_ahead_of_the_last_stable_offset_is_kept_while_a_marker_is_on_its_way() {
    let (world, id) = undecided(40);
    let store = world.processes[0].store.clone();
    let (before, keys) = (position(&store, id).unwrap(), store.memory.len());
    let after = waits_and_is_ready(&world, restore(id, store.clone()));
    assert_eq!(after.deterministic(), before.deterministic());
    assert_eq!(store.memory.len(), keys);
}

#[test]
fn a_changelog_behind_the_group_is_waited_for_as_long_as_a_marker_is_missing() {
    let (world, id) = undecided(40);
    let wanted = position(&world.processes[0].store, id).unwrap();
    // A disk that has nothing of it.
    let after = waits_and_is_ready(&world, restore(id, MemoryStore::new()));
    assert_eq!(after.next_offset, world.broker.group_offset(id).unwrap());
    assert_eq!(after.deterministic(), wanted.deterministic());
}

#[test]
fn a_commit_of_timers_alone_is_waited_for_while_its_marker_is_missing() {
    let records = fleet(7, 80);
    let mut world = small_commits(&records);
    // More timers fall due with it than one commit takes: the first of them moves no offset.
    let time = records[79].2 + HOUR_MS;
    let event = format!(r#"{{"id":"last","kind":"progress","session_id":"hot","time":{time}}}"#);
    let id = cut_off(&mut world, &[("hot".to_owned(), Some(event.into_bytes()), time)]);
    let wanted = position(&world.processes[0].store, id).unwrap();
    assert_eq!(world.broker.group_offset(id), Some(wanted.next_offset));
    assert_eq!(wanted.next_offset.0 + 1, world.broker.input_range(id).end);
    let after = waits_and_is_ready(&world, restore(id, MemoryStore::new()));
    assert_eq!(after.deterministic(), wanted.deterministic());
}

#[test]
fn an_empty_changelog_is_waited_for_while_the_marker_of_its_first_commit_is_missing() {
    let (world, id) = undecided(0);
    assert_eq!(world.broker.changelog_range(id).end, 0);
    let after = waits_and_is_ready(&world, restore(id, MemoryStore::new()));
    assert_eq!(after.next_offset, world.broker.group_offset(id).unwrap());
}

#[test]
fn what_a_dead_lane_left_open_is_ended_by_its_successor_once_the_group_has_forgotten_it() {
    let records = fleet(7, 160);
    for step in [Step::Send, Step::Offsets, Step::Commit] {
        // No broker ends a transaction for its age.
        let config = MemoryConfig { transaction_timeout_ms: i64::MAX / 2, ..config(10) };
        let mut world = TestWorld::new(config, settings(CommitTrigger::Timed { max_ms: 100, min_ms: 5 }));
        feed(&world.broker, &records[..80]);
        world.start("a", 1);
        assert!(world.settle());
        world.restarts = false;
        world.broker.set_faults(Faults::script([(step, Fault::Die)]));
        feed(&world.broker, &records[80..]);
        while world.processes[0].lanes[0].is_some() {
            world.turn(0, 0);
            world.broker.advance(10);
        }
        assert!(!world.broker.is_settled(), "{step:?}: nothing is open");
        world.start("b", 1);
        assert!(world.settle(), "{step:?}: {:?}", world.exits);
        assert_eq!(world.broker.members(), ["b-0"]);
        world.audit();
        world.outcome().assert_is(&reference(&records), &format!("{step:?}"));
    }
}
