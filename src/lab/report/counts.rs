//! What a replay found, by detector.

use std::collections::BTreeMap;

use loopwarden_core::policy::Detector;
use serde_json::Value;

use crate::report::tally::Tally;
use crate::report::{Column, Deed, Distinct, Said, Spent, Table};

#[derive(Debug, Clone, Default)]
struct Row {
    subjects: Distinct,
    tally: Tally,
}

impl Row {
    fn note(&mut self, said: &Said) {
        self.subjects.note_hash(said.subject_hash());
        self.tally.note(said);
    }

    fn add(&mut self, other: Self) {
        self.subjects.add(other.subjects);
        self.tally.add(other.tally);
    }
}

/// Commands of a replay, counted.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    rows: BTreeMap<String, Row>,
    total: Row,
    /// Subjects that were nudged or blocked.
    told: Distinct,
    unblocks: u64,
}

/// What a detector did, for a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectorRow {
    /// Its name.
    pub name: String,
    /// Sessions and swarms it spoke about.
    pub sessions: u64,
    /// Nudges that count.
    pub nudges: u64,
    /// Blocks that count.
    pub blocks: u64,
    /// Commands to be looked at only.
    pub shadow: u64,
}

impl Counts {
    /// Counts a command.
    pub fn note(&mut self, said: &Said) {
        if said.deed == Deed::Unblock {
            self.unblocks += u64::from(!said.is_shadow);
            return;
        }
        match self.rows.get_mut(&said.code) {
            Some(row) => row.note(said),
            None => self.rows.entry(said.code.clone()).or_default().note(said),
        }
        self.total.note(said);
        if !said.is_shadow {
            self.told.note_hash(said.subject_hash());
        }
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: Self) {
        for (code, row) in other.rows {
            self.rows.entry(code).or_default().add(row);
        }
        self.total.add(other.total);
        self.told.add(other.told);
        self.unblocks += other.unblocks;
    }

    /// Nudges that count.
    #[must_use]
    pub const fn nudges(&self) -> u64 {
        self.total.tally.nudges
    }

    /// Blocks that count.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.total.tally.blocks
    }

    /// Commands to be looked at only.
    #[must_use]
    pub const fn shadow(&self) -> u64 {
        self.total.tally.shadow
    }

    /// Sessions and swarms that were spoken about.
    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.total.subjects.count()
    }

    /// Sessions and swarms that were nudged or blocked.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.told.count()
    }

    /// Blocks lifted before they expired.
    #[must_use]
    pub const fn unblocks(&self) -> u64 {
        self.unblocks
    }

    /// A row per detector that spoke, in the order of the documentation.
    #[must_use]
    pub fn detectors(&self) -> Vec<DetectorRow> {
        let row = |name: &str, row: &Row| DetectorRow {
            name: name.to_owned(),
            sessions: row.subjects.count(),
            nudges: row.tally.nudges,
            blocks: row.tally.blocks,
            shadow: row.tally.shadow,
        };
        let spoke = Detector::ALL.into_iter().filter_map(|detector| {
            let name = detector.as_str();
            self.rows.get(name).map(|found| row(name, found))
        });
        spoke.collect()
    }

    /// The same as a table, with what each one's loops cost.
    #[must_use]
    pub fn table(&self, spent: &SpentInLoops) -> Table {
        Self::table_of(self.detectors().into_iter().map(|row| (spent.of(&row.name), row)))
    }

    /// The same with the sum below, for people.
    #[must_use]
    pub fn table_with_total(&self, spent: &SpentInLoops) -> Table {
        let total = DetectorRow {
            name: "total".to_owned(),
            sessions: self.sessions(),
            nudges: self.nudges(),
            blocks: self.blocks(),
            shadow: self.shadow(),
        };
        let rows = self.detectors().into_iter().map(|row| (spent.of(&row.name), row));
        Self::table_of(rows.chain([(spent.total(), total)]))
    }

    fn table_of(rows: impl Iterator<Item = (Spent, DetectorRow)>) -> Table {
        let mut columns = vec![
            Column::text("detector"),
            Column::number("sessions"),
            Column::number("nudges"),
            Column::number("blocks"),
            Column::number("shadow"),
        ];
        columns.extend(Spent::COLUMNS);
        let mut table = Table::new(&columns);
        for (spent, row) in rows {
            let mut cells: Vec<Value> =
                vec![row.name.into(), row.sessions.into(), row.nudges.into(), row.blocks.into(), row.shadow.into()];
            cells.extend(spent.cells());
            table.row(cells);
        }
        table
    }
}

