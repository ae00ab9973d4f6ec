//! Two replays of the same events under two policies: which agents get more commands, which get fewer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::report::{CommandKind, PublishedCommand, Section, Table, counted};

/// Outcomes kept of each replay. Beyond the bound the comparison is marked as not complete.
const OUTCOMES_MAX: usize = 500_000;
/// Examples of each kind of change under one detector.
const EXAMPLES_MAX: usize = 5;
/// Tools in the table: those with most changes. The rest is one row.
const TOOLS_SHOWN: usize = 30;

/// What is compared: tenant, session or swarm, agent, detector, tool.
type Key = (String, String, String, String, String);

/// The gravest command, with its summary.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gravest {
    kind: CommandKind,
    summary: String,
}

/// The gravest command in force to each agent, by detector and tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionOutcomes {
    by_key: BTreeMap<Key, Gravest>,
    left_out: u64,
}

impl SessionOutcomes {
    pub(super) fn note(&mut self, command: &PublishedCommand) {
        if !command.is_in_force() {
            return;
        }
        let key = (
            command.tenant.clone(),
            command.subject.clone(),
            command.agent.clone().unwrap_or_default(),
            command.code.clone(),
            command.tool.clone().unwrap_or_default(),
        );
        self.insert(key, Gravest { kind: command.kind, summary: command.summary.clone() });
    }

    fn insert(&mut self, key: Key, new: Gravest) {
        if let Some(gravest) = self.by_key.get_mut(&key) {
            if gravest.kind < new.kind {
                *gravest = new;
            }
        } else if self.by_key.len() >= OUTCOMES_MAX {
            self.left_out += 1;
        } else {
            self.by_key.insert(key, new);
        }
    }

    /// Adds the outcomes of another part of the input. No agent is in two parts.
    pub(super) fn add(&mut self, other: Self) {
        self.left_out += other.left_out;
        for (key, gravest) in other.by_key {
            self.insert(key, gravest);
        }
    }
}

/// A change of the gravest command from one policy to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Blocked, and was not.
    #[default]
    NewlyBlocked,
    /// Nudged, and had no command.
    NewlyNudged,
    /// Blocked before, and is not now.
    NoLongerBlocked,
    /// Nudged before, and has no command now.
    NoLongerNudged,
}

impl Change {
    /// All of them, the gravest first.
    pub const ALL: [Self; 4] = [Self::NewlyBlocked, Self::NewlyNudged, Self::NoLongerBlocked, Self::NoLongerNudged];

    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NewlyBlocked => "newly blocked",
            Self::NewlyNudged => "newly nudged",
            Self::NoLongerBlocked => "no longer blocked",
            Self::NoLongerNudged => "no longer nudged",
        }
    }

    const fn of(before: Option<CommandKind>, now: Option<CommandKind>) -> Option<Self> {
        use CommandKind::{Block, Nudge};
        match (before, now) {
            (None | Some(Nudge), Some(Block)) => Some(Self::NewlyBlocked),
            (None, Some(_)) => Some(Self::NewlyNudged),
            (Some(Block), None | Some(Nudge)) => Some(Self::NoLongerBlocked),
            (Some(_), None) => Some(Self::NoLongerNudged),
            _ => None,
        }
    }
}

/// Number of changes by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    newly_blocked: u64,
    newly_nudged: u64,
    no_longer_blocked: u64,
    no_longer_nudged: u64,
    pub same: u64,
}

impl Changes {
    const fn count(&mut self, change: Option<Change>) -> &mut u64 {
        match change {
            Some(Change::NewlyBlocked) => &mut self.newly_blocked,
            Some(Change::NewlyNudged) => &mut self.newly_nudged,
            Some(Change::NoLongerBlocked) => &mut self.no_longer_blocked,
            Some(Change::NoLongerNudged) => &mut self.no_longer_nudged,
            None => &mut self.same,
        }
    }

