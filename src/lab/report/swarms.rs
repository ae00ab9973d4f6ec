//! The swarms that were spoken about: which call goes round in them, how often, among how many agents.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::report::tally::Tally;
use crate::report::{Column, Deed, Said, Table};

/// Swarms kept, each with one tool; of more only the commands are counted, in the sums of the report.
const KEPT_MAX: usize = 1_000;

/// What was said to a swarm about a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Row {
    /// Most calls that a command counted.
    calls: u64,
    /// Most agents that a command counted.
    agents: u64,
    tally: Tally,
    /// When the first command was issued, as written.
    first: String,
}

impl Row {
    fn add(&mut self, more: Self) {
        (self.calls, self.agents) = (self.calls.max(more.calls), self.agents.max(more.agents));
        self.tally.add(more.tally);
        if self.first.is_empty() || more.first < self.first {
            self.first = more.first;
        }
    }
}

/// The swarms of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swarms {
    /// By tenant, swarm and tool.
    rows: BTreeMap<(String, String, String), Row>,
    left_out: u64,
}

impl Swarms {
    /// Notes a command, if it is about a swarm.
    pub fn note(&mut self, said: &Said) {
        if !said.is_swarm || said.deed == Deed::Unblock {
            return;
        }
        let key = (said.tenant.clone(), said.subject.clone(), said.tool.clone().unwrap_or_default());
        let mut tally = Tally::default();
        tally.note(said);
        let (calls, agents) = (said.count.unwrap_or_default(), said.workers.unwrap_or_default());
        self.add_row(key, Row { calls, agents, tally, first: said.issued_at.clone() });
    }

    fn add_row(&mut self, key: (String, String, String), more: Row) {
        if self.rows.len() >= KEPT_MAX && !self.rows.contains_key(&key) {
            self.left_out += 1;
        } else {
            self.rows.entry(key).or_default().add(more);
        }
    }

    /// Adds what was noted elsewhere.
    pub fn add(&mut self, other: Self) {
        self.left_out += other.left_out;
        for (key, more) in other.rows {
            self.add_row(key, more);
        }
    }

    /// Whether nothing was said to any swarm.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows that a table of at most so many leaves out, and commands about swarms beyond the bound.
    #[must_use]
    pub fn left_out(&self, rows_max: usize) -> u64 {
        self.left_out + self.rows.len().saturating_sub(rows_max) as u64
    }

    /// A row for each swarm and tool, the most calls first; what counts before what is only looked at.
    #[must_use]
    pub fn table(&self, rows_max: usize) -> Table {
        let mut columns = vec![
            Column::text("swarm"),
            Column::text("tool"),
            Column::number("calls"),
            Column::number("agents"),
            Column::number("nudges"),
            Column::number("blocks"),
            Column::number("shadow"),
            Column::text("first"),
        ];
        let has_tenants = self.rows.keys().any(|(tenant, ..)| !tenant.is_empty());
        columns.extend(has_tenants.then(|| Column::text("tenant")));
        let mut table = Table::new(&columns);
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|(_, row)| Reverse((row.tally.nudges + row.tally.blocks > 0, row.calls)));
        for ((tenant, swarm, tool), row) in rows.into_iter().take(rows_max) {
            let mut cells: Vec<Value> = vec![
                swarm.as_str().into(),
                tool.as_str().into(),
                row.calls.into(),
                row.agents.into(),
                row.tally.nudges.into(),
                row.tally.blocks.into(),
                row.tally.shadow.into(),
                row.first.as_str().into(),
            ];
            cells.extend(has_tenants.then(|| tenant.as_str().into()));
            table.row(cells);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::said::tests::said;

    fn told(swarm: &str, count: u64, is_shadow: bool) -> Said {
        let tool = Some("get".to_owned());
        Said { is_swarm: true, tool, count: Some(count), workers: Some(3), is_shadow, ..said(swarm, "swarm_repeat", Deed::Nudge) }
    }

    #[test]
    fn a_swarm_is_named_with_its_call_and_the_worst_comes_first() {
        let mut parts = [Swarms::default(), Swarms::default()];
        for (at, said) in
            [told("a", 10, false), told("b", 90, true), told("a", 15, false), told("c", 12, false)].iter().enumerate()
        {
            parts[at % 2].note(said);
        }
        parts[0].note(&said("no-swarm", "stuck", Deed::Block));
        let [mut swarms, other] = parts;
        swarms.add(other);
        assert_eq!(
            swarms.table(9).to_csv(),
            "swarm,tool,calls,agents,nudges,blocks,shadow,first\na,get,15,3,2,0,0,\nc,get,12,3,1,0,0,\nb,get,90,3,0,0,1,\n"
        );
        assert_eq!(swarms.left_out(2), 1);
    }
}
