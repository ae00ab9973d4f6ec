//! What bounds would publish: loops found, look-alikes and successes disturbed, for each sum of a nudge.

use loopwarden_core::detect::{Weights, decimal};
use serde::Serialize;

use super::steps::{Known, SessionSteps};
use crate::report::{Table, quality::Quality};

/// Of successful sessions, a wrong nudge in so many is what a loop that is found is worth.
const SUCCESSES_PER_ALARM: u64 = 65;

/// One bound, and how good the policy is with it.
#[derive(Debug, Clone, Copy)]
struct Point {
    bound: i32,
    quality: Quality,
}

/// The same as a row.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct PointRow {
    nudge_at: f64,
    loops_told: u64,
    loops: u64,
    look_alikes_told: u64,
    look_alikes: u64,
    successes_told: u64,
    successes: u64,
}

impl Point {
    /// Loops that are found less those that are disturbed: a loop counts one, a look-alike takes one, and so many successful sessions share a
    /// false alarm for free; each beyond takes one.
    const fn worth(&self) -> i64 {
        let Quality { loops, look_alikes, successes } = self.quality;
        let beyond = successes.hit.saturating_sub(successes.of / SUCCESSES_PER_ALARM);
        loops.hit as i64 - look_alikes.hit as i64 - beyond as i64
    }

    fn row(&self) -> PointRow {
        let Quality { loops, look_alikes, successes } = self.quality;
        PointRow {
            nudge_at: decimal(self.bound),
            loops_told: loops.hit,
            loops: loops.of,
            look_alikes_told: look_alikes.hit,
            look_alikes: look_alikes.of,
            successes_told: successes.hit,
            successes: successes.of,
        }
    }
}

/// All of them, by sum.
#[derive(Debug, Clone, Default)]
pub struct Curve(Vec<Point>);

impl Curve {
    #[must_use]
    pub fn table(&self) -> Table {
        Table::of(self.0.iter().map(Point::row))
    }

    /// The quality at the first bound; that of nothing without bounds.
    pub(super) fn first(&self) -> Quality {
        self.0.first().map(|point| point.quality).unwrap_or_default()
    }

    /// The bound that is worth most; of those that are worth as much the lowest, or the highest, which disturbs the fewest.
    pub(super) fn best(&self, is_cautious: bool) -> Option<i32> {
        let tie = |point: &Point| if is_cautious { point.bound } else { -point.bound };
        let point = self.0.iter().max_by_key(|point| (point.worth(), tie(point)));
        point.filter(|point| point.quality.loops.of > 0).map(|point| point.bound)
    }
}

/// Scores every session as production does, and counts what each bound would tell. Labels of texts alone have no step, and no place here.
pub(super) fn published_at(known: &[(&SessionSteps, Known)], weights: &Weights, poll_factor: u32, bounds: &[i32]) -> Curve {
    let mut points: Vec<Point> = bounds.iter().map(|bound| Point { bound: *bound, quality: Quality::default() }).collect();
    for (session, known) in known.iter().filter(|(_, known)| known.is_known()) {
        let sums = scored(session, weights, poll_factor);
        let published = |bound: i32, (first, last): (u64, u64)| {
            sums.iter().any(|(index, sum)| *sum >= bound && (first..=last).contains(index))
        };
        let has_steps = |(first, last): (u64, u64)| session.steps.iter().any(|step| (first..=last).contains(&step.index));
        let is_in_loop = |index: u64| known.loops.iter().any(|(first, last)| (*first..=last + 1).contains(&index));
        for Point { bound, quality } in &mut points {
            for (share, stretches) in [(&mut quality.loops, &known.loops), (&mut quality.look_alikes, &known.look_alikes)] {
                for stretch in stretches.iter().copied().filter(|stretch| has_steps(*stretch)) {
                    share.note(published(*bound, stretch));
                }
            }
            if known.has_succeeded {
                quality.successes.note(sums.iter().any(|(index, sum)| sum >= bound && !is_in_loop(*index)));
            }
        }
    }
    Curve(points)
}

/// The sum at each step that raised it.
pub(super) fn scored(session: &SessionSteps, weights: &Weights, poll_factor: u32) -> Vec<(u64, i32)> {
    let (mut sum, mut raised) = (0, None);
    let mut sums = Vec::with_capacity(session.steps.len());
    for step in &session.steps {
        if step.begins_anew {
            sum = 0;
        }
        let is_other = sum > 0 && raised.is_some_and(|tool| tool != step.tool);
        let points = weights.points(step.facts, step.waiting, is_other, poll_factor);
        sum = (sum + points).clamp(0, weights.most.max(2_800));
        if points > 0 {
            raised = Some(step.tool);
            sums.push((step.index, sum));
        }
    }
    sums
}
