//! Thresholds swept over a grid: the findings of each policy of the grid.

use indexmap::IndexMap;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::report::judge::{Disturbed, Judgement, rounded};
use crate::{report::Table, report::command::CommandCounts, report::plot::Plot};

/// A setting and its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// Key of the policy.
    pub key: String,
    /// As written.
    pub values: Vec<String>,
}

/// The findings of a replay, judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scores {
    pub commands: CommandCounts,
    pub judgement: Judgement,
}

/// One policy of the grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// A value for each axis, as written.
    pub values: Vec<String>,
    /// An error says why there is no such policy.
    pub scores: Result<Scores, String>,
}

/// The grid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Names of the input.
    pub sources: Vec<String>,
    /// Profile of the policy.
    pub profile: String,
    pub axes: Vec<Axis>,
    /// Every combination, the last axis fastest; of a sweep that was stopped, the finished ones.
    pub points: Vec<Point>,
    /// What is the same under every policy: rejected lines, missing fields of events, labels without a session.
    pub notes: Vec<String>,
    /// It was stopped before the end.
    pub is_partial: bool,
}

/// A policy as a row. Where nothing is known there is no number: a zero would be an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct SweepRow {
    row: usize,
    #[serde(flatten)]
    chosen: IndexMap<String, String>,
    loops_found: Option<u64>,
    recall: Option<f64>,
    false_alarms: Option<u64>,
    precision: Option<f64>,
    delay_events: Option<u64>,
    successes_nudged: Option<u64>,
    successes_blocked: Option<u64>,
    successes_disturbed: Option<u64>,
    failures_disturbed: Option<u64>,
    nudges: Option<u64>,
    blocks: Option<u64>,
    note: Option<String>,
}

impl SweepRow {
    fn of(scores: &Scores) -> Self {
        let judged = &scores.judgement;
        let known = |side: Disturbed, count: u64| (side.sessions > 0).then_some(count);
        let (successes, failures) = (judged.successes, judged.failures);
        Self {
            loops_found: (judged.loops > 0).then_some(judged.loops_found()),
            recall: judged.recall().map(rounded),
            false_alarms: known(judged.look_alikes, judged.alarms.len() as u64),
            precision: judged.precision().map(rounded),
            delay_events: judged.delay(),
            successes_nudged: known(successes, successes.nudged),
            successes_blocked: known(successes, successes.blocked),
            successes_disturbed: known(successes, successes.either),
            failures_disturbed: known(failures, failures.either),
            nudges: Some(scores.commands.nudges),
            blocks: Some(scores.commands.blocks),
            ..Self::default()
        }
    }
}

impl Sweep {
    fn judged(&self) -> impl Iterator<Item = (usize, &Judgement)> {
        self.points.iter().enumerate().filter_map(|(at, point)| Some((at + 1, &point.scores.as_ref().ok()?.judgement)))
    }

    /// Loops found against false alarms: one plot for look-alikes, one for successful sessions, where there are any.
    pub fn plots(&self) -> Vec<Plot> {
        let most = |count: fn(&Judgement) -> u64| self.judged().map(|(_, judged)| count(judged)).max().unwrap_or_default();
        let plot = |x_name: String, x: fn(&Judgement) -> u64, y_name: String, y: fn(&Judgement) -> u64, y_max: u64| {
            Plot::new(&x_name, &y_name, y_max, self.judged().map(|(row, judged)| (row, x(judged), y(judged))))
        };
        let loops = most(|judged| judged.loops);
        let look_alikes = most(|judged| judged.look_alikes.sessions);
        let (successes, failures) = (most(|judged| judged.successes.sessions), most(|judged| judged.failures.sessions));
        let of_loops = || format!("loops found, of {loops}");
        let of_successes = format!("nudged or blocked, of {successes} successful sessions");
        let mut plots = Vec::new();
        if loops > 0 && look_alikes > 0 {
            let name = format!("false alarms in {look_alikes} look-alikes");
            plots.push(plot(name, |judged| judged.alarms.len() as u64, of_loops(), Judgement::loops_found, loops));
        }
        if loops > 0 && successes > 0 {
            plots.push(plot(of_successes, |judged| judged.successes.either, of_loops(), Judgement::loops_found, loops));
        } else if successes > 0 {
            let others = format!("nudged or blocked, of {failures} others");
            let disturbed: fn(&Judgement) -> u64 = |judged| judged.failures.either;
            plots.push(plot(of_successes, |judged| judged.successes.either, others, disturbed, failures));
        }
        plots
    }

