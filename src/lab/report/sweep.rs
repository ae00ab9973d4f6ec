//! One policy under several values of its settings: how good each combination is.

use std::cmp::Reverse;

use indexmap::IndexMap;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::report::judge::{Disturbed, Judgement};
use crate::{report::Table, report::command::CommandCounts, report::quality::rounded};

/// A setting and its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Axis {
    pub key: String,
    /// As written.
    pub values: Vec<String>,
}

/// What a replay found, judged.
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

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweep {
    pub sources: Vec<String>,
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
    /// Outside of their labelled loops.
    successes_disturbed: Option<u64>,
    failures_disturbed: Option<u64>,
    nudges: Option<u64>,
    blocks: Option<u64>,
    note: Option<String>,
}

impl Scores {
    fn row(&self) -> SweepRow {
        let (judged, quality) = (&self.judgement, self.judgement.quality());
        let known = |of: u64, count: u64| (of > 0).then_some(count);
        let Disturbed { sessions, either, .. } = judged.failures;
        SweepRow {
            loops_found: known(quality.loops.of, quality.loops.hit),
            recall: quality.recall().map(rounded),
            false_alarms: known(quality.look_alikes.of, quality.look_alikes.hit),
            precision: quality.precision().map(rounded),
            delay_events: judged.delay(),
            successes_disturbed: known(quality.successes.of, quality.successes.hit),
            failures_disturbed: known(sessions, either),
            nudges: Some(self.commands.nudges),
            blocks: Some(self.commands.blocks),
            ..SweepRow::default()
        }
    }

    /// What is found, the most first, and what is disturbed. Without labels, sessions that failed are what is to be found.
    fn rank(&self) -> (Reverse<u64>, u64, u64) {
        let quality = self.judgement.quality();
        let found = if quality.loops.of > 0 { quality.loops.hit } else { self.judgement.failures.either };
        (Reverse(found), quality.look_alikes.hit, quality.successes.hit)
    }

    /// It finds as much and disturbs as few, and is better in one of them, or says less.
    fn beats(&self, other: &Self) -> bool {
        let (one, two) = (self.rank(), other.rank());
        let is_as_good = one.0 <= two.0 && one.1 <= two.1 && one.2 <= two.2;
        is_as_good && (one != two || self.commands.nudges < other.commands.nudges)
    }
}

impl Sweep {
    fn scores(&self) -> impl Iterator<Item = &Scores> {
        self.points.iter().filter_map(|point| point.scores.as_ref().ok())
    }

    /// A row for each policy; best are those that no other one beats. Axes with one value have no column.
    pub fn table(&self) -> Table {
        let is_best = |scores: &Scores| !self.scores().any(|other| other.beats(scores));
        Table::of(self.points.iter().zip(1..).map(|(point, row)| {
            let axes = self.axes.iter().zip(&point.values).filter(|(axis, _)| axis.values.len() > 1);
            let chosen = axes.map(|(axis, value)| (axis.key.clone(), value.clone())).collect();
            let (scores, note) = match &point.scores {
                Ok(scores) => (scores.row(), is_best(scores).then(|| "best".to_owned())),
                Err(why) => (SweepRow::default(), Some(why.clone())),
            };
            SweepRow { row, chosen, note, ..scores }
        }))
    }

    /// One line: how many policies, of which one, and what they share.
    pub fn headline(&self) -> String {
        let one = self.axes.iter().filter(|axis| axis.values.len() == 1);
        let shared = one.map(|axis| format!(", {}={}", axis.key, axis.values.concat()));
        format!("{} policies, begun from {}", self.points.len(), self.profile) + &shared.collect::<String>()
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

    /// Rows that are marked best.
    fn best(points: Vec<Point>) -> Vec<usize> {
        let rows = Sweep { points, ..Sweep::default() }.table().to_objects();
        rows.iter().zip(1..).filter(|(row, _)| row["note"] == "best").map(|(_, at)| at).collect()
    }

    #[test]
    fn the_best_policies_are_marked_and_one_that_cannot_be_says_why() {
        let sweep = Sweep {
            axes: vec![Axis { key: "detectors.stuck.threshold".to_owned(), values: vec!["3".to_owned(), "4".to_owned()] }],
            points: vec![
                point("3", judgement((5, 4), (4, 2), (0, 0))),
                point("4", judgement((5, 3), (4, 0), (0, 0))),
                point("5", judgement((5, 3), (4, 1), (0, 0))),
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
                "1,3,4,0.8,2,0.667,,,,1,0,best",
                "2,4,3,0.6,0,1.0,,,,1,0,best",
                "3,5,3,0.6,1,0.75,,,,1,0,",
                "4,x,,,,,,,,,,no number"
            ]
        );
    }

    #[test]
    fn of_equal_policies_the_one_that_disturbs_fewer_successes_is_best() {
        let with = |value: &str, disturbed: u64| point(value, judgement((5, 4), (4, 1), (10, disturbed)));
        assert_eq!(best(vec![with("3", 5), with("4", 3), with("5", 6)]), [2]);
    }

    #[test]
    fn of_policies_that_find_the_same_those_that_nudge_least_are_best() {
        let with = |value: &str, found: u64, nudges: u64| {
            let Point { values, scores } = point(value, judgement((5, found), (4, 1), (0, 0)));
            let commands = CommandCounts { nudges, ..CommandCounts::default() };
            Point { values, scores: scores.map(|scores| Scores { commands, ..scores }) }
        };
        assert_eq!(best(vec![with("3", 4, 15), with("4", 4, 8), with("5", 4, 8), with("6", 3, 1)]), [2, 3]);
        assert_eq!(best(vec![with("3", 4, 15), with("4", 3, 8)]), [1], "who finds more is better, however much it says");
    }
}
