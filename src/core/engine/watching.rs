//! What became of the agents of a trial: each is watched from its first command on, in whichever arm, until its loop is over.

use std::collections::BTreeMap;

use crate::detect::weights::news::brings_news;
use crate::detect::{Finding, Flags, History};
use crate::engine::command::{Action, ReasonCode};
use crate::engine::watched::{Watch, WatchedAgent};
use crate::engine::{effects::Effects, session::Session};
use crate::policy::{Arm, Detector};

/// So many calls in a row without a finding have left the loop.
const LEFT_CALLS: u32 = 8;

/// Watches an agent at an event. `next` is the number of the next call before it.
pub(super) fn watch(session: &mut Session, next: u64, out: &mut Effects) {
    let Some(agent) = &mut session.head.watched else {
        session.head.watched = first_command(&session.history, out);
        out.trial = session.head.watched;
        return;
    };
    if agent.watch != Watch::Open {
        return;
    }
    let is_call = session.history.next_sequence() > next;
    let is_refused = is_call && session.history.newest().is_some_and(|step| step.flags.contains(Flags::REFUSED));
    if out.spending.found != 0 {
        agent.calls_outside = 0;
    } else if is_call && !is_refused {
        agent.calls_outside += 1;
    }
    if !is_refused {
        let cost = out.spending.in_loops();
        agent.calls = agent.calls.saturating_add(cost.calls);
        agent.micro_usd = agent.micro_usd.saturating_add(cost.micro_usd);
    }
    if agent.calls_outside >= LEFT_CALLS {
        agent.watch = Watch::Over;
    }
    out.trial = Some(*agent);
}

/// The agent of the first command of its trial. A loop that was spoken about before the trial is none of it.
fn first_command(history: &History, out: &Effects) -> Option<WatchedAgent> {
    let command = out.commands.iter().find(|command| command.action != Action::Unblock)?;
    let (ReasonCode::Detector(detector), arm) = (command.reason, command.arm?) else { return None };
    if command.episode != command.id {
        return None;
    }
    let finding = out.findings.iter().find(|finding| finding.is_current && finding.detector == detector)?;
    let was_getting_on = was_getting_on(history, finding);
    Some(WatchedAgent { detector, arm, was_getting_on, calls: 0, micro_usd: 0, calls_outside: 0, watch: Watch::Open })
}

fn was_getting_on(history: &History, finding: &Finding) -> bool {
    let between = history.ring_back().skip_while(|step| step.sequence >= finding.last);
    between.take_while(|step| step.sequence > finding.first).any(|step| step.fired == 0 && brings_news(step))
}

/// Nothing more is to be seen of the agent that is watched.
pub(super) fn end_watch(session: &mut Session, how: Watch, out: &mut Effects) {
    if let Some(agent) = session.head.watched.as_mut().filter(|agent| agent.watch == Watch::Open) {
        agent.watch = how;
        out.trial = Some(*agent);
    }
}

/// A sum of values with that of their squares: whole numbers, so the order of their adding is no matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moments {
    pub sum: u64,
    pub squares: u128,
}

impl Moments {
    fn note(&mut self, value: u64) {
        self.sum = self.sum.saturating_add(value);
        self.squares = self.squares.saturating_add(u128::from(value) * u128::from(value));
    }

    fn add(&mut self, other: Self) {
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
    }
}

/// Agents, and how many of them left the loop and went on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WentOn {
    pub agents: u64,
    pub went_on: u64,
}

/// The agents of one arm, by whether they were getting on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArmSums {
    pub stuck: WentOn,
    pub getting_on: WentOn,
    pub calls: Moments,
    pub micro_usd: Moments,
}

impl ArmSums {
    #[must_use]
    pub const fn all(&self) -> WentOn {
        let (stuck, others) = (self.stuck, self.getting_on);
        WentOn { agents: stuck.agents + others.agents, went_on: stuck.went_on + others.went_on }
    }

    pub fn add(&mut self, other: &Self) {
        for (to, from) in [(&mut self.stuck, other.stuck), (&mut self.getting_on, other.getting_on)] {
            to.agents += from.agents;
            to.went_on += from.went_on;
        }
        self.calls.add(other.calls);
        self.micro_usd.add(other.micro_usd);
    }
}

/// What a trial has shown, by detector and arm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrialSums(BTreeMap<(Detector, Arm), ArmSums>);

impl TrialSums {
    /// Enters an agent of which nothing more is to be seen; any other counts nowhere, or not yet.
    pub fn note(&mut self, agent: &WatchedAgent) {
        if agent.watch != Watch::Over {
            return;
        }
        let sums = self.0.entry((agent.detector, agent.arm)).or_default();
        let kind = if agent.was_getting_on { &mut sums.getting_on } else { &mut sums.stuck };
        kind.agents += 1;
        kind.went_on += u64::from(agent.went_on());
        sums.calls.note(agent.calls);
        sums.micro_usd.note(agent.micro_usd);
    }

    /// Adds those of another part of the sessions.
    pub fn add(&mut self, other: &Self) {
        for (key, sums) in &other.0 {
            self.0.entry(*key).or_default().add(sums);
        }
    }

    /// In the order of detectors and arms.
    pub fn iter(&self) -> impl Iterator<Item = (Detector, Arm, &ArmSums)> {
        self.0.iter().map(|((detector, arm), sums)| (*detector, *arm, sums))
    }

    #[must_use]
    pub fn get(&self, detector: Detector, arm: Arm) -> ArmSums {
        self.0.get(&(detector, arm)).copied().unwrap_or_default()
    }
}
