//! What a replay found, by detector.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::policy::Detector;
use crate::report::Column;
use crate::report::Deed;
use crate::report::Said;
use crate::report::Table;

#[derive(Debug, Clone, Default)]
struct Row {
    subjects: BTreeSet<String>,
    nudges: u64,
    blocks: u64,
    shadow: u64,
}

impl Row {
    fn note(&mut self, said: &Said) {
        self.subjects.insert(said.subject.clone());
        match (said.is_shadow, said.deed) {
            (true, _) => self.shadow += 1,
            (false, Deed::Nudge) => self.nudges += 1,
            (false, Deed::Block) => self.blocks += 1,
            (false, Deed::Unblock) => {}
        }
    }
}

/// Commands of a replay, counted.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    rows: BTreeMap<String, Row>,
    total: Row,
    unblocks: u64,
}

impl Counts {
    /// Counts a command.
    pub fn note(&mut self, said: &Said) {
        if said.deed == Deed::Unblock {
            self.unblocks += u64::from(!said.is_shadow);
            return;
        }
        self.rows.entry(said.code.clone()).or_default().note(said);
        self.total.note(said);
    }

    /// Nudges that count.
    #[must_use]
    pub const fn nudges(&self) -> u64 {
        self.total.nudges
    }

    /// Blocks that count.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.total.blocks
    }

    /// Blocks lifted before they expired.
    #[must_use]
    pub const fn unblocks(&self) -> u64 {
        self.unblocks
    }

    /// A row per detector that spoke, in the order of the documentation, and the sum.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            Column::text("detector"),
            Column::number("sessions"),
            Column::number("nudges"),
            Column::number("blocks"),
            Column::number("shadow"),
        ]);
        let mut add = |name: &str, row: &Row| {
            let cells: [Value; 5] =
                [name.into(), row.subjects.len().into(), row.nudges.into(), row.blocks.into(), row.shadow.into()];
            table.row(cells.to_vec());
        };
        for name in Detector::ALL.map(Detector::as_str) {
            if let Some(row) = self.rows.get(name) {
                add(name, row);
            }
        }
        add("total", &self.total);
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &str, subject: &str, deed: Deed, is_shadow: bool) -> Said {
        Said {
            deed,
            is_shadow,
            code: code.to_owned(),
            subject: subject.to_owned(),
            agent: None,
            summary: String::new(),
            count: None,
            event_id: None,
            issued_at: String::new(),
        }
    }

    #[test]
    fn a_session_found_twice_is_one_session_and_a_lifted_block_is_no_finding() {
        let mut counts = Counts::default();
        for (code, subject, deed, shadow) in [
            ("stuck", "b", Deed::Nudge, true),
            ("exact_repeat", "a", Deed::Nudge, false),
            ("exact_repeat", "a", Deed::Block, false),
            ("reset", "a", Deed::Unblock, false),
        ] {
            counts.note(&said(code, subject, deed, shadow));
        }
        assert_eq!(
            counts.table().to_csv(),
            "detector,sessions,nudges,blocks,shadow\nexact_repeat,1,1,1,0\nstuck,1,0,0,1\ntotal,2,1,1,1\n"
        );
        assert_eq!((counts.nudges(), counts.blocks(), counts.unblocks()), (1, 1, 1));
    }
}
