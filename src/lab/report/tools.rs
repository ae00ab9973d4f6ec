//! What happened with each tool in a replay.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::{Serialize, Serializer};

use crate::report::spent::{Spent, SpentColumns};
use crate::report::{CommandKind, PublishedCommand};

/// Tools counted apart; calls of further ones are counted together. Agents choose the names, and may choose any number of them.
const TOOLS_MAX: usize = 1_000;
const TOOLS_IN_JSON: usize = 200;

/// Calls of one tool, and commands about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ToolCounts {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) in_loops: Spent,
    nudges: u64,
    blocks: u64,
}

impl ToolCounts {
    const fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.in_loops.add(other.in_loops);
        self.nudges += other.nudges;
        self.blocks += other.blocks;
    }
}

/// The same as a row.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ToolRow {
    tool: String,
    calls: u64,
    failed: u64,
    nudges: u64,
    blocks: u64,
    #[serde(flatten)]
    spent: SpentColumns,
}

impl ToolRow {
    fn of(tool: &str, counts: ToolCounts) -> Self {
        let ToolCounts { calls, failed, in_loops, nudges, blocks } = counts;
        Self { tool: tool.to_owned(), calls, failed, nudges, blocks, spent: in_loops.into() }
    }
}

/// The tools of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    by_name: BTreeMap<String, ToolCounts>,
    /// Tools beyond the bound.
    others: ToolCounts,
}

impl Tools {
    /// Counts of a tool, to add to.
    pub(super) fn counts(&mut self, name: &str) -> &mut ToolCounts {
        if !self.by_name.contains_key(name) {
            if self.by_name.len() >= TOOLS_MAX {
                return &mut self.others;
            }
            self.by_name.insert(name.to_owned(), ToolCounts::default());
        }
        self.by_name.get_mut(name).unwrap_or(&mut self.others)
    }

    /// Notes a command, if it is in force and about a tool.
    pub(super) fn note(&mut self, command: &PublishedCommand) {
        let Some(tool) = command.tool.as_deref().filter(|_| command.is_in_force()) else { return };
        let counts = self.counts(tool);
        match command.kind {
            CommandKind::Nudge => counts.nudges += 1,
            CommandKind::Block => counts.blocks += 1,
            CommandKind::Unblock => {}
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        for (name, counts) in other.by_name {
            self.counts(&name).add(counts);
        }
        self.others.add(other.others);
    }

    /// The tools that matter most: most commands first, then most calls in loops, then most calls. The rest is one row.
    pub fn rows(&self, rows_max: usize) -> Vec<ToolRow> {
        let mut all: Vec<(&String, &ToolCounts)> = self.by_name.iter().collect();
        all.sort_by_key(|(_, counts)| Reverse((counts.nudges + counts.blocks, counts.in_loops.calls, counts.calls)));
        let mut rest = self.others;
        all.iter().skip(rows_max).for_each(|(_, counts)| rest.add(**counts));
        let mut rows: Vec<ToolRow> = all.iter().take(rows_max).map(|(name, counts)| ToolRow::of(name, **counts)).collect();
        rows.extend((rest != ToolCounts::default()).then(|| ToolRow::of("(others)", rest)));
        rows
    }
}

impl Serialize for Tools {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rows(TOOLS_IN_JSON).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::command::tests::command;

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let mut tools = Tools::default();
        for number in 0..TOOLS_MAX + 7 {
            tools.counts(&format!("tool-{number:05}")).calls += 1;
        }
        tools.counts("tool-00003").calls += 1;
        assert_eq!((tools.by_name.len(), tools.others.calls), (TOOLS_MAX, 7));
        let rows = tools.rows(10);
        assert_eq!((rows.len(), rows[0].tool.as_str(), rows[10].calls), (11, "tool-00003", TOOLS_MAX as u64 - 10 + 7));
    }

    #[test]
    fn a_command_counts_for_its_tool_unless_it_is_a_shadow() {
        let mut tools = Tools::default();
        let tool = Some("Bash".to_owned());
        let nudge = PublishedCommand { tool, ..command("s", "stuck", CommandKind::Nudge) };
        tools.note(&nudge);
        tools.note(&PublishedCommand { is_shadow: true, ..nudge });
        tools.note(&command("s", "stuck", CommandKind::Block));
        assert_eq!((tools.counts("Bash").nudges, tools.by_name.len()), (1, 1));
    }
}
