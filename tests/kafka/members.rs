//! Membership: who holds which task, and how it moves.

use std::{collections::BTreeSet, sync::mpsc::sync_channel, thread, time::Duration};

use loopwarden::event::{NextOffset, TaskId};
use loopwarden::log::{CommitOutcome, Destination, Flow, Log, LogError, LogEvent};
use loopwarden::{clock::Deadline, log::kafka::KafkaLog};

use crate::proxy::{Action, CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP, LIST_GROUPS, LIST_OFFSETS, Side};
use crate::world::{PATIENCE, World, commit, committed, join, next, output, session, swarm, take};
use crate::{broker, unknown};

/// A lane that answers every event, as the real one does.
pub(crate) struct Lane {
    pub(crate) log: KafkaLog,
    pub(crate) held: BTreeSet<TaskId>,
    revoked: usize,
}

impl Lane {
    pub(crate) fn new(log: KafkaLog) -> Self {
        Self { log, held: BTreeSet::new(), revoked: 0 }
    }

    pub(crate) fn turn(&mut self) {
        let event = match self.log.poll(Duration::from_millis(20), &mut |_, _| Flow::Continue) {
            // Its former self is still there.
            Err(LogError::Lost(cause)) if self.held.is_empty() => return self.log.rejoin(&cause).expect("tried again"),
            polled => polled.expect("a poll"),
        };
        match event {
            LogEvent::Assigned(tasks) => {
                self.log.assign(&tasks).expect("assigned");
                self.held.extend(tasks);
            }
            LogEvent::Revoked(tasks) => {
                self.revoked += tasks.len();
                self.log.unassign(&tasks).expect("unassigned");
                self.held.retain(|task| !tasks.contains(task));
            }
            LogEvent::Lost(tasks) => panic!("lost {tasks:?}"),
            LogEvent::Records(_) | LogEvent::End => {}
        }
    }
}

pub(crate) fn turn_until(lanes: &mut [&mut Lane], what: &str, done: impl Fn(&[&mut Lane]) -> bool) {
    let deadline = Deadline::after(PATIENCE);
    while !done(lanes) {
        assert!(!deadline.is_over(), "{what} never came");
        for lane in lanes.iter_mut() {
            lane.turn();
        }
    }
}

#[test]
pub(crate) fn tasks_move_from_one_lane_to_two_and_back() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 2);
    let all: BTreeSet<TaskId> = [session(0), session(1), swarm(0), swarm(1)].into();
    let mut first = Lane::new(world.open());
    turn_until(&mut [&mut first], "the whole assignment", |lanes| lanes[0].held == all);

    let mut second = Lane::new(KafkaLog::open(world.options_of("lw-1", 0)).expect("a second lane"));
    turn_until(&mut [&mut first, &mut second], "an even share", |lanes| lanes[0].held.len() == 2 && lanes[1].held.len() == 2);
    assert!(first.held.is_disjoint(&second.held));
    assert_eq!(first.revoked, 2, "cooperative: only what moves is taken away");

    second.log.close(true).expect("left");
    turn_until(&mut [&mut first], "everything back", |lanes| lanes[0].held == all);
    assert_eq!(first.revoked, 2);
}

#[test]
pub(crate) fn a_task_is_read_from_the_offset_it_is_started_at() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    world.produce(&[(0, "a", "e0"), (0, "a", "e1"), (0, "a", "e2")]);
    let mut log = world.open();
    join(&mut log, 2);
    let quiet = log.poll(Duration::from_millis(300), &mut |task, _| panic!("{task} is not started"));
    assert_eq!(quiet, Ok(LogEvent::Records(0)));
    log.start(session(0), NextOffset(1)).expect("started");
    assert_eq!(take(&mut log, 2), vec![(session(0), 1, "e1".to_owned()), (session(0), 2, "e2".to_owned())]);
    log.start(session(0), NextOffset(0)).expect("rewound");
    assert_eq!(take(&mut log, 1)[0].1, 0);
}

#[test]
fn a_late_word_on_where_an_input_begins_takes_no_task_back_there() {
    let Some((proxy, bootstrap)) = unknown::proxied() else { return };
    let world = World::new(&bootstrap, 1);
    world.produce(&[(0, "a", "e0"), (0, "a", "e1")]);
    let client = format!("{}-consumer", world.options.transactional_id());
    proxy.arm(&client, LIST_OFFSETS, Side::Answer, Action::Hold, usize::MAX);
    let mut log = world.open();
    join(&mut log, 2);
    log.start(session(0), NextOffset(1)).expect("started");
    proxy.release(&client);
    assert_eq!(take(&mut log, 1), vec![(session(0), 1, "e1".to_owned())]);
    // The client asks again after half a second.
    let deadline = Deadline::after(Duration::from_millis(1_500));
    while !deadline.is_over() {
        let quiet = log.poll(deadline.left(), &mut |_, record| panic!("offset {} once more", record.meta.offset.0));
        assert_eq!(quiet, Ok(LogEvent::Records(0)));
    }
}

