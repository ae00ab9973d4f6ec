//! What lanes over one input have for each other and for the caller, in the order of the input.
//!
//! Lanes are fed and turned in steps, and between two of them they stand still. A sum belongs to the line of the last call in it, waits until
//! every lane has committed that line, and reaches the swarm tasks in the order of lines: no lane runs ahead of another in event time, however
//! threads are scheduled and however far apart commits are.

use std::collections::{BTreeMap, VecDeque};

use loopwarden_core::event::partition_of;
use loopwarden_lane::{Clock, Exit, Lane, Turn};
use loopwarden_log::{Destination, StagedSum};

use crate::file::{Chunk, Collected, Fed, InputState, RecordedLog, Stepped, SumRecord};

/// A lane over recorded events.
pub(crate) type RecordedLane = Lane<RecordedLog>;

/// Feeds a lane and turns it until it has nothing to do.
///
/// # Errors
/// Why the lane ended, other than at the end of its input.
pub(crate) fn step(lane: &mut RecordedLane, fed: Fed, clock: &dyn Clock) -> Result<Stepped, Exit> {
    lane.log_mut().feed(fed);
    loop {
        match lane.turn(clock) {
            Turn::Worked => {}
            Turn::Idle | Turn::Ended(Exit::Done | Exit::Stopped) => return Ok(lane.log_mut().stepped()),
            Turn::Ended(exit) => return Err(exit),
        }
    }
}

/// How far a lane is, and what it is fed with the next step.
#[derive(Debug, Default)]
struct LaneState {
    floor: u64,
    /// Line of the first sum that it holds uncommitted.
    held: Option<u64>,
    sums: Vec<SumRecord>,
}

/// Sums and outputs on their way.
#[derive(Debug)]
pub(crate) struct Exchange {
    lanes: Vec<LaneState>,
    /// Sums that a lane may still come before, by their line, lane and order.
    waiting: BTreeMap<(u64, usize, u64), StagedSum>,
    noted: u64,
    /// Next offset of each partition of the swarm stage.
    next: Vec<u64>,
    /// Line of the first sum in each step that was fed and not taken in.
    in_flight: VecDeque<Option<u64>>,
    collected: Vec<Collected>,
    /// Line before which everything was taken out.
    settled: u64,
}

impl Exchange {
    /// For so many lanes and partitions of the swarm stage.
    pub(crate) fn new(lanes: usize, partitions: u32) -> Self {
        Self {
            lanes: (0..lanes).map(|_| LaneState::default()).collect(),
            waiting: BTreeMap::new(),
            noted: 0,
            next: vec![0; partitions.max(1) as usize],
            in_flight: VecDeque::new(),
            collected: Vec::new(),
            settled: 0,
        }
    }

    /// What each lane is fed next: its part of the input, where there is one, and the sums that have come through.
    pub(crate) fn fed(&mut self, chunks: Vec<Chunk>, input: InputState) -> Vec<Fed> {
        let chunks = chunks.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        self.in_flight.push_back(self.lanes.iter().flat_map(|lane| lane.sums.iter().map(|sum| sum.line)).min());
        let lanes = self.lanes.iter_mut().zip(chunks);
        lanes.map(|(lane, chunk)| Fed { chunk, sums: std::mem::take(&mut lane.sums), input }).collect()
    }

