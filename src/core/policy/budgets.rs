//! Budgets above a session: what everybody of a group may use together within a window of event time.
//!
//! Windows are pieces of the calendar in UTC and never slide. The sum of a window only grows, so that what it crosses depends on no order.

use std::collections::BTreeSet;

use crate::event::EventTime;
use crate::limits::{BUDGETS_MAX, COST_USD_MAX, LABEL_KEY_CHARS_MAX, POLICY_MS_MAX};
use crate::setting::{
    Amount, Form, Key, MODE, Mode, Must, Name, PatternsOrNameless, Section, Table, Usd, kinds, one_of, settings, within, words,
};
use crate::whom::{Kind, Who, Whom};

/// The largest limit of calls or tokens: sums of some of them stay exact.
const LIMIT_MAX: i64 = 1_000_000_000_000_000;
/// The largest share of a limit at which something is published.
const SHARE_MAX: f64 = 1_000.0;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// The first Monday of Unix time.
const MONDAY_MS: i64 = 4 * DAY_MS;

words! {
    /// How long a window is.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Per {
        /// As long as the session lives: each session of the scope has the budget by itself.
        Session = "session",
        /// As long as the tree of agents lives: each tree of the scope has the budget by itself.
        Tree = "tree",
        /// A minute: a limit of its cost is a speed.
        Minute = "minute",
        Hour = "hour",
        Day = "day",
        /// Seven days that begin with a Monday.
        Week = "week",
    }
}

impl Per {
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == name).map(|(_, per)| *per)
    }

    /// Length of a window, ms of event time; 0 = it ends with the session or the tree.
    #[must_use]
    pub const fn window_ms(self) -> i64 {
        match self {
            Self::Session | Self::Tree => 0,
            Self::Minute => MINUTE_MS,
            Self::Hour => 60 * MINUTE_MS,
            Self::Day => DAY_MS,
            Self::Week => 7 * DAY_MS,
        }
    }

    /// Start of the window that holds a time.
    #[must_use]
    pub const fn window_of(self, time: EventTime) -> EventTime {
        match self {
            Self::Session | Self::Tree => EventTime(0),
            Self::Week => EventTime(time.0.saturating_sub(time.0.saturating_sub(MONDAY_MS).rem_euclid(7 * DAY_MS))),
            _ => EventTime(time.0.saturating_sub(time.0.rem_euclid(self.window_ms()))),
        }
    }
}

/// What was used. Sums merge in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    pub calls: u64,
    /// Input and output tokens together, those of a cache among the input.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micro_usd: u64,
    /// Agents that others have started, as they first show themselves.
    pub agents: u64,
    /// Of these, agents that have reported their end.
    pub ended: u64,
    /// Levels that the deepest of them is below its root.
    pub depth: u32,
    /// Event time of the first use.
    pub first: EventTime,
    /// Event time of the last.
    pub last: EventTime,
}

impl Used {
    /// Adds another sum; an empty one has no times.
    pub fn add(&mut self, other: &Self) {
        let is_first = *self == Self::default();
        self.calls = self.calls.saturating_add(other.calls);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
        self.agents = self.agents.saturating_add(other.agents);
        self.ended = self.ended.saturating_add(other.ended);
        self.depth = self.depth.max(other.depth);
        self.first = if is_first { other.first } else { self.first.min(other.first) };
        self.last = if is_first { other.last } else { self.last.max(other.last) };
    }
}

/// What a budget has a limit of, and a step is reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    Calls,
    Tokens,
    /// Millionths of a US dollar.
    Cost,
    /// Milliseconds from the first use to the last.
    Wall,
    /// Agents that others have started.
    Agents,
}

impl Quantity {
    const ALL: [Self; 5] = [Self::Calls, Self::Tokens, Self::Cost, Self::Wall, Self::Agents];

    /// The word that the evidence of a command has for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Tokens => "tokens",
            Self::Cost => "cost_micro_usd",
            Self::Wall => "wall_ms",
            Self::Agents => "agents",
        }
    }

    /// So much of it was used.
    #[must_use]
    pub fn of(self, used: &Used) -> u64 {
        match self {
            Self::Calls => used.calls,
            Self::Tokens => used.tokens,
            Self::Cost => used.cost_micro_usd,
            Self::Agents => used.agents,
            Self::Wall => used.last.0.saturating_sub(used.first.0).max(0).unsigned_abs(),
        }
    }
}