#[test]
pub(crate) fn a_paused_task_hands_over_nothing_until_it_is_started_again() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 2);
    world.produce(&[(0, "a", "e0"), (0, "a", "e1"), (1, "b", "e2")]);
    let mut log = world.running(2);
    take(&mut log, 3);
    log.pause(session(0)).expect("paused");
    world.produce(&[(0, "a", "e3"), (1, "b", "e4")]);
    assert_eq!(take(&mut log, 1), vec![(session(1), 1, "e4".to_owned())]);
    let quiet = log.poll(Duration::from_millis(300), &mut |task, _| panic!("{task} is paused"));
    assert_eq!(quiet, Ok(LogEvent::Records(0)));
    log.start(session(0), NextOffset(2)).expect("started");
    assert_eq!(take(&mut log, 1), vec![(session(0), 2, "e3".to_owned())]);
}

#[test]
fn a_handler_that_stops_gets_the_next_record_in_the_next_poll() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let events: Vec<(i32, &str, &str)> = (0..50).map(|_| (0, "a", "e")).collect();
    world.produce(&events);
    let mut log = world.running(1);
    let mut offsets = Vec::new();
    while offsets.len() < 50 {
        offsets.extend(take(&mut log, 1).into_iter().map(|(_, offset, _)| offset));
    }
    assert_eq!(offsets, (0..50).collect::<Vec<_>>());
}

/// A lane that has not polled for its whole interval, and another one that has its tasks and has committed.
pub(crate) fn stalled(world: &World) -> (KafkaLog, Lane) {
    let mut asleep = World { options: world.options.clone() };
    // Short, so that the test is; long enough for a busy machine to join within. This lane then sleeps through it.
    asleep.set_session(6_000, 1_000);
    asleep.options.native.consumer.insert("max.poll.interval.ms".to_owned(), "6000".to_owned());
    let mut stalled = KafkaLog::open(asleep.options).expect("a log");
    join(&mut stalled, 2);
    let mut other = Lane::new(KafkaLog::open(world.options_of("lw-1", 0)).expect("a second lane"));
    // Only the other lane turns: the first one has not polled for its whole interval when the tasks move.
    turn_until(&mut [&mut other], "the stalled lane's tasks", |lanes| lanes[0].held.len() == 2);
    commit(&mut other.log, &[(session(0), 1)]);
    (stalled, other)
}

#[test]
pub(crate) fn a_lane_that_lost_its_membership_cannot_commit() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let (mut stalled, other) = stalled(&world);
    stalled.stage(output(Destination::Commands, "a", "too late"));
    let outcome = stalled.commit(&next(&[(session(0), 9)]));
    assert!(matches!(outcome, CommitOutcome::Aborted { .. } | CommitOutcome::Fenced { .. }), "{outcome:?}");
    assert_eq!(committed(&other.log, session(0)), Some(NextOffset(1)));
    assert_eq!(world.values(&world.options.topics.commands), Vec::<String>::new());
}

