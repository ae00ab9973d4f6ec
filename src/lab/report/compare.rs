//! Two replays of the same events under two policies: who is newly told or refused something, who no longer.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::report::{Column, Deed, Said, Table};

/// Fates remembered, of each side. Beyond it the comparison says that it is not complete.
const FATES_MAX: usize = 500_000;
/// Examples of each kind of change under one detector.
const EXAMPLES_MAX: usize = 5;

/// Tools in the table: those with most changes. The rest is summed.
const TOOLS_TOLD: usize = 30;

/// Tenant, session or swarm, agent, detector, tool: what is compared.
type Key = (String, String, String, String, String);

/// What was said at most, and how it was put.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fate {
    deed: Deed,
    summary: String,
}

/// The gravest thing said to each agent, by detector and tool. Shadow commands are no fate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fates {
    by_key: BTreeMap<Key, Fate>,
    left_out: u64,
}

impl Fates {
    /// Notes a command.
    pub fn note(&mut self, said: &Said) {
        if !said.counts() {
            return;
        }
        let key = (
            said.tenant.clone(),
            said.subject.clone(),
            said.agent.clone().unwrap_or_default(),
            said.code.clone(),
            said.tool.clone().unwrap_or_default(),
        );
        if let Some(fate) = self.by_key.get_mut(&key) {
            if fate.deed < said.deed {
                *fate = Fate { deed: said.deed, summary: said.summary.clone() };
            }
        } else if self.by_key.len() >= FATES_MAX {
            self.left_out += 1;
        } else {
            self.by_key.insert(key, Fate { deed: said.deed, summary: said.summary.clone() });
        }
    }

    /// Adds what was noted elsewhere; no agent is in two parts.
    pub fn add(&mut self, other: Self) {
        self.left_out += other.left_out;
        for (key, fate) in other.by_key {
            if self.by_key.len() >= FATES_MAX {
                self.left_out += 1;
            } else {
                self.by_key.insert(key, fate);
            }
        }
    }
}

/// How a fate changes from one policy to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Blocked, and was not.
    NewlyBlocked,
    /// Nudged, and nothing was said before.
    NewlyNudged,
    /// Only nudged now.
    NoLongerBlocked,
    /// Nothing is said any more.
    NoLongerNudged,
}

impl Change {
    /// All of them, the gravest first.
    pub const ALL: [Self; 4] = [Self::NewlyBlocked, Self::NewlyNudged, Self::NoLongerBlocked, Self::NoLongerNudged];

    /// For programs and heads of tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NewlyBlocked => "newly_blocked",
            Self::NewlyNudged => "newly_nudged",
            Self::NoLongerBlocked => "no_longer_blocked",
            Self::NoLongerNudged => "no_longer_nudged",
        }
    }

    /// For people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::NewlyBlocked => "newly blocked",
            Self::NewlyNudged => "newly nudged",
            Self::NoLongerBlocked => "no longer blocked",
            Self::NoLongerNudged => "no longer nudged",
        }
    }

    const fn of(before: Option<Deed>, now: Option<Deed>) -> Option<Self> {
        match (before, now) {
            (None | Some(Deed::Nudge), Some(Deed::Block)) => Some(Self::NewlyBlocked),
            (None, Some(_)) => Some(Self::NewlyNudged),
            (Some(Deed::Block), None | Some(Deed::Nudge)) => Some(Self::NoLongerBlocked),
            (Some(_), None) => Some(Self::NoLongerNudged),
            _ => None,
        }
    }
}

/// Changes, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Gains and losses, in the order of [`Change::ALL`].
    pub by_kind: [u64; 4],
    /// What stayed as it was.
    pub same: u64,
}

impl Changes {
    fn note(&mut self, change: Option<Change>) {
        match change.and_then(|change| self.by_kind.get_mut(change as usize)) {
            Some(count) => *count += 1,
            None => self.same += 1,
        }
    }

    fn add(&mut self, other: &Self) {
        for (sum, more) in self.by_kind.iter_mut().zip(other.by_kind) {
            *sum += more;
        }
        self.same += other.same;
    }

