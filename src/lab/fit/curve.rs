//! What bounds would publish: loops found, look-alikes and successes disturbed, for each sum of a nudge.

use loopwarden_core::detect::{Weights, decimal};
use serde::Serialize;

use super::steps::{Known, SessionSteps};
use crate::report::Table;

/// One bound.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Point {
    pub(super) nudge_at: f64,
    pub(super) loops_told: u64,
    pub(super) loops: u64,
    pub(super) look_alikes_told: u64,
    pub(super) look_alikes: u64,
    pub(super) successes_told: u64,
    pub(super) successes: u64,
    #[serde(skip)]
    bound: i32,
}

impl Point {
    /// Loops that are found less those who are disturbed.
    const fn worth(&self, successes_per_alarm: u64) -> i64 {
        let beyond = self.successes_told.saturating_sub(self.successes / successes_per_alarm);
        self.loops_told as i64 - self.look_alikes_told as i64 - beyond as i64
    }
}

/// All of them, by sum.
#[derive(Debug, Clone, Default)]
pub struct Curve(Vec<Point>);

impl Curve {
    /// As rows.
    #[must_use]
    pub fn table(&self) -> Table {
        Table::of(self.0.iter().copied())
    }

    /// Counts at the first bound; none without bounds.
    pub(super) fn first(&self) -> Point {
        self.0.first().copied().unwrap_or_default()
    }

    /// The bound that is worth most: a loop that is told counts one, a look-alike that is disturbed takes one, and so many successful sessions
    /// share a false alarm for free; each beyond takes one.
    pub(super) fn best(&self, successes_per_alarm: u64) -> Option<i32> {
        let point = self.0.iter().max_by_key(|point| (point.worth(successes_per_alarm), -point.bound));
        point.filter(|point| point.loops > 0).map(|point| point.bound)
    }

    /// The same; of bounds that are worth as much the highest, which disturbs the fewest.
    pub(super) fn cautious(&self, successes_per_alarm: u64) -> Option<i32> {
        let point = self.0.iter().max_by_key(|point| (point.worth(successes_per_alarm), point.bound));
        point.filter(|point| point.loops > 0).map(|point| point.bound)
    }
}

/// Scores every session as production does, and counts what each bound would tell. Labels of texts alone have no step, and no place here.
pub(super) fn published_at(known: &[(&SessionSteps, Known)], weights: &Weights, poll_factor: u32, bounds: &[i32]) -> Curve {
    let mut points: Vec<Point> =
        bounds.iter().map(|bound| Point { nudge_at: decimal(*bound), bound: *bound, ..Point::default() }).collect();
    for (session, known) in known.iter().filter(|(_, known)| known.is_known()) {
        let sums = scored(session, weights, poll_factor);
        let published = |bound: i32, (first, last): (u64, u64)| {
            sums.iter().any(|(index, sum)| *sum >= bound && (first..=last).contains(index))
        };
        let has_steps = |(first, last): (u64, u64)| session.steps.iter().any(|step| (first..=last).contains(&step.index));
        for point in &mut points {
            for stretch in known.loops.iter().copied().filter(|stretch| has_steps(*stretch)) {
                point.loops += 1;
                point.loops_told += u64::from(published(point.bound, stretch));
            }
            for stretch in known.look_alikes.iter().copied().filter(|stretch| has_steps(*stretch)) {
                point.look_alikes += 1;
                point.look_alikes_told += u64::from(published(point.bound, stretch));
            }
            if known.has_succeeded {
                let is_in_loop = |index: u64| known.loops.iter().any(|(first, last)| (*first..=last + 1).contains(&index));
                point.successes += 1;
                point.successes_told += u64::from(sums.iter().any(|(index, sum)| *sum >= point.bound && !is_in_loop(*index)));
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