#[test]
fn a_log_closes_although_nobody_has_answered_that_its_tasks_are_lost() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let (mut stalled, mut other) = stalled(&world);
    let deadline = Deadline::after(PATIENCE);
    let mut held = BTreeSet::from([session(0), swarm(0)]);
    loop {
        assert!(!deadline.is_over(), "it never learns");
        other.turn();
        match stalled.poll(Duration::from_millis(20), &mut |_, _| Flow::Continue) {
            Ok(LogEvent::Lost(tasks) | LogEvent::Revoked(tasks)) => {
                held.retain(|task| !tasks.contains(task));
                if held.is_empty() {
                    break;
                }
                stalled.unassign(&tasks).expect("let go");
            }
            Ok(LogEvent::Assigned(tasks)) => stalled.assign(&tasks).expect("assigned"),
            Ok(_) | Err(LogError::Transient(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let (closed, is_closed) = sync_channel(1);
    thread::spawn(move || {
        drop(stalled);
        closed.send(())
    });
    is_closed.recv_timeout(PATIENCE).expect("it closes");
}

#[test]
pub(crate) fn a_member_that_was_forgotten_commits_nothing_under_its_new_name() {
    let Some((proxy, bootstrap)) = unknown::proxied() else { return };
    let world = World::new(&bootstrap, 1);
    let mut short = World { options: world.options.clone() };
    short.set_session(6_000, 500);
    short.options.native.consumer.insert("max.poll.interval.ms".to_owned(), "6000".to_owned());
    let options = short.options;
    let mut forgotten = Lane::new(KafkaLog::open(options.clone()).expect("a log"));
    turn_until(&mut [&mut forgotten], "the assignment", |lanes| lanes[0].held.len() == 2);
    forgotten.log.start(session(0), NextOffset(0)).expect("started");
    commit(&mut forgotten.log, &[(session(0), 3)]);

    // It is to join anew, since another one comes, and nobody hears it for a whole session.
    let client = format!("{}-consumer", options.transactional_id());
    for api in [JOIN_GROUP, CONSUMER_GROUP_HEARTBEAT] {
        proxy.arm(&client, api, Side::Request, Action::Cut, usize::MAX);
    }
    let mut other = Lane::new(KafkaLog::open(world.options_of("lw-1", 0)).expect("a second lane"));
    turn_until(&mut [&mut forgotten, &mut other], "the forgotten lane's tasks", |lanes| lanes[1].held.len() == 2);
    commit(&mut other.log, &[(session(0), 100)]);
    assert!(proxy.release(&client) > 0);

    // From here on the group knows it again, by another name.
    let mut outcomes = Vec::new();
    let mut late = |log: &mut KafkaLog| {
        log.stage(output(Destination::Commands, "a", "too late"));
        outcomes.push(log.commit(&next(&[(session(0), 4)])));
        let _ = log.reopen();
    };
    let deadline = Deadline::after(PATIENCE);
    loop {
        assert!(!deadline.is_over(), "it never learns");
        late(&mut forgotten.log);
        other.turn();
        match forgotten.log.poll(Duration::from_millis(20), &mut |_, _| Flow::Continue).expect("a poll") {
            LogEvent::Revoked(tasks) | LogEvent::Lost(tasks) => {
                late(&mut forgotten.log);
                forgotten.log.unassign(&tasks).expect("unassigned");
                break;
            }
            LogEvent::Assigned(tasks) => forgotten.log.assign(&tasks).expect("assigned"),
            LogEvent::Records(_) | LogEvent::End => {}
        }
    }
    let is_refused = |outcome: &CommitOutcome| matches!(outcome, CommitOutcome::Aborted { .. } | CommitOutcome::Fenced { .. });
    assert!(outcomes.iter().all(is_refused), "{outcomes:?}");
    assert_eq!(committed(&other.log, session(0)), Some(NextOffset(100)));
    assert_eq!(world.values(&world.options.topics.commands), Vec::<String>::new());
}

/// A lane that holds its tasks, and another one of the same name.
fn twins(world: &World) -> (Lane, Lane) {
    let mut first = Lane::new(world.open());
    turn_until(&mut [&mut first], "the assignment", |lanes| lanes[0].held.len() == 2);
    (first, Lane::new(KafkaLog::open(world.options.clone()).expect("its twin")))
}

/// Turns both until the first is told that the second has its place; the words.
fn fenced(first: &mut Lane, second: &mut Lane) -> String {
    let deadline = Deadline::after(PATIENCE);
    let fate = loop {
        assert!(!deadline.is_over(), "the first never learns");
        second.turn();
        match first.log.poll(Duration::from_millis(20), &mut |_, _| Flow::Continue) {
            Ok(LogEvent::Lost(tasks) | LogEvent::Revoked(tasks)) => first.log.unassign(&tasks).expect("let go"),
            Ok(_) | Err(LogError::Transient(_)) => {}
            Err(error) => break error,
        }
    };
    match fate {
        LogError::Lost(cause) if cause.starts_with("E0501") => cause,
        other => panic!("{other:?}"),
    }
}

/// Asks for its place until the group has said whose it is.
fn rejoined(lane: &mut Lane, cause: &str) -> Result<(), LogError> {
    let deadline = Deadline::after(PATIENCE);
    loop {
        assert!(!deadline.is_over(), "the group never says whose place it is");
        match lane.log.rejoin(cause) {
            Err(LogError::Transient(_)) => {}
            said => return said,
        }
    }
}

#[test]
fn a_second_member_of_the_same_static_id_makes_the_first_one_lost() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let (mut first, mut second) = twins(&world);
    fenced(&mut first, &mut second);
}

#[test]
fn a_place_is_taken_back_from_nobody_who_speaks_for_it_and_where_nobody_does_it_is() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let (mut first, mut second) = twins(&world);
    let cause = fenced(&mut first, &mut second);
    // The twin's client speaks to the group without being polled.
    assert_eq!(rejoined(&mut first, &cause), Err(LogError::Lost(cause)));
    turn_until(&mut [&mut second], "the twin's tasks", |lanes| lanes[0].held.len() == 2);
    let mut third = Lane::new(KafkaLog::open(world.options.clone()).expect("another twin"));
    let cause = fenced(&mut second, &mut third);
    // As a process that is killed: the group knows it still.
    third.log.close(false).expect("closed");
    second.held.clear();
    assert_eq!(rejoined(&mut second, &cause), Ok(()));
    turn_until(&mut [&mut second], "its tasks", |lanes| lanes[0].held.len() == 2);
}

#[test]
fn a_place_is_asked_for_until_somebody_can_say_whose_it_is() {
    let Some((proxy, bootstrap)) = unknown::proxied() else { return };
    let world = World::new(&bootstrap, 1);
    let (mut first, mut second) = twins(&world);
    let cause = fenced(&mut first, &mut second);
    second.log.close(false).expect("closed");
    let client = format!("{}-place", first.log.owner());
    proxy.arm(&client, LIST_GROUPS, Side::Request, Action::Cut, usize::MAX);
    for _ in 0..2 {
        assert!(matches!(first.log.rejoin(&cause), Err(LogError::Transient(_))));
        assert_eq!(first.log.poll(Duration::ZERO, &mut |_, _| Flow::Continue), Err(LogError::Lost(cause.clone())));
    }
    assert!(proxy.release(&client) > 1);
    first.held.clear();
    assert_eq!(rejoined(&mut first, &cause), Ok(()));
    turn_until(&mut [&mut first], "its tasks", |lanes| lanes[0].held.len() == 2);
}

#[test]
pub(crate) fn a_restart_within_the_session_keeps_its_tasks_without_a_rebalance() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut world = World::new(bootstrap, 2);
    // However slow the machine is, the restart takes less than that.
    world.set_session(45_000, 1_000);
    let mut first = Lane::new(world.open());
    let mut second = Lane::new(KafkaLog::open(world.options_of("lw-1", 0)).expect("a second lane"));
    turn_until(&mut [&mut first, &mut second], "an even share", |lanes| lanes[0].held.len() == 2 && lanes[1].held.len() == 2);
    let (before, revoked) = (second.held.clone(), first.revoked);
    second.log.close(false).expect("closed");
    let mut second = Lane::new(KafkaLog::open(world.options_of("lw-1", 0)).expect("the same again"));
    turn_until(&mut [&mut first, &mut second], "its tasks", |lanes| lanes[1].held.len() == 2);
    assert_eq!(second.held, before);
    assert_eq!(first.revoked, revoked, "nothing moved");
}