/// What calls inside loops cost, by the detectors that saw the loop. A call that two of them saw counts for both, and once in the sum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpentInLoops {
    by_detector: [Spent; Detector::COUNT],
    total: Spent,
}

impl SpentInLoops {
    /// Notes a call, or a part of it, and the bits of the detectors that saw it.
    pub fn note(&mut self, detectors: u16, spent: Spent) {
        for (detector, sum) in Detector::ALL.into_iter().zip(&mut self.by_detector) {
            if detectors & detector.bit() != 0 {
                sum.add(spent);
            }
        }
    }

    /// Notes it in the sum.
    pub const fn note_total(&mut self, spent: Spent) {
        self.total.add(spent);
    }

    /// Adds what was noted elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.by_detector.iter_mut().zip(&other.by_detector) {
            sum.add(*more);
        }
        self.total.add(other.total);
    }

    /// What the loops of a detector cost.
    #[must_use]
    pub fn of(&self, detector: &str) -> Spent {
        let found = Detector::ALL.into_iter().zip(&self.by_detector).find(|(known, _)| known.as_str() == detector);
        found.map_or_else(Spent::default, |(_, spent)| *spent)
    }

    /// All of it.
    #[must_use]
    pub const fn total(&self) -> Spent {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::said::tests::said;

    #[test]
    fn a_session_found_twice_is_one_session_and_a_lifted_block_is_no_finding() {
        let mut parts = [Counts::default(), Counts::default()];
        let commands = [
            Said { is_shadow: true, ..said("b", "stuck", Deed::Nudge) },
            said("a", "exact_repeat", Deed::Nudge),
            said("a", "exact_repeat", Deed::Block),
            said("a", "reset", Deed::Unblock),
        ];
        for (at, said) in commands.iter().enumerate() {
            parts[at % 2].note(said);
        }
        let [mut counts, other] = parts;
        counts.add(other);
        let mut spent = SpentInLoops::default();
        let call = Spent { calls: 1, tokens: 0, cost_micro_usd: 0 };
        spent.note(Detector::ExactRepeat.bit(), Spent { tokens: 90, ..call });
        spent.note(Detector::Stuck.bit(), call);
        spent.note_total(Spent { calls: 2, tokens: 90, cost_micro_usd: 0 });
        assert_eq!(
            counts.table(&spent).to_csv(),
            "detector,sessions,nudges,blocks,shadow,in_loops,loop_tokens,loop_cost_usd\nexact_repeat,1,1,1,0,1,90,\nstuck,1,0,0,1,1,,\n"
        );
        assert!(counts.table_with_total(&spent).to_csv().ends_with("\nstuck,1,0,0,1,1,,\ntotal,2,1,1,1,2,90,\n"));
        assert_eq!((counts.nudges(), counts.blocks(), counts.unblocks(), counts.told()), (1, 1, 1, 1));
    }

    #[test]
    fn what_two_detectors_saw_was_spent_once() {
        let mut spent = SpentInLoops::default();
        let call = Spent { calls: 1, tokens: 10, cost_micro_usd: 3 };
        spent.note(Detector::Stuck.bit() | Detector::DeadEnd.bit(), call);
        spent.note_total(call);
        assert_eq!((spent.of("stuck"), spent.of("dead_end"), spent.of("text_only")), (call, call, Spent::default()));
        assert_eq!(spent.total(), call);
    }
}