    const fn note(&mut self, change: Option<Change>) {
        *self.count(change) += 1;
    }

    fn add(&mut self, mut other: Self) {
        for change in Change::ALL.map(Some).into_iter().chain([None]) {
            *self.count(change) += *other.count(change);
        }
    }

    fn all(&self) -> u64 {
        Change::ALL.into_iter().map(|change| self.get(change)).sum()
    }

    pub const fn get(mut self, change: Change) -> u64 {
        *self.count(Some(change))
    }
}

/// Changes of a detector, a tool, or all agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChangeRow {
    by: &'static str,
    name: String,
    #[serde(flatten)]
    changes: Changes,
}

/// An agent whose gravest command changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Example {
    pub change: Change,
    pub detector: String,
    /// Session or swarm.
    #[serde(rename = "session")]
    pub subject: String,
    /// Empty for a swarm.
    pub agent: String,
    /// Empty for none.
    pub tool: String,
    /// Summary of the command, by the policy that sends it.
    pub summary: String,
    /// Only where an example has a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// The comparison: `before` is the policy of `--against`, `now` that of `--policy`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// By session or swarm and agent, whatever the detector: what counts for a worker.
    pub agents: Changes,
    by_detector: BTreeMap<String, Changes>,
    /// By tool; an empty name is no single tool.
    by_tool: BTreeMap<String, Changes>,
    /// Some of the changes, by kind and detector.
    pub examples: Vec<Example>,
    /// Outcomes beyond the bound; not compared.
    pub left_out: u64,
}

