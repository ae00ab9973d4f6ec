//! The consumer protocol (KIP-848): the same claims as under the classic one, and what it alone does.

use std::time::Duration;

use loopwarden::log::kafka::{GroupProtocol, KafkaLog, KafkaOptions};
use loopwarden::log::{Flow, Log, LogError, LogEvent};
use loopwarden::{clock::Deadline, event::NextOffset};

use crate::broker;
use crate::members::{Lane, stalled, turn_until};
use crate::world::{PATIENCE, World, commit, committed, session, speak};

macro_rules! also_under_the_consumer_protocol {
    ($($module:ident::$name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                speak(GroupProtocol::Consumer);
                crate::$module::$name();
            }
        )+
    };
}

also_under_the_consumer_protocol! {
    closing::a_lane_closes_at_each_moment_of_a_rebalance,
    members::tasks_move_from_one_lane_to_two_and_back,
    members::a_task_is_read_from_the_offset_it_is_started_at,
    members::a_paused_task_hands_over_nothing_until_it_is_started_again,
    members::a_lane_that_lost_its_membership_cannot_commit,
    members::a_member_that_was_forgotten_commits_nothing_under_its_new_name,
    members::a_restart_within_the_session_keeps_its_tasks_without_a_rebalance,
    members::a_commit_after_a_rebalance_shows_the_new_generation,
    processes::a_process_that_was_stopped_beyond_its_session_wakes_up_and_publishes_nothing_twice,
    processes::processes_join_and_leave_under_load_and_nothing_shows,
    processes::a_lost_disk_is_restored_from_the_changelog_through_three_more_deaths,
    restart::a_killed_process_goes_on_with_its_directory,
}

/// Polls, and answers, until the lane is told that its place is lost; the words.
fn refused(lane: &mut Lane) -> String {
    let deadline = Deadline::after(PATIENCE);
    loop {
        assert!(!deadline.is_over(), "it is never refused");
        match lane.log.poll(Duration::from_millis(20), &mut |_, _| Flow::Continue) {
            Err(LogError::Lost(cause)) => return cause,
            Ok(LogEvent::Assigned(tasks)) => panic!("it was given {tasks:?}"),
            _ => {}
        }
    }
}

#[test]
fn a_group_that_nobody_is_in_changes_its_protocol_and_keeps_its_offsets() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 2);
    let open = |group_protocol| KafkaLog::open(KafkaOptions { group_protocol, ..world.options.clone() }).expect("a lane");
    for (protocol, offset) in [(GroupProtocol::Classic, 3), (GroupProtocol::Consumer, 4), (GroupProtocol::Classic, 5)] {
        let mut lane = Lane::new(open(protocol));
        turn_until(&mut [&mut lane], "the assignment", |lanes| lanes[0].held.len() == 4);
        commit(&mut lane.log, &[(session(0), offset)]);
        assert_eq!(committed(&lane.log, session(0)), Some(NextOffset(offset)));
        lane.log.close(true).expect("left");
    }
}

#[test]
fn a_lane_that_slept_beyond_its_interval_joins_anew() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    speak(GroupProtocol::Consumer);
    let world = World::new(bootstrap, 1);
    let (mut slept, mut other) = stalled(&world);
    let cause = loop_until_lost(&mut slept, &mut other);
    slept.rejoin(&cause).expect("joined anew");
    let mut slept = Lane::new(slept);
    turn_until(&mut [&mut slept, &mut other], "an even share", |lanes| lanes.iter().all(|lane| lane.held.len() == 1));
}

/// Polls both until the first is told that its client is done for; the words.
fn loop_until_lost(slept: &mut KafkaLog, other: &mut Lane) -> String {
    let deadline = Deadline::after(PATIENCE);
    loop {
        assert!(!deadline.is_over(), "it never learns");
        other.turn();
        match slept.poll(Duration::from_millis(20), &mut |_, _| Flow::Continue) {
            Err(LogError::Lost(cause)) => return cause,
            Ok(LogEvent::Lost(tasks) | LogEvent::Revoked(tasks)) => slept.unassign(&tasks).expect("let go"),
            Ok(LogEvent::Assigned(tasks)) => panic!("it has joined by itself, and was given {tasks:?}"),
            _ => {}
        }
    }
}

#[test]
fn who_comes_later_under_the_same_name_is_refused_and_takes_nothing_away() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    speak(GroupProtocol::Consumer);
    let world = World::new(bootstrap, 1);
    let mut first = Lane::new(world.open());
    turn_until(&mut [&mut first], "the assignment", |lanes| lanes[0].held.len() == 2);
    // Its producer is the newer one: only the place is refused.
    let mut second = Lane::new(KafkaLog::open(world.options.clone()).expect("its twin"));
    assert!(refused(&mut second).starts_with("E0501"));
    first.turn();
    assert_eq!(first.held.len(), 2);
}
