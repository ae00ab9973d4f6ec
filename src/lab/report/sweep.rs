//! Thresholds swept over a grid: what each policy of the grid finds, and at what price.

use serde_json::Value;

use crate::report::{Column, Counts, Judgement, Plot, Table};

/// A setting and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// Key of the policy.
    pub key: String,
    /// Values, as written.
    pub values: Vec<String>,
}

/// What one policy of the grid came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scores {
    /// Nudges.
    pub nudges: u64,
    /// Blocks.
    pub blocks: u64,
    /// How it compares with labels and outcomes.
    pub judgement: Judgement,
}

impl Scores {
    /// What a replay found, judged.
    #[must_use]
    pub fn of(counts: &Counts, judgement: Judgement) -> Self {
        Self { nudges: counts.nudges(), blocks: counts.blocks(), judgement }
    }

    /// Successful sessions that were nudged or blocked.
    #[must_use]
    pub const fn successes_disturbed(&self) -> u64 {
        self.judgement.disturbed
    }
}

/// One policy of the grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// A value for each axis, as written.
    pub values: Vec<String>,
    /// What it came to, or why there can be no such policy.
    pub scores: Result<Scores, String>,
}

/// The grid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweep {
    /// What was read, by name.
    pub sources: Vec<String>,
    /// Profile of the policy.
    pub profile: String,
    /// Settings.
    pub axes: Vec<Axis>,
    /// Every combination, the last axis fastest; of a sweep that was stopped, those that were finished.
    pub points: Vec<Point>,
    /// What is the same under every policy: lines left out, what the events do not tell, labels without a session.
    pub notes: Vec<String>,
    /// It was stopped before the end.
    pub is_partial: bool,
}

impl Sweep {
    fn judged(&self) -> impl Iterator<Item = (usize, &Scores)> {
        self.points.iter().enumerate().filter_map(|(at, point)| Some((at + 1, point.scores.as_ref().ok()?)))
    }

    /// Loops found against false alarms: one plot for look-alikes, one for sessions that succeeded; those of which something is known.
    #[must_use]
    pub fn plots(&self) -> Vec<Plot> {
        let mut plots = Vec::new();
        let loops = self.judged().map(|(_, scores)| scores.judgement.loops.0).max().unwrap_or_default();
        let of =
            |count: fn(&Judgement) -> u64| self.judged().map(|(_, scores)| count(&scores.judgement)).max().unwrap_or_default();
        let look_alikes = of(|judgement| judgement.look_alikes.0);
        let successes = of(|judgement| judgement.successes.0);
        if loops > 0 && look_alikes > 0 {
            let name = format!("false alarms in {look_alikes} look-alikes");
            let dots = self.judged().map(|(row, scores)| (row, scores.judgement.alarms.len() as u64, scores.judgement.loops.1));
            plots.push(Plot::new(&name, &format!("loops found, of {loops}"), loops, dots));
        }
        if loops > 0 && successes > 0 {
            let name = format!("nudged or blocked, of {successes} successful sessions");
            let dots = self.judged().map(|(row, scores)| (row, scores.successes_disturbed(), scores.judgement.loops.1));
            plots.push(Plot::new(&name, &format!("loops found, of {loops}"), loops, dots));
        } else if loops == 0 && successes > 0 {
            let failures = of(|judgement| judgement.failures.0);
            let name = format!("nudged or blocked, of {successes} successful sessions");
            let dots =
                self.judged().map(|(row, scores)| (row, scores.successes_disturbed(), scores.judgement.failures_disturbed));
            plots.push(Plot::new(&name, &format!("nudged or blocked, of {failures} others"), failures, dots));
        }
        plots
    }

    /// Rows of the best policies: best in each plot, or where none is, in the first.
    fn best(&self) -> Vec<usize> {
        let mut plots = self.plots().into_iter();
        let first = plots.next().map(|plot| plot.best()).unwrap_or_default();
        plots.fold(first, |best, plot| {
            let also = plot.best();
            let both: Vec<usize> = best.iter().copied().filter(|row| also.contains(row)).collect();
            if both.is_empty() { best } else { both }
        })
    }

