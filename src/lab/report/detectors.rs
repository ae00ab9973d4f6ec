//! Findings of a replay by detector.

use std::collections::BTreeMap;

use loopwarden_core::{engine::Spending, policy::Detector};
use serde::Serialize;

use crate::report::spent::{Spent, SpentColumns};
use crate::report::{CommandKind, PublishedCommand};
use crate::{report::command::CommandCounts, report::distinct::Distinct};

/// Commands with the same code.
#[derive(Debug, Clone, Default)]
struct Counted {
    subjects: Distinct,
    commands: CommandCounts,
}

impl Counted {
    fn note(&mut self, command: &PublishedCommand) {
        self.subjects.note_hash(command.subject_hash());
        self.commands.note(command.kind, command.is_shadow);
    }

    fn add(&mut self, other: Self) {
        self.subjects.add(other.subjects);
        self.commands.add(other.commands);
    }

    fn row(&self, detector: &str, spent: Spent) -> DetectorRow {
        DetectorRow {
            detector: detector.to_owned(),
            sessions: self.subjects.count(),
            commands: self.commands,
            spent: spent.into(),
            in_loops: spent,
        }
    }
}

/// Findings of one detector.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DetectorRow {
    pub detector: String,
    /// Sessions and swarms with a command.
    pub sessions: u64,
    #[serde(flatten)]
    pub commands: CommandCounts,
    #[serde(flatten)]
    spent: SpentColumns,
    #[serde(skip)]
    pub in_loops: Spent,
}

/// All commands of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// Sessions and swarms with a command.
    pub sessions: u64,
    /// Those with a nudge or block in force.
    pub told: u64,
    #[serde(flatten)]
    pub commands: CommandCounts,
}

/// Commands of a replay, counted by detector, and the cost of calls inside loops. A call that two detectors count costs both of
/// them, and the sum once.
#[derive(Debug, Clone, Default)]
pub struct Detectors {
    by_code: BTreeMap<String, Counted>,
    all: Counted,
    /// Subjects with a nudge or block in force.
    told: Distinct,
    /// Blocks that ended before they expired.
    pub unblocks: u64,
    spent: [Spent; Detector::COUNT],
    pub in_loops: Spent,
    /// Cost of all events, in loops and outside.
    pub spent_in_all: Spent,
}

impl Detectors {
    pub(super) fn note(&mut self, command: &PublishedCommand) {
        if command.kind == CommandKind::Unblock {
            self.unblocks += u64::from(!command.is_shadow);
            return;
        }
        match self.by_code.get_mut(&command.code) {
            Some(counted) => counted.note(command),
            None => self.by_code.entry(command.code.clone()).or_default().note(command),
        }
        self.all.note(command);
        if !command.is_shadow {
            self.told.note_hash(command.subject_hash());
        }
    }

    /// Notes the cost of an event, for each detector by itself.
    pub(super) fn note_cost(&mut self, spending: &Spending) {
        self.spent_in_all.add(spending.event.into());
        if spending.known | spending.found != 0 {
            for (detector, sum) in Detector::ALL.into_iter().zip(&mut self.spent) {
                sum.add(spending.in_loops_of(detector.bit()).into());
            }
            self.in_loops.add(spending.in_loops().into());
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        for (code, counted) in other.by_code {
            self.by_code.entry(code).or_default().add(counted);
        }
        self.all.add(other.all);
        self.told.add(other.told);
        self.unblocks += other.unblocks;
        for (sum, more) in self.spent.iter_mut().zip(other.spent) {
            sum.add(more);
        }
        self.in_loops.add(other.in_loops);
        self.spent_in_all.add(other.spent_in_all);
    }

    pub const fn commands(&self) -> CommandCounts {
        self.all.commands
    }

    pub fn total(&self) -> Total {
        Total { sessions: self.all.subjects.count(), told: self.told.count(), commands: self.all.commands }
    }

    /// A row for each detector with a command, in the order of the documentation.
    pub fn rows(&self) -> Vec<DetectorRow> {
        let all = Detector::ALL.into_iter().zip(self.spent);
        all.filter_map(|(detector, spent)| Some(self.by_code.get(detector.as_str())?.row(detector.as_str(), spent))).collect()
    }

    /// The sum of all rows.
    pub fn total_row(&self) -> DetectorRow {
        self.all.row("total", self.in_loops)
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::Cost;

    use super::*;
    use crate::{report::Table, report::command::tests::command};

    #[test]
    fn a_session_found_twice_is_one_session_and_an_unblock_is_no_finding() {
        let mut parts = [Detectors::default(), Detectors::default()];
        let commands = [
            PublishedCommand { is_shadow: true, ..command("b", "stuck", CommandKind::Nudge) },
            command("a", "exact_repeat", CommandKind::Nudge),
            command("a", "exact_repeat", CommandKind::Block),
            command("a", "reset", CommandKind::Unblock),
        ];
        for (at, command) in commands.iter().enumerate() {
            parts[at % 2].note(command);
        }
        let [mut detectors, other] = parts;
        detectors.add(other);
        let call = Cost { calls: 1, tokens: 0, micro_usd: 0 };
        detectors.note_cost(&Spending {
            event: Cost { tokens: 90, ..call },
            found: Detector::ExactRepeat.bit(),
            ..Spending::default()
        });
        detectors.note_cost(&Spending { event: call, found: Detector::Stuck.bit(), ..Spending::default() });
        let rows = [detectors.rows(), vec![detectors.total_row()]].concat();
        assert_eq!(
            Table::of(rows).to_csv(),
            "detector,sessions,nudges,blocks,shadow,in_loops,loop_tokens,loop_cost_usd\n\
             exact_repeat,1,1,1,0,1,90,\nstuck,1,0,0,1,1,,\ntotal,2,1,1,1,2,90,\n"
        );
        assert_eq!((detectors.unblocks, detectors.total().told), (1, 1));
    }

    #[test]
    fn what_two_detectors_count_is_spent_by_both() {
        let mut detectors = Detectors::default();
        let event = Cost { calls: 1, tokens: 10, micro_usd: 3 };
        detectors.note_cost(&Spending { event, found: Detector::Stuck.bit() | Detector::DeadEnd.bit(), ..Spending::default() });
        let call = Spent::from(event);
        assert_eq!((detectors.in_loops, detectors.spent_in_all), (call, call));
        for code in ["stuck", "dead_end", "text_only"] {
            detectors.note(&command("s", code, CommandKind::Nudge));
        }
        let spent: BTreeMap<String, Spent> = detectors.rows().into_iter().map(|row| (row.detector, row.in_loops)).collect();
        assert_eq!((spent["stuck"], spent["dead_end"], spent["text_only"]), (call, call, Spent::default()));
    }
}