/// What is published when a share of a limit is used; each once in a window. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum BudgetStep {
    /// To people: it binds nobody.
    Warn = 1,
    /// To the agents: each hears it at its next call.
    Nudge = 2,
    /// Calls are refused to the end of the window.
    Block = 3,
}

impl BudgetStep {
    pub const ALL: [Self; 3] = [Self::Warn, Self::Nudge, Self::Block];

    /// The word that the evidence of a command has for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Nudge => "nudge",
            Self::Block => "block",
        }
    }
}

settings! {
    /// One `[[budget]]` of a policy; limits of 0 are none.
    pub struct Budget {
        name: String = r#""none""#, Must(Name), "name, shown in commands; each once, without a /";
        scope: BudgetScope = r#""tenant""#, Must(ScopeOf), "{words}, each of them by itself: whose use is added up";
        names: Vec<String> = r#"["*"]"#, PatternsOrNameless("somebody"), "of whom: exact, or a prefix ending in *; of a label its values; empty: who has none";
        per: Per = r#""day""#, one_of(Per::WORDS), "{words}: window of event time in UTC, after which the sum begins anew; of session and tree their whole life";
        mode: Mode = r#""nudge""#, MODE, "{words}: as of detectors";
        calls: u64 = "0", within(0, LIMIT_MAX), "calls that were made";
        tokens: u64 = "0", within(0, LIMIT_MAX), "input and output tokens";
        cost_micro_usd as "cost_usd": u64 = "0.0", Usd(COST_USD_MAX), "US dollars; per minute it limits the speed";
        wall_ms: u64 = "0", within(0, POLICY_MS_MAX), "from the first use to the last";
        agents: u64 = "0", within(0, LIMIT_MAX), "agents that others have started, as they first show themselves";
        warn_share: f64 = "0.8", Amount(SHARE_MAX), "share of a limit at which people hear of it; 0 = never";
        nudge_share: f64 = "1.0", Amount(SHARE_MAX), "the same of the agents";
        block_share: f64 = "1.0", Amount(SHARE_MAX), "the same of a block to the end of the window, in mode block";
    }
    then Budget::checked;
}

/// A limit, and what was used of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    pub quantity: Quantity,
    pub used: u64,
    pub limit: u64,
}

impl Budget {
    /// Those whose use it adds up with that of an agent; none where it does not cover it.
    #[must_use]
    pub fn whom(&self, who: &Who<'_>) -> Option<Whom> {
        let named = |kind: Kind, name: &str| Some(Whom::new(who.tenant, kind, name));
        let whole = match self.scope.kind {
            Kind::Label => match who.labels {
                Some(labels) => {
                    let value = labels.iter().find_map(|(key, value)| (*key == self.scope.label).then_some(value))?;
                    Whom::label(who.tenant, &self.scope.label, value).filter(|_| self.covers(value))
                }
                // A sum of the session or of its tree needs no value of the label.
                None => None,
            },
            kind => {
                let name = who.own(kind)?;
                let is_covered = self.covers(if kind == Kind::Tenant { who.tenant } else { name });
                named(kind, name).filter(|_| is_covered)
            }
        };
        let is_covered = whole.is_some() || (self.scope.kind == Kind::Label && who.labels.is_none());
        match self.per {
            Per::Session => named(Kind::Session, who.session_id).filter(|_| is_covered),
            Per::Tree => who.tree.filter(|_| is_covered).and_then(|tree| named(Kind::Tree, tree)),
            Per::Minute | Per::Hour | Per::Day | Per::Week => whole,
        }
    }

    /// Whether it is still a budget of these: its kind and its names may have changed since their use was added up.
    #[must_use]
    pub fn is_of(&self, whom: &Whom) -> bool {
        if self.scope.kind == whom.kind {
            let name = match whom.kind {
                Kind::Tenant => Some(&*whom.tenant),
                Kind::Label => whom.name.strip_prefix(&self.scope.label).and_then(|rest| rest.strip_prefix('=')),
                _ => Some(&*whom.name),
            };
            return name.is_some_and(|name| self.covers(name));
        }
        // Which sessions or trees of a swarm or a label have it is decided where they are.
        let is_each = matches!((self.per, whom.kind), (Per::Session, Kind::Session) | (Per::Tree, Kind::Tree));
        is_each && (self.scope.kind != Kind::Tenant || self.covers(&whom.tenant))
    }

