//! What each tool did in a replay: calls, failures, calls inside loops, commands about it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::report::{Column, Deed, Said, Spent, Table};

/// Tools counted apart; calls of further ones are counted together. Names come from agents, and may be as many as they like.
const TOOLS_MAX: usize = 1_000;

/// What one tool did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolRow {
    /// Calls.
    pub calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Calls inside loops, and what they cost.
    pub in_loops: Spent,
    /// Nudges about it.
    pub nudges: u64,
    /// Blocks about it.
    pub blocks: u64,
}

impl ToolRow {
    const fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.in_loops.add(other.in_loops);
        self.nudges += other.nudges;
        self.blocks += other.blocks;
    }
}

/// The tools of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    rows: BTreeMap<String, ToolRow>,
    /// Of tools beyond the bound.
    others: ToolRow,
}

impl Tools {
    /// The row of a tool, to add to.
    pub fn row(&mut self, name: &str) -> &mut ToolRow {
        if !self.rows.contains_key(name) {
            if self.rows.len() >= TOOLS_MAX {
                return &mut self.others;
            }
            self.rows.insert(name.to_owned(), ToolRow::default());
        }
        self.rows.get_mut(name).unwrap_or(&mut self.others)
    }

    /// Notes a command, if it is about a tool.
    pub fn note_said(&mut self, said: &Said) {
        let Some(tool) = said.tool.as_deref().filter(|_| said.counts()) else { return };
        let row = self.row(tool);
        match said.deed {
            Deed::Nudge => row.nudges += 1,
            Deed::Block => row.blocks += 1,
            Deed::Unblock => {}
        }
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: Self) {
        for (name, row) in other.rows {
            self.row(&name).add(row);
        }
        self.others.add(other.others);
    }

    /// The tools that matter most, with names: most calls in loops first, then most calls. The rest, with how many there are of
    /// it, comes last without a name; `None` where nothing is left.
    #[must_use]
    pub fn top(&self, rows_max: usize) -> (Vec<(&str, ToolRow)>, Option<ToolRow>) {
        let mut all: Vec<(&str, ToolRow)> = self.rows.iter().map(|(name, row)| (name.as_str(), *row)).collect();
        all.sort_by_key(|(_, row)| std::cmp::Reverse((row.nudges + row.blocks, row.in_loops.calls, row.calls)));
        let mut rest = self.others;
        for (_, row) in all.iter().skip(rows_max) {
            rest.add(*row);
        }
        all.truncate(rows_max);
        (all, (rest != ToolRow::default()).then_some(rest))
    }

    /// Calls of all tools.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.rows.values().map(|row| row.calls).sum::<u64>() + self.others.calls
    }

    /// The same as a table.
    #[must_use]
    pub fn table(&self, rows_max: usize) -> Table {
        let (rows, rest) = self.top(rows_max);
        let mut columns = vec![
            Column::text("tool"),
            Column::number("calls"),
            Column::number("failed"),
            Column::number("nudges"),
            Column::number("blocks"),
        ];
        columns.extend(Spent::COLUMNS);
        let mut table = Table::new(&columns);
        for (name, row) in rows.into_iter().chain(rest.map(|rest| ("(others)", rest))) {
            let mut cells: Vec<Value> =
                vec![name.into(), row.calls.into(), row.failed.into(), row.nudges.into(), row.blocks.into()];
            cells.extend(row.in_loops.cells());
            table.row(cells);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::said::tests::said;

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let mut tools = Tools::default();
        for number in 0..TOOLS_MAX + 7 {
            tools.row(&format!("tool-{number:05}")).calls += 1;
        }
        tools.row("tool-00003").calls += 1;
        assert_eq!((tools.rows.len(), tools.others.calls, tools.calls()), (TOOLS_MAX, 7, TOOLS_MAX as u64 + 8));
        let (top, rest) = tools.top(10);
        assert_eq!((top.len(), top[0].0, rest.unwrap().calls), (10, "tool-00003", TOOLS_MAX as u64 - 10 + 7));
    }

    #[test]
    fn a_command_counts_for_its_tool_unless_it_is_a_shadow() {
        let mut tools = Tools::default();
        tools.note_said(&Said { tool: Some("Bash".to_owned()), ..said("s", "stuck", Deed::Nudge) });
        tools.note_said(&Said { tool: Some("Bash".to_owned()), is_shadow: true, ..said("s", "stuck", Deed::Nudge) });
        tools.note_said(&said("s", "stuck", Deed::Block));
        assert_eq!((tools.row("Bash").nudges, tools.rows.len()), (1, 1));
    }
}
