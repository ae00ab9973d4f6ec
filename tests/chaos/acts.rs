//! What operators do and what agents see of it: acts with the moments at which they were sent and became visible, calls with the moments at
//! which they began, and what the ones have to do with the others.

use std::{collections::BTreeMap, fmt};

use loopwarden::{clock, event::EventTime};
use serde_json::{Value, json};

/// A call that begins so long after the commit of a stop is refused. Milliseconds.
pub(crate) const BOUND_MS: i64 = 100;
/// Agents that ask before each call. Their ids and swarms are shared.
pub(crate) const AGENTS: usize = 12;
const IDS: usize = 4;
const SWARMS: usize = 3;
const TENANT: &str = "live";
/// Late calls that are shown.
const SHOWN: usize = 10;

/// Whom an act binds, among those agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whom {
    Session(usize),
    Agent(usize),
    Swarm(usize),
    Tenant,
    All,
}

impl Whom {
    /// The narrow ones, and the wide ones: each of the two operators has its own, so that they overlap.
    pub(crate) fn lists() -> [Vec<Self>; 2] {
        let narrow = (0..AGENTS).map(Self::Session).chain((0..IDS).map(Self::Agent)).collect();
        let wide = (0..SWARMS).map(Self::Swarm).chain([Self::Tenant, Self::All]).collect();
        [narrow, wide]
    }

    const fn covers(self, agent: usize) -> bool {
        match self {
            Self::Session(number) => number == agent,
            Self::Agent(number) => number == agent % IDS,
            Self::Swarm(number) => number == agent % SWARMS,
            Self::Tenant | Self::All => true,
        }
    }

    const fn scope(self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Agent(_) => "agent",
            Self::Swarm(_) => "swarm",
            Self::Tenant => "tenant",
            Self::All => "all",
        }
    }

    /// Key of its records.
    pub(crate) fn key(self) -> String {
        match self {
            Self::Session(number) => format!("live-{number}"),
            Self::Agent(number) => format!("hand-{number}"),
            Self::Swarm(number) => format!("live-w{number}"),
            Self::Tenant => TENANT.to_owned(),
            Self::All => "*".to_owned(),
        }
    }

    /// Key of its state row.
    fn row_key(self) -> String {
        let tenant = if self == Self::All { "" } else { TENANT };
        let name = if matches!(self, Self::Tenant | Self::All) { String::new() } else { self.key() };
        ["stop", tenant, self.scope(), &name].join("\u{1f}")
    }

    /// An act about it as its event has it.
    pub(crate) fn event(self, id: &str, kind: &str, now_ms: i64) -> Value {
        let mut event = json!({
            "id": id, "kind": kind, "scope": self.scope(), "session_id": self.key(), "time": now_ms,
            "reason": id, "labels": { "actor": "operator" },
        });
        match self {
            Self::Swarm(_) => event["swarm_id"] = self.key().into(),
            Self::Agent(_) => event["agent"] = json!({ "id": self.key() }),
            _ => {}
        }
        if self != Self::All {
            event["tenant"] = TENANT.into();
        }
        event
    }
}

/// The call of one of the agents.
pub(crate) fn call(agent: usize, number: u64) -> Value {
    json!({
        "id": format!("call-{agent}-{number}"), "kind": "tool_call", "session_id": Whom::Session(agent).key(), "tenant": TENANT,
        "agent": { "id": Whom::Agent(agent % IDS).key() }, "swarm_id": Whom::Swarm(agent % SWARMS).key(),
        "tool": "Bash", "call_id": format!("{agent}-{number}"), "args": { "command": format!("step {number}") },
    })
}

/// What an operator did.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) whom: Whom,
    /// Until when; none: it is a release.
    pub(crate) until_ms: Option<i64>,
    pub(crate) sent_ms: i64,
    /// When its command was first seen, and its row; Unix ms.
    pub(crate) told_ms: Option<i64>,
    pub(crate) row_ms: Option<i64>,
    /// Id of its command, and how often that was seen.
    command: Option<String>,
    times: u32,
}