    /// Whether it adds up who has this name: that of the agent, tree, swarm or tenant, or the value of the label.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == pattern,
        })
    }

    /// Whether a step is ever published.
    #[must_use]
    pub fn has(&self, step: BudgetStep) -> bool {
        let may = match step {
            BudgetStep::Block => matches!(self.mode, Mode::Block | Mode::Shadow),
            BudgetStep::Warn | BudgetStep::Nudge => self.mode.is_on(),
        };
        may && self.share(step) > 0.0
    }

    /// The limit by which a step is reached, if it is; of several the one that is used up most.
    #[must_use]
    pub fn reached(&self, step: BudgetStep, used: &Used) -> Option<Reached> {
        if !self.has(step) {
            return None;
        }
        let share = self.share(step);
        // Both are whole numbers: a share of 1 compares them as they are.
        let is_reached = |of: &Reached| of.used > 0 && of.used as f64 >= of.limit as f64 * share;
        self.parts(used).filter(is_reached).max_by(|a, b| a.share().total_cmp(&b.share()))
    }

    /// Each of its limits, with what is used of it.
    pub fn parts(&self, used: &Used) -> impl Iterator<Item = Reached> {
        let limits = Quantity::ALL.into_iter().map(|quantity| (quantity, self.limit(quantity))).filter(|(_, limit)| *limit > 0);
        limits.map(|(quantity, limit)| Reached { quantity, used: quantity.of(used), limit })
    }

    const fn limit(&self, quantity: Quantity) -> u64 {
        match quantity {
            Quantity::Calls => self.calls,
            Quantity::Tokens => self.tokens,
            Quantity::Cost => self.cost_micro_usd,
            Quantity::Wall => self.wall_ms,
            Quantity::Agents => self.agents,
        }
    }

    const fn share(&self, step: BudgetStep) -> f64 {
        match step {
            BudgetStep::Warn => self.warn_share,
            BudgetStep::Nudge => self.nudge_share,
            BudgetStep::Block => self.block_share,
        }
    }

    /// Notes what its keys demand of each other.
    fn checked(self, table: &mut Table<'_>) -> Self {
        let (path, name) = (table.path("name"), &self.name);
        // It is a part of keys between slashes.
        table.check.rule(&path, !name.contains('/'), || format!("{path} holds {name:?}, but must hold no /"));
        let path = table.path("scope");
        table.check.rule(&path, self.scope.kind != Kind::Agent || self.per != Per::Session, || {
            format!("{path} is agent and per is session, but that is the detector budget: set detectors.budget")
        });
        let path = table.path("block_share");
        let (warn, nudge, block) = (self.warn_share, self.nudge_share, self.block_share);
        let is_rising = [warn, nudge, block].into_iter().filter(|share| *share > 0.0).is_sorted();
        table.check.rule(&path, is_rising, || {
            format!("{path} is {block}, nudge_share {nudge} and warn_share {warn}, but none must be below one before it")
        });
        self
    }
}

impl Reached {
    /// What is used of the limit; 1 = all.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.used as f64 / self.limit as f64
    }
}

/// The budgets of a policy, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Budgets(Vec<Budget>);

impl Budgets {
    pub(super) const SECTION: Section = Section {
        path: "budget",
        is_list: true,
        about: "What many may use together (page `policies`). Each entry is a budget; one whose limits are all 0 is none. What is left out is as here.",
        settings: Budget::SETTINGS,
    };

