//! What a counter publishes: a command for a step that a window's sum has crossed.

use crate::detect::{CommandText, Finding, Flags, TextContext, safe};
use crate::engine::publishing::command::{Action, Command, Fact, IdentityRecipe, Origin, ReasonCode, Scope, ScopeKind, Trigger};
use crate::engine::swarm::counter::{Period, SwarmCounter};
use crate::engine::swarm::windows::{contributors, is_block, latest};
use crate::engine::{effects::SwarmCallKey, swarm::rules::Rules};
use crate::event::EventTime;
use crate::identity::{Hash64, Hash128};
use crate::limits::TOOL_NAME_CHARS_SHOWN;
use crate::policy::{Detector, Mode, Notify, Policy};

/// A step that a window's sum has crossed.
pub(super) struct Crossing {
    /// Event time at which the period begins. Milliseconds.
    pub start: i64,
    /// Start of the period, or the reset in it.
    pub epoch: i64,
    /// Count that the sum has crossed.
    pub step: u32,
    pub sum: u32,
    pub workers: u32,
    /// Pane that the window ends with.
    pub end: EventTime,
    /// What the period has published before; `None` = nothing.
    pub published: Option<Period>,
}

/// The command for a crossing.
pub(super) fn command(
    app: &str,
    policy: &Policy,
    key: &SwarmCallKey,
    counter: &SwarmCounter,
    rules: &Rules,
    crossing: &Crossing,
    record_time: EventTime,
) -> Command {
    let recipe = counter.recipe.clone().unwrap_or(IdentityRecipe::Opaque);
    // What a worker cannot recompute must not be refused by it. A swarm nudge it cannot match it gives at the tool's next call.
    let is_block = is_block(rules, crossing.step) && recipe != IdentityRecipe::Opaque;
    let action = if is_block { Action::Block } else { Action::Nudge };
    let period_end = rules.period_end(crossing.start);
    let issued_at = record_time.max(counter.time);
    let origin = Origin {
        app,
        subject: key.subject(),
        epoch: crossing.epoch,
        seq: crossing.published.map_or(1, |period| period.seq + 1),
        cause: &period_end.to_string(),
        issued_at,
        trigger: Trigger::Window { end: EventTime(period_end) },
    };
    let reason = ReasonCode::Detector(rules.detector);
    let level = if is_block { 3 } else { 1 };
    let expires_at = expiry(policy, counter, rules, crossing, issued_at, is_block);
    let bound = bound_tool(counter, &recipe);
    let tool = bound.map_or_else(String::new, |tool| safe(tool, TOOL_NAME_CHARS_SHOWN));
    let text = text(policy, rules, &tool, crossing, is_block);
    let begun = Command::new(origin, action, reason, scope(key, counter, rules, crossing, recipe), level, expires_at);
    Command {
        episode: crossing.published.map_or(begun.id, |period| period.episode),
        is_shadow: rules.mode == Mode::Shadow,
        confidence: Some(match rules.detector {
            Detector::FleetRate => 1.0,
            _ => 0.02f64.mul_add(f64::from(crossing.step.saturating_sub(rules.threshold)), 0.6).min(1.0),
        }),
        summary: text.summary,
        evidence: vec![
            ("count", Fact::Count(u64::from(crossing.sum))),
            ("threshold", Fact::Count(u64::from(rules.threshold))),
            ("calls_at_least", Fact::Count(u64::from(crossing.step))),
            ("workers", Fact::Count(u64::from(crossing.workers))),
            ("workers_at_least", Fact::Count(u64::from(rules.workers_min))),
            ("window_ms", Fact::Count(rules.window_ms.unsigned_abs())),
        ],
        message: Some(text.text),
        advice: Some(text.advice),
        contributors: contributors(&counter.panes, rules, crossing.end),
        ..begun
    }
}

/// The tool of every call that was counted. Calls that are equal in their arguments alone were made by tools of any name: the first one
/// is the word of whoever came first, and goes to no other agent.
const fn bound_tool<'a>(counter: &'a SwarmCounter, recipe: &IdentityRecipe) -> Option<&'a String> {
    match recipe {
        IdentityRecipe::Args(_) => None,
        IdentityRecipe::Call(_) | IdentityRecipe::Coarse(_) | IdentityRecipe::Opaque => Some(&counter.tool),
    }
}

fn scope(key: &SwarmCallKey, counter: &SwarmCounter, rules: &Rules, crossing: &Crossing, recipe: IdentityRecipe) -> Scope {
    let (kind, fingerprint) = match key {
        SwarmCallKey::Swarm { fingerprint, .. } => (ScopeKind::Swarm, *fingerprint),
        SwarmCallKey::Fleet { fingerprint, .. } => (ScopeKind::Fleet, *fingerprint),
        SwarmCallKey::Budget { .. } | SwarmCallKey::Tree { .. } => (ScopeKind::Group, Hash128::NONE),
    };
    let only = match rules.notify {
        Notify::Latest => latest(&counter.panes, rules, crossing.end).into_iter().collect(),
        Notify::Contributors => Vec::new(),
    };
    Scope { kind, tool: bound_tool(counter, &recipe).cloned(), tools: Vec::new(), fingerprint: Some((fingerprint, recipe)), only }
}

fn expiry(
    policy: &Policy,
    counter: &SwarmCounter,
    rules: &Rules,
    crossing: &Crossing,
    issued_at: EventTime,
    is_block: bool,
) -> EventTime {
    if rules.detector == Detector::FleetRate {
        return crossing.end.plus_ms(rules.window_ms);
    }
    // It runs from the loop on, by the counter's own time. What a report brings long after is over when it is published; it is published
    // all the same, so that no command hangs on the order of reports.
    let lifetime = if is_block { policy.episodes.block_ms } else { policy.episodes.nudge_ms };
    let pane_end = crossing.end.plus_ms(policy.detectors.swarm_repeat.pane_ms);
    let late_ms = if rules.window_ms > 0 { counter.time.0.saturating_sub(pane_end.0).max(0) } else { 0 };
    issued_at.plus_ms(lifetime.saturating_sub(late_ms).max(0))
}

/// The text of a command about a window.
fn text(policy: &Policy, rules: &Rules, tool: &str, crossing: &Crossing, is_block: bool) -> CommandText {
    let finding = Finding::new(rules.detector, rules.mode, Hash64::NONE, crossing.sum, rules.threshold)
        .within(rules.window_ms.unsigned_abs());
    policy.detectors.text(&TextContext {
        finding: &finding,
        is_block,
        blocks_all: false,
        tier: 0,
        nudges: 0,
        tool,
        cycle: &[],
        flags: Flags::default(),
        changed: &[],
        workers: crossing.workers,
        rejects: false,
        seconds: None,
    })
}