impl Comparison {
    pub fn of(before: &SessionOutcomes, now: &SessionOutcomes) -> Self {
        let mut comparison = Self { left_out: before.left_out + now.left_out, ..Self::default() };
        let mut shown: BTreeMap<(Change, &str), usize> = BTreeMap::new();
        let mut agents: BTreeMap<(&str, &str, &str), [Option<CommandKind>; 2]> = BTreeMap::new();
        let mut tools: BTreeMap<(&str, &str, &str, &str), [Option<CommandKind>; 2]> = BTreeMap::new();
        let keys: BTreeSet<&Key> = before.by_key.keys().chain(now.by_key.keys()).collect();
        for key in keys {
            let (tenant, subject, agent, detector, tool) = key;
            let [was, is] = [before.by_key.get(key), now.by_key.get(key)];
            let kinds = [was, is].map(|gravest| gravest.map(|gravest| gravest.kind));
            let of_agent = agents.entry((tenant, subject, agent)).or_default();
            let of_tool = tools.entry((tenant, subject, agent, tool)).or_default();
            for worst in [of_agent, of_tool] {
                for (worst, kind) in worst.iter_mut().zip(kinds) {
                    *worst = (*worst).max(kind);
                }
            }
            let change = Change::of(kinds[0], kinds[1]);
            comparison.by_detector.entry(detector.clone()).or_default().note(change);
            let Some(change) = change else { continue };
            let shown = shown.entry((change, detector)).or_default();
            *shown += 1;
            if *shown <= EXAMPLES_MAX {
                // The graver side has the summary.
                let quoted = if matches!(change, Change::NewlyBlocked | Change::NewlyNudged) { is } else { was };
                comparison.examples.push(Example {
                    change,
                    detector: detector.clone(),
                    subject: subject.clone(),
                    agent: agent.clone(),
                    tool: tool.clone(),
                    summary: quoted.map(|gravest| gravest.summary.clone()).unwrap_or_default(),
                    tenant: Some(tenant.clone()),
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
        if comparison.examples.iter().all(|example| example.tenant.as_ref().is_none_or(String::is_empty)) {
            comparison.examples.iter_mut().for_each(|example| example.tenant = None);
        }
        comparison
    }

    /// The changes below a sentence, and examples of them.
    pub fn sections(&self, lead: &str) -> Vec<Section> {
        let left_out =
            (self.left_out > 0).then(|| format!("not complete: {} beyond what is kept", counted(self.left_out, "command")));
        let changes = Section { notes: left_out.into_iter().collect(), ..Section::rows(lead, Table::of(self.rows())) };
        let examples = (!self.examples.is_empty()).then(|| Section::rows("", Table::of(self.examples.clone())));
        std::iter::once(changes).chain(examples).collect()
    }

    /// A row for each detector and tool with changes, and one for all agents.
    pub fn rows(&self) -> Vec<ChangeRow> {
        let row = |by, name: &str, changes: Changes| ChangeRow { by, name: name.to_owned(), changes };
        let changed = |all: &BTreeMap<String, Changes>| -> Vec<(String, Changes)> {
            all.iter().filter(|(_, changes)| changes.all() > 0).map(|(name, changes)| (name.clone(), *changes)).collect()
        };
        let mut rows: Vec<ChangeRow> =
            changed(&self.by_detector).iter().map(|(name, changes)| row("detector", name, *changes)).collect();
        let mut tools = changed(&self.by_tool);
        tools.sort_by_key(|(_, changes)| Reverse(changes.all()));
        for (name, changes) in tools.iter().take(TOOLS_SHOWN) {
            rows.push(row("tool", if name.is_empty() { "(no single tool)" } else { name }, *changes));
        }
        let mut others = Changes::default();
        tools.iter().skip(TOOLS_SHOWN).for_each(|(_, changes)| others.add(*changes));
        rows.extend((others.all() > 0).then(|| row("tool", "(others)", others)));
        rows.push(row("agents", "all", self.agents));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::command::tests::command;

    fn outcomes(commands: &[PublishedCommand]) -> SessionOutcomes {
        let mut outcomes = SessionOutcomes::default();
        for command in commands {
            outcomes.note(command);
        }
        outcomes
    }

    #[test]
    fn gains_and_losses_are_counted_by_detector_and_by_agent() {
        let before = outcomes(&[
            command("a", "stuck", CommandKind::Nudge),
            command("a", "stuck", CommandKind::Block),
            command("b", "stuck", CommandKind::Nudge),
            command("c", "dead_end", CommandKind::Nudge),
            command("e", "stuck", CommandKind::Nudge),
            PublishedCommand { is_shadow: true, ..command("d", "stuck", CommandKind::Block) },
        ]);
        let now = outcomes(&[
            command("a", "stuck", CommandKind::Nudge),
            command("b", "stuck", CommandKind::Block),
            command("d", "exact_repeat", CommandKind::Nudge),
            command("c", "exact_repeat", CommandKind::Nudge),
            command("e", "stuck", CommandKind::Nudge),
        ]);
        let compared = Comparison::of(&before, &now);
        assert_eq!(
            compared.by_detector["stuck"],
            Changes { newly_blocked: 1, no_longer_blocked: 1, same: 1, ..Changes::default() }
        );
        assert_eq!(compared.by_detector["dead_end"], Changes { no_longer_nudged: 1, ..Changes::default() });
        let agents = Changes { newly_blocked: 1, newly_nudged: 1, no_longer_blocked: 1, no_longer_nudged: 0, same: 2 };
        assert_eq!(compared.agents, agents, "c is nudged by somebody else now");
        let first = &compared.examples[0];
        assert_eq!((first.change, first.subject.as_str()), (Change::NewlyBlocked, "b"));
        assert_eq!((Comparison::of(&now, &now).rows().len(), compared.rows().len()), (1, 5));
    }

    #[test]
    fn examples_are_few() {
        let many: Vec<PublishedCommand> = (0..40).map(|n| command(&format!("s{n}"), "stuck", CommandKind::Nudge)).collect();
        let compared = Comparison::of(&SessionOutcomes::default(), &outcomes(&many));
        assert_eq!((compared.examples.len(), compared.agents.get(Change::NewlyNudged)), (EXAMPLES_MAX, 40));
    }
}