    /// A row per policy.
    #[must_use]
    pub fn table(&self) -> Table {
        let fixed = [
            Column::number("loops_found"),
            Column::number("recall"),
            Column::number("false_alarms"),
            Column::number("precision"),
            Column::number("delay_events"),
            Column::number("successes_nudged"),
            Column::number("successes_blocked"),
            Column::number("successes_disturbed"),
            Column::number("failures_disturbed"),
            Column::number("nudges"),
            Column::number("blocks"),
            Column::text("note"),
        ];
        let mut columns = vec![Column::number("row")];
        // What all policies share is no column.
        let has_choice = |axis: &Axis| axis.values.len() > 1;
        columns.extend(self.axes.iter().filter(|axis| has_choice(axis)).map(|axis| Column::named(&axis.key, true)));
        let blank = fixed.len() - 1;
        columns.extend(fixed);
        let best = self.best();
        let mut table = Table::new(&columns);
        for (at, point) in self.points.iter().enumerate() {
            let mut cells: Vec<Value> = vec![(at + 1).into()];
            let chosen = self.axes.iter().zip(&point.values).filter(|(axis, _)| has_choice(axis));
            cells.extend(chosen.map(|(_, value)| Value::from(value.as_str())));
            match &point.scores {
                Ok(scores) => {
                    let judged = &scores.judgement;
                    let share =
                        |part: Option<f64>| part.map_or(Value::Null, |part| Value::from((1_000.0 * part).round() / 1_000.0));
                    // Of what nobody knows anything, nothing is said: a zero would be an answer.
                    let among = |known: u64, count: u64| if known > 0 { Value::from(count) } else { Value::Null };
                    cells.extend([
                        among(judged.loops.0, judged.loops.1),
                        share(judged.recall()),
                        among(judged.look_alikes.0, judged.alarms.len() as u64),
                        share(judged.precision()),
                        judged.delay().into(),
                        among(judged.successes.0, judged.successes.1),
                        among(judged.successes.0, judged.successes.2),
                        among(judged.successes.0, judged.disturbed),
                        among(judged.failures.0, judged.failures_disturbed),
                        scores.nudges.into(),
                        scores.blocks.into(),
                        if best.contains(&(at + 1)) { "best".into() } else { Value::Null },
                    ]);
                }
                Err(why) => {
                    cells.extend(std::iter::repeat_n(Value::Null, blank));
                    cells.push(why.as_str().into());
                }
            }
            table.row(cells);
        }
        table
    }

    /// Settings that all policies share, as written.
    #[must_use]
    pub fn shared(&self) -> Vec<String> {
        let one = self.axes.iter().filter(|axis| axis.values.len() == 1);
        one.map(|axis| format!("{}={}", axis.key, axis.values.concat())).collect()
    }

    /// For programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        serde_json::json!({
            "profile": self.profile,
            "axes": self.axes.iter().map(|axis| serde_json::json!({ "key": axis.key, "values": axis.values })).collect::<Vec<_>>(),
            "points": self.table().to_objects(),
            "notes": self.notes,
            "is_partial": self.is_partial,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: &str, found: u64, alarms: usize) -> Point {
        let judgement = Judgement {
            loops: (5, found),
            look_alikes: (4, 0, 0),
            alarms: vec![(String::new(), String::new()); alarms],
            ..Judgement::default()
        };
        Point { values: vec![value.to_owned()], scores: Ok(Scores { nudges: 1, blocks: 0, judgement }) }
    }

    #[test]
    fn a_row_per_policy_the_best_are_named_and_one_that_cannot_be_says_why() {
        let sweep = Sweep {
            axes: vec![Axis { key: "detectors.stuck.threshold".to_owned(), values: vec!["3".to_owned(), "4".to_owned()] }],
            points: vec![
                point("3", 4, 2),
                point("4", 3, 0),
                point("5", 3, 1),
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
        assert_eq!(sweep.to_json()["points"][1]["note"], "best");
    }

    #[test]
    fn of_policies_that_labels_call_equal_the_one_that_disturbs_fewer_successes_is_best() {
        let with = |value: &str, disturbed: u64| {
            let mut point = point(value, 4, 1);
            let judgement = &mut point.scores.as_mut().unwrap().judgement;
            (judgement.successes, judgement.disturbed) = ((10, disturbed, 0), disturbed);
            point
        };
        let sweep = Sweep { points: vec![with("3", 5), with("4", 3), with("5", 6)], ..Sweep::default() };
        assert_eq!((sweep.plots().len(), sweep.best()), (2, vec![2]));
    }
}