impl Act {
    pub(crate) const fn new(whom: Whom, until_ms: Option<i64>, sent_ms: i64) -> Self {
        Self { whom, until_ms, sent_ms, told_ms: None, row_ms: None, command: None, times: 0 }
    }

    /// When it was known to be committed.
    pub(crate) fn commit_ms(&self) -> Option<i64> {
        self.told_ms.into_iter().chain(self.row_ms).min()
    }
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Became {
    /// A guard refused it because of a stop: that of this command.
    Refused(Option<String>),
    /// No guard answered, and its agent knew of a stop that fails closed.
    RefusedAlone,
    /// A guard let it run.
    Passed,
    /// No guard answered.
    Unanswered,
}

/// A call of an agent.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) agent: usize,
    pub(crate) begun_ms: i64,
    pub(crate) became: Became,
    /// Number of the guard.
    pub(crate) guard: usize,
    /// By when the guard knew everything, as it said; none where it said that it may not know. Unix ms.
    pub(crate) knew_ms: Option<i64>,
}

impl Call {
    /// What came too late, in words.
    fn late(&self, ms: i64, what: &str) -> String {
        format!(
            "agent {} at guard {}, {}: {ms} ms after the {what}",
            self.agent,
            self.guard,
            EventTime(self.begun_ms).to_rfc3339()
        )
    }
}

/// Everything that was done, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// In the order of their numbers.
    pub(crate) acts: Vec<Act>,
    pub(crate) calls: Vec<Call>,
    pub(crate) answers: u64,
}

/// Id of an act by its number.
pub(crate) fn id_of(number: usize) -> String {
    format!("act-{number}")
}

fn number_of(id: &str) -> Option<usize> {
    id.strip_prefix("act-")?.parse().ok()
}

impl Ledger {
    /// A command was seen; whether it is that of an act.
    pub(crate) fn told(&mut self, command: &Value) -> bool {
        let number = command["trigger"]["event_id"].as_str().and_then(number_of);
        let Some(act) = number.and_then(|number| self.acts.get_mut(number)) else { return false };
        act.times += 1;
        act.command = command["id"].as_str().map(str::to_owned);
        act.told_ms.get_or_insert_with(clock::now_ms);
        true
    }

    /// A state row was seen, or its end.
    pub(crate) fn row(&mut self, key: &str, row: Option<&Value>) {
        let act = match row {
            Some(row) => row["active"][0]["reason"].as_str().and_then(number_of).and_then(|number| self.acts.get_mut(number)),
            None => self.acts.iter_mut().rfind(|act| act.until_ms.is_none() && act.whom.row_key() == key),
        };
        act.into_iter().for_each(|act| _ = act.row_ms.get_or_insert_with(clock::now_ms));
    }

    /// Stops with the moments between which they bind, in their order.
    fn intervals(&self, whom: Whom) -> Vec<Interval> {
        let of: Vec<&Act> = self.acts.iter().filter(|act| act.whom == whom).collect();
        let of_stop = |(at, act): (usize, &&Act)| {
            let command = act.command.clone();
            let until_ms = act.until_ms?;
            let release = of.get(at + 1).filter(|next| next.until_ms.is_none());
            let is_released = release.is_some_and(|release| release.sent_ms < until_ms);
            let end_ms = release.filter(|_| is_released).map_or(until_ms, |release| release.sent_ms);
            let freed_ms = if is_released { release.and_then(|release| release.commit_ms()) } else { Some(until_ms) };
            Some(Interval { command, sent_ms: act.sent_ms, commit_ms: act.commit_ms(), end_ms, freed_ms })
        };
        of.iter().enumerate().filter_map(of_stop).collect()
    }