    /// Takes in what the lanes came to with the oldest step in flight. Whether sums have come through for any of them.
    pub(crate) fn take(&mut self, stepped: impl IntoIterator<Item = Stepped>) -> bool {
        self.in_flight.pop_front();
        for (number, (lane, stepped)) in self.lanes.iter_mut().zip(stepped).enumerate() {
            (lane.floor, lane.held) = (stepped.floor, stepped.held);
            self.collected.extend(stepped.collected);
            for (line, staged) in stepped.sums {
                self.noted += 1;
                self.waiting.insert((line, number, self.noted), staged);
            }
        }
        let floor = self.floor();
        let partitions = self.next.len() as u32;
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 < floor) {
            let ((line, ..), staged) = first.remove_entry();
            let partition = match staged.destination {
                Destination::SwarmPartition { partition } => partition % partitions,
                _ => partition_of(&staged.key, partitions),
            };
            let owner = partition as usize % self.lanes.len().max(1);
            if let (Some(owner), Some(next)) = (self.lanes.get_mut(owner), self.next.get_mut(partition as usize)) {
                owner.sums.push(SumRecord { partition, offset: *next, line, staged });
                *next += 1;
            }
        }
        self.lanes.iter().any(|lane| !lane.sums.is_empty())
    }

    /// Line before which every lane has committed every line.
    fn floor(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.floor).min().unwrap_or(0)
    }

    /// Takes out what no lane can add to any more: by line, then by task (sessions before swarms), then as the task published it. What is taken
    /// in turn is what would be taken at the end, in its order.
    pub(crate) fn settled(&mut self) -> Vec<Collected> {
        let held = self.lanes.iter().flat_map(|lane| lane.held.into_iter().chain(lane.sums.iter().map(|sum| sum.line)));
        let waiting = self.waiting.keys().map(|(line, ..)| *line).take(1);
        let in_flight = self.in_flight.iter().flatten().copied();
        let floor = held.chain(waiting).chain(in_flight).fold(self.floor(), u64::min);
        if floor <= self.settled {
            return Vec::new();
        }
        self.settled = floor;
        self.take_out(floor)
    }

    /// Takes out everything, in the same order: the lanes are at their end.
    pub(crate) fn rest(&mut self) -> Vec<Collected> {
        self.take_out(u64::MAX)
    }

    fn take_out(&mut self, floor: u64) -> Vec<Collected> {
        let collected = std::mem::take(&mut self.collected);
        let (mut ready, rest): (Vec<_>, _) = collected.into_iter().partition(|collected| collected.line < floor);
        self.collected = rest;
        ready.sort_by_key(|collected| (collected.line, collected.task));
        ready
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::{EventTime, Stage, TaskId};
    use loopwarden_log::{Headers, Output};
    use loopwarden_state::report::Sum;

    use super::*;
    use crate::file::Published;

    fn output(key: &str) -> Output {
        let destination = Destination::DeadLetters { source_partition: 0 };
        Output { destination, key: key.as_bytes().to_vec(), value: None, headers: Headers::default(), timestamp_ms: 0 }
    }

    fn staged() -> StagedSum {
        let destination = Destination::SwarmPartition { partition: 1 };
        StagedSum { destination, key: Vec::new(), sum: Sum::Reset(EventTime(0)), timestamp_ms: 0 }
    }

    fn letter(line: u64, stage: Stage, key: &str) -> Collected {
        Collected { line, task: TaskId { stage, partition: 0 }, published: Published::DeadLetter(output(key)) }
    }

    fn at(floor: u64) -> Stepped {
        Stepped { floor, ..Stepped::default() }
    }

    fn lines(fed: &[Fed]) -> Vec<Vec<(u64, u64)>> {
        fed.iter().map(|fed| fed.sums.iter().map(|sum| (sum.line, sum.offset)).collect()).collect()
    }

    #[test]
    fn sums_come_through_in_the_order_of_lines_once_every_lane_has_committed_theirs() {
        let mut exchange = Exchange::new(2, 2);
        let of = |lines: [u64; 2]| lines.map(|line| (line, staged())).to_vec();
        assert!(
            !exchange.take([Stepped { sums: of([3, 9]), ..at(10) }, at(3)]),
            "the other lane may still say something of line 3"
        );
        assert!(exchange.take([at(10), Stepped { sums: of([2, 5]), ..at(7) }]));
        // All of them are of partition 1, and that is of lane 1.
        assert_eq!(lines(&exchange.fed(Vec::new(), InputState::Open)), [vec![], vec![(2, 0), (3, 1), (5, 2)]]);
        assert!(exchange.take([at(10), at(10)]));
        assert_eq!(lines(&exchange.fed(Vec::new(), InputState::Read(None))), [vec![], vec![(9, 3)]]);
        assert!(!exchange.take([at(10), at(10)]));
    }

    #[test]
    fn what_is_settled_is_taken_in_the_order_of_lines_sessions_before_swarms() {
        let mut exchange = Exchange::new(2, 1);
        let keys = |collected: Vec<Collected>| -> Vec<(u64, Stage)> {
            collected.into_iter().map(|collected| (collected.line, collected.task.stage)).collect()
        };
        let one = vec![letter(4, Stage::Session, "a"), letter(1, Stage::Swarm, "b")];
        let sum = vec![(2, staged())];
        exchange.take([Stepped { collected: one, ..at(6) }, Stepped { sums: sum, ..at(2) }]);
        assert_eq!(keys(exchange.settled()), [(1, Stage::Swarm)], "what comes of the sum of line 2 comes before line 4");
        let two = vec![letter(4, Stage::Swarm, "c"), letter(3, Stage::Session, "d")];
        exchange.take([at(6), Stepped { collected: two, ..at(6) }]);
        assert_eq!(keys(exchange.settled()), [], "the sum is on its way");
        exchange.fed(Vec::new(), InputState::Open);
        assert_eq!(keys(exchange.settled()), [], "a lane is at it");
        exchange.take([Stepped { held: Some(2), ..at(6) }, at(6)]);
        assert_eq!(keys(exchange.settled()), [], "it is not committed");
        exchange.take([at(6), at(6)]);
        assert_eq!(keys(exchange.settled()), [(3, Stage::Session), (4, Stage::Session), (4, Stage::Swarm)]);
    }
}
