//! A lane closes, wherever the rebalance stands that it is in.

use std::{env, sync::mpsc::sync_channel, thread, time::Duration};

use loopwarden::event::NextOffset;
use loopwarden::log::kafka::KafkaLog;
use loopwarden::log::{Log, LogEvent};

use crate::broker;
use crate::members::{Lane, turn_until};
use crate::world::{World, join, next_event};

/// A closing that takes longer hangs: the client gives it up by then, and says so.
const CLOSES_WITHIN: Duration = Duration::from_secs(5);
/// Closings of a protocol; `LOOPWARDEN_CLOSINGS` asks for more.
const CLOSINGS: usize = 50;
/// A rebalance takes less: closings are spread over this time.
const SPREAD_US: u64 = 400_000;

/// How far a member's rebalance is when it closes.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// It has joined, or is about to: the assignment may be on its way, or wait for a poll.
    Joining,
    /// The lane was handed the assignment, and has not answered.
    Handed,
    /// Assigned, and not restored.
    Assigned,
    Running,
    /// Another member comes: the revocation may be on its way, or wait for a poll.
    Losing,
    /// The lane was handed the revocation, and has not answered.
    Asked,
    /// It has answered: the assignment that follows may be on its way, or wait for a poll.
    Returned,
    /// There are fewer tasks than members: its assignments are empty.
    Idle,
}

const MOMENTS: [Moment; 8] = [
    Moment::Joining,
    Moment::Handed,
    Moment::Assigned,
    Moment::Running,
    Moment::Losing,
    Moment::Asked,
    Moment::Returned,
    Moment::Idle,
];

impl Moment {
    /// Members of a new group, the first of them at this moment.
    fn reach(self, world: &World, spread: Duration) -> Vec<KafkaLog> {
        let member = |number: usize| KafkaLog::open(world.options_of(&format!("lw-{number}"), 0)).expect("a lane");
        let mut first = member(0);
        match self {
            Self::Joining => thread::park_timeout(spread),
            Self::Handed => assert!(matches!(next_event(&mut first), LogEvent::Assigned(_))),
            Self::Assigned => drop(join(&mut first, 2)),
            Self::Running => {
                for task in join(&mut first, 2) {
                    first.start(task, NextOffset(0)).expect("started");
                }
            }
            Self::Losing | Self::Asked | Self::Returned => {
                join(&mut first, 2);
                let second = member(1);
                if matches!(self, Self::Losing) {
                    thread::park_timeout(spread);
                    return vec![first, second];
                }
                let LogEvent::Revoked(tasks) = next_event(&mut first) else { panic!("not a revocation") };
                if matches!(self, Self::Returned) {
                    first.unassign(&tasks).expect("unassigned");
                    thread::park_timeout(spread);
                }
                return vec![first, second];
            }
            Self::Idle => {
                let mut lanes = [Lane::new(first), Lane::new(member(1))];
                let [one, other] = &mut lanes;
                turn_until(&mut [one, other], "a task each", |lanes| lanes.iter().all(|lane| lane.held.len() == 1));
                let idle = member(2);
                thread::park_timeout(spread);
                return [idle].into_iter().chain(lanes.map(|lane| lane.log)).collect();
            }
        }
        vec![first]
    }
}

/// Closes it in one of three ways, and fails where that takes too long.
fn close(mut log: KafkaLog, way: usize, what: &str) {
    let (closed, is_closed) = sync_channel(1);
    thread::spawn(move || {
        if way > 0 {
            log.close(way == 2).expect("closed");
        }
        drop(log);
        closed.send(())
    });
    assert!(is_closed.recv_timeout(CLOSES_WITHIN).is_ok(), "{what}: it has not closed for {CLOSES_WITHIN:?}");
}

#[test]
pub(crate) fn a_lane_closes_at_each_moment_of_a_rebalance() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let closings = env::var("LOOPWARDEN_CLOSINGS").map_or(CLOSINGS, |count| count.parse().expect("a number"));
    let (mut closed, mut round) = (0, 0);
    while closed < closings {
        let moment = MOMENTS[round % MOMENTS.len()];
        let spread = Duration::from_micros(round as u64 * 7_919 % SPREAD_US);
        let mut world = World::new(bootstrap, 1);
        // Members hear of each other within the spread, and other events wait in front of those that are about a rebalance.
        world.set_session(6_000, 100);
        world.options.native.consumer.insert("statistics.interval.ms".to_owned(), "20".to_owned());
        for (place, log) in moment.reach(&world, spread).into_iter().enumerate() {
            let what = format!("round {round}, member {place}, {moment:?} after {spread:?}");
            close(log, (round / MOMENTS.len() + place) % 3, &what);
            closed += 1;
        }
        round += 1;
    }
    println!("{closed} closings in {round} rounds");
}