    /// Rows of the best policies: best in each plot, or in the first if none is. Of several in one place of the plots, those with the
    /// fewest nudges: who finds as much with fewer words is better.
    fn best(&self) -> Vec<usize> {
        let plots = self.plots();
        let place = |row: usize| -> Vec<(u64, u64)> {
            plots.iter().flat_map(|plot| plot.dots.iter().filter(move |dot| dot.row == row)).map(|dot| (dot.x, dot.y)).collect()
        };
        let nudges = |row: usize| {
            self.points.get(row - 1).and_then(|point| point.scores.as_ref().ok()).map(|scores| scores.commands.nudges)
        };
        let best = self.best_of_plots();
        let beaten = |row: usize| best.iter().any(|other| nudges(*other) < nudges(row) && place(*other) == place(row));
        best.iter().copied().filter(|row| !beaten(*row)).collect()
    }

    fn best_of_plots(&self) -> Vec<usize> {
        let best = self.plots().into_iter().map(|plot| plot.best()).reduce(|best, also| {
            let both: Vec<usize> = best.iter().copied().filter(|row| also.contains(row)).collect();
            if both.is_empty() { best } else { both }
        });
        best.unwrap_or_default()
    }

    /// A row for each policy. Axes with one value have no column.
    pub fn table(&self) -> Table {
        let best = self.best();
        Table::of(self.points.iter().zip(1..).map(|(point, row)| {
            let axes = self.axes.iter().zip(&point.values).filter(|(axis, _)| axis.values.len() > 1);
            let chosen = axes.map(|(axis, value)| (axis.key.clone(), value.clone())).collect();
            let note = point.scores.as_ref().err().cloned().or_else(|| best.contains(&row).then(|| "best".to_owned()));
            let scores = point.scores.as_ref().map(SweepRow::of).unwrap_or_default();
            SweepRow { row, chosen, note, ..scores }
        }))
    }

    /// Settings that all policies share, as written.
    pub fn shared(&self) -> Vec<String> {
        let one = self.axes.iter().filter(|axis| axis.values.len() == 1);
        one.map(|axis| format!("{}={}", axis.key, axis.values.concat())).collect()
    }
}

impl Serialize for Sweep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "profile": self.profile,
            "axes": self.axes,
            "points": self.table().to_objects(),
            "notes": self.notes,
            "is_partial": self.is_partial,
        })
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::judge::tests::judgement;

    fn point(value: &str, judgement: Judgement) -> Point {
        let commands = CommandCounts { nudges: 1, ..CommandCounts::default() };
        Point { values: vec![value.to_owned()], scores: Ok(Scores { commands, judgement }) }
    }

    #[test]
    fn the_best_policies_are_marked_and_one_that_cannot_be_says_why() {
        let sweep = Sweep {
            axes: vec![Axis { key: "detectors.stuck.threshold".to_owned(), values: vec!["3".to_owned(), "4".to_owned()] }],
            points: vec![
                point("3", judgement((5, 4), (4, 2))),
                point("4", judgement((5, 3), (4, 0))),
                point("5", judgement((5, 3), (4, 1))),
                Point { values: vec!["x".to_owned()], scores: Err("no number".to_owned()) },
            ],
            ..Sweep::default()
        };
        let csv = sweep.table().to_csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[0].starts_with("row,detectors.stuck.threshold,loops_found,recall,"), "{csv}");
        assert_eq!(
            lines[1..],
            [
                "1,3,4,0.8,2,0.667,,,,,,1,0,best",
                "2,4,3,0.6,0,1.0,,,,,,1,0,best",
                "3,5,3,0.6,1,0.75,,,,,,1,0,",
                "4,x,,,,,,,,,,,,no number"
            ]
        );
        assert_eq!(sweep.plots().len(), 1);
    }

    #[test]
    fn of_equal_policies_the_one_that_disturbs_fewer_successes_is_best() {
        let with = |value: &str, either: u64| {
            let successes = Disturbed { sessions: 10, nudged: either, blocked: 0, either };
            let mut judged = judgement((5, 4), (4, 1));
            judged.successes = successes;
            point(value, judged)
        };
        let sweep = Sweep { points: vec![with("3", 5), with("4", 3), with("5", 6)], ..Sweep::default() };
        assert_eq!((sweep.plots().len(), sweep.best()), (2, vec![2]));
    }

    #[test]
    fn of_policies_that_find_the_same_those_that_nudge_least_are_best() {
        let with = |value: &str, found: u64, nudges: u64| {
            let Point { values, scores } = point(value, judgement((5, found), (4, 1)));
            let commands = CommandCounts { nudges, ..CommandCounts::default() };
            Point { values, scores: scores.map(|scores| Scores { commands, ..scores }) }
        };
        let of = |points| Sweep { points, ..Sweep::default() }.best();
        assert_eq!(of(vec![with("3", 4, 15), with("4", 4, 8), with("5", 4, 8), with("6", 3, 1)]), [2, 3]);
        assert_eq!(of(vec![with("3", 4, 15), with("4", 3, 8)]), [1], "who finds more is better, however much it says");
    }
}