    /// How many there are.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// How many of a kind.
    #[must_use]
    pub fn get(&self, change: Change) -> u64 {
        self.by_kind.get(change as usize).copied().unwrap_or_default()
    }
}

/// Somebody whose fate changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// How.
    pub change: Change,
    /// Tenant; empty = none.
    pub tenant: String,
    /// Session or swarm.
    pub subject: String,
    /// Agent; empty where it is a swarm.
    pub agent: String,
    /// Detector.
    pub detector: String,
    /// Tool; empty where it is none.
    pub tool: String,
    /// What is said, by the side that says it.
    pub summary: String,
}

/// The comparison. Agents are counted by what the first policy says that the second does not, and the other way round: `before` is
/// what `--against` names, `now` what `--policy` names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// By session or swarm and agent, whatever the detector: what counts for a worker.
    pub agents: Changes,
    /// By detector.
    pub by_detector: BTreeMap<String, Changes>,
    /// By tool; an empty name is what is about no tool.
    pub by_tool: BTreeMap<String, Changes>,
    /// Some of those whose fate changes, by kind and detector.
    pub examples: Vec<Example>,
    /// Fates that did not fit; not compared.
    pub left_out: u64,
}

impl Comparison {
    /// Compares.
    #[must_use]
    pub fn of(before: &Fates, now: &Fates) -> Self {
        let mut comparison = Self { left_out: before.left_out + now.left_out, ..Self::default() };
        let mut shown: BTreeMap<(Change, String), usize> = BTreeMap::new();
        let mut agents: BTreeMap<(&str, &str, &str), [Option<Deed>; 2]> = BTreeMap::new();
        let mut tools: BTreeMap<(&str, &str, &str, &str), [Option<Deed>; 2]> = BTreeMap::new();
        let keys: std::collections::BTreeSet<&Key> = before.by_key.keys().chain(now.by_key.keys()).collect();
        for key in keys {
            let (tenant, subject, agent, detector, tool) = key;
            let fates = [before.by_key.get(key), now.by_key.get(key)];
            let deeds = fates.map(|fate| fate.map(|fate| fate.deed));
            let of_agent = agents.entry((tenant, subject, agent)).or_default();
            let of_tool = tools.entry((tenant, subject, agent, tool)).or_default();
            for worst in [of_agent, of_tool] {
                for (worst, deed) in worst.iter_mut().zip(deeds) {
                    *worst = (*worst).max(deed);
                }
            }
            let [was, is] = deeds;
            let change = Change::of(was, is);
            comparison.by_detector.entry(detector.clone()).or_default().note(change);
            let Some(change) = change else { continue };
            let shown = shown.entry((change, detector.clone())).or_default();
            if *shown < EXAMPLES_MAX {
                *shown += 1;
                let [was, is] = fates;
                // The side that says more is the one to quote.
                let quoted = match change {
                    Change::NewlyBlocked | Change::NewlyNudged => is,
                    Change::NoLongerBlocked | Change::NoLongerNudged => was,
                };
                comparison.examples.push(Example {
                    change,
                    tenant: tenant.clone(),
                    subject: subject.clone(),
                    agent: agent.clone(),
                    detector: detector.clone(),
                    tool: tool.clone(),
                    summary: quoted.map(|fate| fate.summary.clone()).unwrap_or_default(),
                });
            }
        }
        for [was, is] in agents.into_values() {
            comparison.agents.note(Change::of(was, is));
        }
        for ((.., tool), [was, is]) in tools {
            comparison.by_tool.entry(tool.to_owned()).or_default().note(Change::of(was, is));
        }
        comparison.examples.sort_by(|one, other| (one.change, &one.detector).cmp(&(other.change, &other.detector)));
        comparison
    }