    /// What all of it comes to.
    pub(crate) fn judge(&self) -> Judged {
        let whoms = || Whom::lists().into_iter().flatten();
        let known: BTreeMap<Whom, Vec<Interval>> = whoms().map(|whom| (whom, self.intervals(whom))).collect();
        let stops = self.acts.iter().filter(|act| act.until_ms.is_some()).count();
        let mut judged = Judged {
            stops,
            releases: self.acts.len() - stops,
            ended: known.values().flatten().filter(|of| of.freed_ms == Some(of.end_ms)).count(),
            calls: self.calls.len(),
            answers: self.answers,
            not_once: self.acts.iter().filter(|act| act.times != 1).count(),
            ..Judged::default()
        };
        judged.commits_ms = self.acts.iter().filter_map(|act| Some(act.commit_ms()? - act.sent_ms)).collect();
        judged.commits_ms.sort_unstable();
        // When a guard first refused a call by a stop.
        let mut shown = BTreeMap::<(usize, &str), i64>::new();
        for call in &self.calls {
            if let Became::Refused(Some(command)) = &call.became {
                let first_ms = shown.entry((call.guard, command)).or_insert(call.begun_ms);
                *first_ms = call.begun_ms.min(*first_ms);
            }
        }
        for call in &self.calls {
            let before = |of: &Vec<Interval>| {
                let at = of.partition_point(|interval| interval.sent_ms <= call.begun_ms);
                at.checked_sub(1).map(|at| of[at].clone())
            };
            let covering: Vec<Interval> =
                known.iter().filter(|(whom, _)| whom.covers(call.agent)).filter_map(|(_, of)| before(of)).collect();
            judged.take(call, &covering, &shown);
        }
        judged.ages_ms.sort_unstable();
        judged
    }
}

/// When a stop binds.
#[derive(Debug, Clone)]
struct Interval {
    command: Option<String>,
    sent_ms: i64,
    commit_ms: Option<i64>,
    /// Until then it binds for certain.
    end_ms: i64,
    /// From then on it binds nobody; none where its release was never seen.
    freed_ms: Option<i64>,
}

/// What stops and calls came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judged {
    stops: usize,
    releases: usize,
    /// Stops that ended by themselves.
    ended: usize,
    calls: usize,
    answers: u64,
    /// Acts whose command was not seen exactly once.
    not_once: usize,
    /// From the sending of an act to its commit, sorted.
    commits_ms: Vec<i64>,
    refused: usize,
    refused_alone: usize,
    /// Calls that a guard let run although a stop was committed before they began: how long before, sorted.
    ages_ms: Vec<i64>,
    /// Those of them that began too late at a guard that said it knew of that time, in words.
    late: Vec<String>,
    /// The same at a guard that said it might not know: its source was away, or behind.
    unknowing: usize,
    /// The same at a guard that had refused a call by that very stop.
    forgotten: Vec<String>,
    /// Calls of stopped agents whom no guard answered.
    unanswered: usize,
    /// Refused although released, or at the end, for longer than the bound, by a guard that said it knew of that time.
    kept: Vec<String>,
    /// The same by a guard that said it might not know.
    kept_unknowing: usize,
}