#[test]
fn a_closed_log_refuses_work() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.open();
    log.close(false).expect("closed");
    assert!(matches!(log.poll(Duration::ZERO, &mut |_, _| Flow::Continue), Err(LogError::Lost(_))));
    assert!(matches!(log.commit(&next(&[(session(0), 0)])), CommitOutcome::Aborted { .. }));
    log.close(false).expect("closed again");
}

#[test]
pub(crate) fn a_commit_after_a_rebalance_shows_the_new_generation() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 2);
    let mut first = Lane::new(world.open());
    turn_until(&mut [&mut first], "the whole assignment", |lanes| lanes[0].held.len() == 4);
    let kept = |lane: &Lane| *lane.held.iter().next().expect("a task");
    let task = kept(&first);
    commit(&mut first.log, &[(task, 1)]);
    let mut second = Lane::new(KafkaLog::open(world.options_of("lw-1", 0)).expect("a second lane"));
    turn_until(&mut [&mut first, &mut second], "an even share", |lanes| lanes[0].held.len() == 2 && lanes[1].held.len() == 2);
    let task = kept(&first);
    // The group refuses what is said under the generation before, until the lane has heard of the new one.
    let deadline = Deadline::after(PATIENCE);
    while !matches!(first.log.commit(&next(&[(task, 2)])), CommitOutcome::Committed { .. }) {
        assert!(!deadline.is_over(), "never under the new generation");
        first.turn();
        second.turn();
    }
    assert_eq!(committed(&first.log, task), Some(NextOffset(2)));
}