    /// Whether nothing changes for anybody.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.by_detector.values().all(|changes| changes.by_kind == [0; 4])
    }

    /// A row per detector and per tool for which something changes, and one for all agents.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            Column::text("by"),
            Column::text("name"),
            Column::number("newly_blocked"),
            Column::number("newly_nudged"),
            Column::number("no_longer_blocked"),
            Column::number("no_longer_nudged"),
            Column::number("same"),
        ]);
        let mut add = |by: &str, name: &str, changes: &Changes| {
            let mut cells: Vec<Value> = vec![by.into(), name.into()];
            cells.extend(changes.by_kind.into_iter().chain([changes.same]).map(Value::from));
            table.row(cells);
        };
        for (name, changes) in self.by_detector.iter().filter(|(_, changes)| changes.all() > 0) {
            add("detector", name, changes);
        }
        let mut tools: Vec<(&String, &Changes)> = self.by_tool.iter().filter(|(_, changes)| changes.all() > 0).collect();
        tools.sort_by_key(|(_, changes)| std::cmp::Reverse(changes.all()));
        for (name, changes) in tools.iter().take(TOOLS_TOLD) {
            add("tool", if name.is_empty() { "(no single tool)" } else { name }, changes);
        }
        let mut others = Changes::default();
        for (_, changes) in tools.iter().skip(TOOLS_TOLD) {
            others.add(changes);
        }
        if others.all() > 0 {
            add("tool", "(others)", &others);
        }
        add("agents", "all", &self.agents);
        table
    }

    /// The examples as a table.
    #[must_use]
    pub fn example_table(&self) -> Table {
        let mut columns = vec![
            Column::text("change"),
            Column::text("detector"),
            Column::text("session"),
            Column::text("agent"),
            Column::text("tool"),
            Column::text("summary"),
        ];
        let has_tenants = self.examples.iter().any(|example| !example.tenant.is_empty());
        columns.extend(has_tenants.then(|| Column::text("tenant")));
        let mut table = Table::new(&columns);
        for example in &self.examples {
            let mut cells: Vec<Value> = vec![
                example.change.as_str().into(),
                example.detector.clone().into(),
                example.subject.clone().into(),
                example.agent.clone().into(),
                example.tool.clone().into(),
                example.summary.clone().into(),
            ];
            cells.extend(has_tenants.then(|| example.tenant.clone().into()));
            table.row(cells);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::said::tests::said;

    fn fates(said: &[Said]) -> Fates {
        let mut fates = Fates::default();
        for said in said {
            fates.note(said);
        }
        fates
    }

    #[test]
    fn gains_and_losses_are_counted_by_detector_and_by_agent() {
        let before = fates(&[
            said("a", "stuck", Deed::Nudge),
            said("a", "stuck", Deed::Block),
            said("b", "stuck", Deed::Nudge),
            said("c", "dead_end", Deed::Nudge),
            said("e", "stuck", Deed::Nudge),
            Said { is_shadow: true, ..said("d", "stuck", Deed::Block) },
        ]);
        let now = fates(&[
            said("a", "stuck", Deed::Nudge),
            said("b", "stuck", Deed::Block),
            said("d", "exact_repeat", Deed::Nudge),
            said("c", "exact_repeat", Deed::Nudge),
            said("e", "stuck", Deed::Nudge),
        ]);
        let compared = Comparison::of(&before, &now);
        assert_eq!(compared.by_detector["stuck"], Changes { by_kind: [1, 0, 1, 0], same: 1 });
        assert_eq!(compared.by_detector["dead_end"], Changes { by_kind: [0, 0, 0, 1], same: 0 });
        assert_eq!(compared.agents, Changes { by_kind: [1, 1, 1, 0], same: 2 }, "c is nudged by somebody else now");
        let first = &compared.examples[0];
        assert_eq!((first.change, first.subject.as_str()), (Change::NewlyBlocked, "b"));
        assert!(Comparison::of(&now, &now).is_same() && !compared.is_same());
    }

    #[test]
    fn examples_are_few() {
        let many: Vec<Said> = (0..40).map(|n| said(&format!("s{n}"), "stuck", Deed::Nudge)).collect();
        let compared = Comparison::of(&Fates::default(), &fates(&many));
        assert_eq!((compared.examples.len(), compared.agents.get(Change::NewlyNudged)), (EXAMPLES_MAX, 40));
    }
}
