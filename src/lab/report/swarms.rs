//! Swarms with commands: which call repeats in them, how often, among how many agents.

use std::{cmp::Reverse, collections::BTreeMap};

use loopwarden_core::event::EventTime;
use serde::{Serialize, Serializer};

use crate::report::command::CommandCounts;
use crate::report::{CommandKind, PublishedCommand};

/// Swarms kept, each with one tool; commands about further ones are in the sums of the report only.
const SWARMS_MAX: usize = 1_000;
const SWARMS_IN_JSON: usize = 200;

/// Commands to a swarm about a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SwarmRow {
    swarm: String,
    tool: String,
    /// Most calls in one command.
    calls: u64,
    /// Most agents in one command.
    agents: u64,
    #[serde(flatten)]
    commands: CommandCounts,
    /// Issue of the first command, RFC 3339; empty where it has none.
    first: String,
    /// Only where a swarm of the replay has a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
}

/// The swarms of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swarms {
    /// By tenant, swarm and tool.
    rows: BTreeMap<(String, String, String), SwarmRow>,
    left_out: u64,
}

impl Swarms {
    /// Notes a command, if it is about a swarm.
    pub(super) fn note(&mut self, command: &PublishedCommand) {
        if !command.is_swarm || command.kind == CommandKind::Unblock {
            return;
        }
        let key = (command.tenant.clone(), command.subject.clone(), command.tool.clone().unwrap_or_default());
        let mut commands = CommandCounts::default();
        commands.note(command.kind, command.is_shadow);
        let (calls, agents) = (command.count.unwrap_or_default(), command.workers.unwrap_or_default());
        let first = command.issued_at.map(EventTime::to_rfc3339).unwrap_or_default();
        self.add_row(key, SwarmRow { calls, agents, commands, first, ..SwarmRow::default() });
    }

    fn add_row(&mut self, key: (String, String, String), more: SwarmRow) {
        if self.rows.len() >= SWARMS_MAX && !self.rows.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let row = self.rows.entry(key).or_default();
        (row.calls, row.agents) = (row.calls.max(more.calls), row.agents.max(more.agents));
        row.commands.add(more.commands);
        if row.first.is_empty() || more.first < row.first {
            row.first = more.first;
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.left_out += other.left_out;
        for (key, more) in other.rows {
            self.add_row(key, more);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows beyond so many, and commands about swarms beyond the bound.
    pub fn left_out(&self, rows_max: usize) -> u64 {
        self.left_out + self.rows.len().saturating_sub(rows_max) as u64
    }

    /// A row for each swarm and tool: those with commands in force first, then those with most calls.
    pub fn rows(&self, rows_max: usize) -> Vec<SwarmRow> {
        let has_tenants = self.rows.keys().any(|(tenant, ..)| !tenant.is_empty());
        let named = |((tenant, swarm, tool), row): (&(String, String, String), &SwarmRow)| SwarmRow {
            swarm: swarm.clone(),
            tool: tool.clone(),
            tenant: has_tenants.then(|| tenant.clone()),
            ..row.clone()
        };
        let mut rows: Vec<SwarmRow> = self.rows.iter().map(named).collect();
        rows.sort_by_key(|row| Reverse((row.commands.in_force() > 0, row.calls)));
        rows.truncate(rows_max);
        rows
    }
}

impl Serialize for Swarms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rows(SWARMS_IN_JSON).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::Table, report::command::tests::command};

    fn about(swarm: &str, count: u64, is_shadow: bool) -> PublishedCommand {
        let (tool, count, workers) = (Some("get".to_owned()), Some(count), Some(3));
        let nudge = command(swarm, "swarm_repeat", CommandKind::Nudge);
        PublishedCommand { is_swarm: true, tool, count, workers, is_shadow, ..nudge }
    }

    #[test]
    fn a_swarm_is_named_with_its_call_and_the_worst_comes_first() {
        let mut parts = [Swarms::default(), Swarms::default()];
        let commands = [about("a", 10, false), about("b", 90, true), about("a", 15, false), about("c", 12, false)];
        for (at, command) in commands.iter().enumerate() {
            parts[at % 2].note(command);
        }
        parts[0].note(&command("no-swarm", "stuck", CommandKind::Block));
        let [mut swarms, other] = parts;
        swarms.add(other);
        assert_eq!(
            Table::of(swarms.rows(9)).to_csv(),
            "swarm,tool,calls,agents,nudges,blocks,shadow,first\na,get,15,3,2,0,0,\nc,get,12,3,1,0,0,\nb,get,90,3,0,0,1,\n"
        );
        assert_eq!(swarms.left_out(2), 1);
    }
}