    pub(super) fn read(whole: &mut Table<'_>) -> Self {
        let mut budgets = whole.key("budget").rows(BUDGETS_MAX, Budget::SETTINGS, Budget::read);
        let mut names = BTreeSet::new();
        for (index, Budget { name, .. }) in budgets.iter().enumerate() {
            let path = format!("budget[{index}].name");
            whole.check.rule(&path, names.insert(name), || format!("{path} is {name:?} a second time, but names must differ"));
        }
        // One that limits nothing, as that of the default policy, is none.
        let limits = |budget: &Budget| budget.mode.is_on() && Quantity::ALL.into_iter().any(|of| budget.limit(of) > 0);
        budgets.retain(limits);
        Self(budgets)
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Budget> {
        self.0.iter()
    }

    /// The budget of that name, where its windows are as long.
    #[must_use]
    pub fn get(&self, name: &str, per: Per) -> Option<&Budget> {
        self.0.iter().find(|budget| budget.name == name && budget.per == per)
    }
}

/// By what a budget tells agents apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetScope {
    /// One by which budgets add up, or the label.
    kind: Kind,
    /// Key of the label, where that is the kind; else empty.
    label: String,
}

impl Default for BudgetScope {
    fn default() -> Self {
        Self { kind: Kind::Tenant, label: String::new() }
    }
}

kinds! {
    /// The scope of a budget.
    ScopeOf -> BudgetScope, |_| scopes(), |_, key| scope(key), |_| Form::Words {
        words: Kind::ALL.into_iter().filter(|kind| kind.can_add_up()).map(Kind::as_str).chain(["label:KEY"]).collect(),
        is_closed: false,
    };
}

fn scopes() -> String {
    let kinds: Vec<&str> = Kind::ALL.into_iter().filter(|kind| kind.can_add_up()).map(Kind::as_str).collect();
    format!("{}, label:KEY with a key of 1 to {LABEL_KEY_CHARS_MAX} characters and no =", kinds.join(", "))
}

fn scope(key: &mut Key<'_>) -> BudgetScope {
    let text = key.text();
    if let Some(kind) = Kind::from_name(text).filter(|kind| kind.can_add_up()) {
        return BudgetScope { kind, label: String::new() };
    }
    let is_key = |label: &&str| !label.is_empty() && label.chars().count() <= LABEL_KEY_CHARS_MAX && !label.contains('=');
    let label = text.strip_prefix("label:").filter(is_key);
    let path = &key.path;
    key.check.rule(path, label.is_some(), || format!("{path} is {text:?}, but must be one of: {}", scopes()));
    BudgetScope { kind: Kind::Label, label: label.unwrap_or_default().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_pieces_of_the_calendar() {
        let at = |text: &str| EventTime::parse_rfc3339(text).unwrap();
        let time = at("2026-11-27T23:59:59.999Z");
        for (per, start) in [
            (Per::Minute, "2026-11-27T23:59:00Z"),
            (Per::Hour, "2026-11-27T23:00:00Z"),
            (Per::Day, "2026-11-27T00:00:00Z"),
            (Per::Week, "2026-11-23T00:00:00Z"),
        ] {
            assert_eq!(per.window_of(time), at(start), "{per:?}");
            assert_eq!(per.window_of(at(start)), at(start), "{per:?}");
            assert_eq!(per.window_of(at(start).plus_ms(-1)), at(start).plus_ms(-per.window_ms()), "{per:?}");
            assert_eq!(Per::from_name(per.as_str()), Some(per));
        }
        assert_eq!([Per::Session, Per::Tree].map(|per| per.window_of(time)), [EventTime(0); 2]);
        // The extremes of event time have a window too.
        for per in [Per::Minute, Per::Hour, Per::Day, Per::Week] {
            assert!(per.window_of(EventTime(0)) <= EventTime(0));
        }
    }

    #[test]
    fn sums_merge_in_any_order_and_never_overflow() {
        let used = |calls, tokens, first, last| Used {
            calls,
            tokens,
            cost_micro_usd: 1,
            agents: 1,
            ended: 0,
            depth: u32::try_from(first).unwrap_or_default(),
            first: EventTime(first),
            last: EventTime(last),
        };
        let parts = [used(1, 5, 10, 20), used(u64::MAX, 7, 5, 6), used(2, u64::MAX, 30, 31)];
        let sum = |order: [usize; 3]| {
            let mut sum = Used::default();
            for at in order {
                sum.add(&parts[at]);
            }
            sum
        };
        let whole = Used {
            calls: u64::MAX,
            tokens: u64::MAX,
            cost_micro_usd: 3,
            agents: 3,
            ended: 0,
            depth: 30,
            first: EventTime(5),
            last: EventTime(31),
        };
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            assert_eq!(sum(order), whole);
        }
    }
}