impl Judged {
    fn take(&mut self, call: &Call, covering: &[Interval], shown: &BTreeMap<(usize, &str), i64>) {
        let binding = || covering.iter().filter(|of| call.begun_ms < of.end_ms);
        let ages = binding().filter_map(|of| of.commit_ms).map(|since_ms| call.begun_ms - since_ms);
        let age_ms = ages.filter(|age_ms| *age_ms >= 0).max();
        let knew = |since_ms: i64| call.knew_ms.is_some_and(|knew_ms| knew_ms >= since_ms + BOUND_MS);
        match (&call.became, age_ms) {
            (Became::Refused(_), _) => {
                self.refused += 1;
                let freed_ms = covering.iter().map(|of| of.freed_ms.unwrap_or(i64::MAX)).max().unwrap_or(i64::MIN);
                let kept_ms = call.begun_ms.saturating_sub(freed_ms);
                if kept_ms >= BOUND_MS && knew(freed_ms) {
                    self.kept.push(call.late(kept_ms, "release or end"));
                } else if kept_ms >= BOUND_MS {
                    self.kept_unknowing += 1;
                }
            }
            (Became::RefusedAlone, _) => self.refused_alone += 1,
            (Became::Passed, Some(age_ms)) => {
                self.ages_ms.push(age_ms);
                if age_ms >= BOUND_MS && knew(call.begun_ms - age_ms) {
                    self.late.push(call.late(age_ms, "commit"));
                } else if age_ms >= BOUND_MS {
                    self.unknowing += 1;
                }
                let first_ms = |of: &Interval| shown.get(&(call.guard, of.command.as_deref()?)).copied();
                if let Some(first_ms) = binding().filter_map(first_ms).min().filter(|ms| call.begun_ms - ms >= BOUND_MS) {
                    self.forgotten.push(call.late(call.begun_ms - first_ms, "first refusal by this stop there"));
                }
            }
            (Became::Unanswered, Some(age_ms)) => self.unanswered += usize::from(age_ms >= BOUND_MS),
            (Became::Passed | Became::Unanswered, None) => {}
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        let Self { stops, releases, ended, calls, answers, not_once, refused, refused_alone, unknowing, unanswered, .. } = other;
        self.stops += stops;
        self.releases += releases;
        self.ended += ended;
        self.calls += calls;
        self.answers += answers;
        self.not_once += not_once;
        self.refused += refused;
        self.refused_alone += refused_alone;
        self.unknowing += unknowing;
        self.kept_unknowing += other.kept_unknowing;
        self.forgotten.extend(other.forgotten);
        self.unanswered += unanswered;
        self.commits_ms.extend(other.commits_ms);
        self.commits_ms.sort_unstable();
        self.ages_ms.extend(other.ages_ms);
        self.ages_ms.sort_unstable();
        self.late.extend(other.late);
        self.kept.extend(other.kept);
    }

    /// What is wrong whatever the machine is busy with.
    pub(crate) fn problems(&self) -> Vec<String> {
        (self.not_once > 0).then(|| format!("{} acts have not exactly one command", self.not_once)).into_iter().collect()
    }

    /// What a page's title adds.
    pub(crate) fn title(&self) -> String {
        let late = self.late.len() + self.kept.len() + self.forgotten.len();
        if late == 0 { String::new() } else { format!(", {late} calls judged late") }
    }

    /// Whether no stopped agent got through late, and none stayed stopped.
    pub(crate) const fn is_in_time(&self) -> bool {
        self.late.is_empty() && self.kept.is_empty() && self.forgotten.is_empty()
    }
}

/// Median, 99 of 100, and longest.
fn spread(sorted: &[i64]) -> String {
    let at = |part: usize| sorted.get((sorted.len().saturating_sub(1)) * part / 100).copied().unwrap_or_default();
    format!("median {} ms, p99 {} ms, longest {} ms", at(50), at(99), at(100))
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stops, releases, ended, calls, answers, not_once, refused, refused_alone, unknowing, unanswered, .. } = self;
        writeln!(f, "| stops, releases, stops that ended by themselves | {stops}, {releases}, {ended} |")?;
        writeln!(f, "| from the sending of an act to its commit | {} |", spread(&self.commits_ms))?;
        writeln!(f, "| acts without exactly one command | **{not_once}** |")?;
        writeln!(f, "| answers to commands | {answers} |")?;
        writeln!(f, "| calls that {AGENTS} agents asked about | {calls} |")?;
        writeln!(f, "| refused because of a stop; by the agent alone, no guard answering | {refused}; {refused_alone} |")?;
        let within = self.ages_ms.len() - self.late.len() - unknowing;
        writeln!(f, "| calls of stopped agents that a guard let run, begun within {BOUND_MS} ms of the commit | {within} |")?;
        writeln!(f, "| begun later, at a guard that said it knew of that time | **{}** |", self.late.len())?;
        writeln!(f, "| begun later, at a guard that had refused by that stop before | **{}** |", self.forgotten.len())?;
        writeln!(f, "| begun later, at a guard that said it might not know | {unknowing} |")?;
        writeln!(f, "| how long after the commit those calls began | {} |", spread(&self.ages_ms))?;
        writeln!(f, "| calls of stopped agents begun later that no guard answered: they fail open | {unanswered} |")?;
        writeln!(
            f,
            "| refused more than {BOUND_MS} ms after the release or the end by a guard that knew; that might not know | **{}**; {} |",
            self.kept.len(),
            self.kept_unknowing
        )?;
        for words in [&self.late, &self.forgotten, &self.kept].into_iter().flat_map(|of| of.iter().take(SHOWN)) {
            writeln!(f, "| late | {words} |")?;
        }
        Ok(())
    }
}
