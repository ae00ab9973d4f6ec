//! `budget`: a session has used up what it may use. Page `detection`.

use crate::detect::finding::{Family, Finding, Quantity, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{Advice, CommandText, TextContext};
use crate::detect::{detector::Detector, steps::step::Step};
use crate::event::{Event, EventTime};
use crate::identity::{Hash64, hash_text};
use crate::limits::BUDGET_TOOLS_MAX;
use crate::setting::{BlockScope, MODE, Mode, count, millis, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "every limit is 0 = none until it is set";
        calls: u32 = "0", count(0), "calls of a session";
        calls_block: u32 = "0", count(0), "the same, of a block";
        tool_calls: u32 = "0", count(0), "calls of one tool; 64 tools are counted";
        tool_calls_block: u32 = "0", count(0), "the same, of a block of the tool";
        turns: u32 = "0", count(0), "replies of the model, where events have a turn";
        turns_block: u32 = "0", count(0), "the same, of a block";
        tokens: u32 = "0", count(0), "input and output tokens, where events have a usage";
        tokens_block: u32 = "0", count(0), "the same, of a block";
        cost_micro_usd: u32 = "0", count(0), "cost, millionths of a US dollar, where events have a usage";
        cost_micro_usd_block: u32 = "0", count(0), "the same, of a block";
        wall_ms: i64 = "0", millis(0), "event time since the first event, ms";
        wall_ms_block: i64 = "0", millis(0), "the same, of a block";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "A session has used up its budget.",
        rule: "At a call, the session has more calls, calls of that tool, turns, tokens, cost or time than the limit allows. Each has a limit \
            of a nudge and one of a block; 0 is no limit. A person's message changes nothing, a reset begins anew.",
        example: "Four hundred calls are the budget: the next is nudged, and from the block's limit on refused.",
        silent: &["No limit is set: it is off until an operator knows what a session may cost."],
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::Budget, self.mode, self.least(|limit| limit.nudge))
            .blocking(self.least(|limit| limit.block), BlockScope::Session)
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, limit, tool) = (context.count(), context.finding.threshold, context.tool);
        let (used, of) = match context.finding.quantity {
            Some(Quantity::ToolCalls) => (format!("made {n} {tool} calls"), format!("{limit}")),
            Some(Quantity::Turns) => (format!("taken {n} turns"), format!("{limit}")),
            Some(Quantity::Tokens) => (format!("used {n} tokens"), format!("{limit}")),
            Some(Quantity::Cost) => (format!("cost {} US cents", n / 10_000), format!("{} US cents", limit / 10_000)),
            Some(Quantity::Wall) => (format!("run for {n} s"), format!("{limit} s")),
            Some(Quantity::Calls) | None => (format!("made {n} calls"), format!("{limit}")),
        };
        let text = format!("This run has {used}; its budget is {of}. Finish with what is known, and say what is left undone.");
        CommandText::new(text, format!("budget: {used} of {of}")).advising(Advice::AskHuman)
    }
}

/// What a session has used since it began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spent {
    /// Time of its first event; 0 = it has not begun.
    pub began: EventTime,
    pub calls: u32,
    pub turns: u32,
    /// The last of them + 1; 0 = unknown.
    pub turn: u64,
    /// Input and output tokens of all events.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micro_usd: u64,
    /// Calls by tool, the hash of its name; at most [`BUDGET_TOOLS_MAX`].
    pub tools: Vec<(Hash64, u32)>,
}

impl Spent {
    /// Takes an event: its time, its turn and what it used.
    pub fn note(&mut self, event: &Event<'_>) {
        if self.began == EventTime(0) {
            self.began = event.time;
        }
        let turn = event.turn.map_or(0, |turn| turn.saturating_add(1));
        if turn != 0 && turn != self.turn {
            (self.turn, self.turns) = (turn, self.turns.saturating_add(1));
        }
        self.tokens = self.tokens.saturating_add(event.usage.input_tokens).saturating_add(event.usage.output_tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(event.usage.cost_micro_usd);
    }

    /// Takes a call; how many of its tool there were.
    fn note_call(&mut self, tool: Hash64) -> u32 {
        self.calls = self.calls.saturating_add(1);
        let known = self.tools.iter().position(|(name, _)| *name == tool);
        if known.is_none() && self.tools.len() < BUDGET_TOOLS_MAX {
            self.tools.push((tool, 0));
        }
        let entry = self.tools.iter_mut().find(|(name, _)| *name == tool);
        entry.map_or(0, |(_, calls)| {
            *calls = calls.saturating_add(1);
            *calls
        })
    }
}

/// One limit, and what there is of it.
struct Limit {
    quantity: Quantity,
    used: u32,
    nudge: u32,
    block: u32,
}

impl Settings {
    /// The smallest limit that is set; 0 where none is.
    fn least(&self, of: impl Fn(&Limit) -> u32) -> u32 {
        let limits = self.limits(&Spent::default(), 0, EventTime(0));
        limits.iter().map(of).filter(|limit| *limit > 0).min().unwrap_or_default()
    }

    fn limits(&self, spent: &Spent, of_tool: u32, now: EventTime) -> [Limit; 6] {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let seconds = |ms: i64| small(ms.max(0).unsigned_abs().div_ceil(1000));
        let elapsed = small(now.0.saturating_sub(spent.began.0).max(0).unsigned_abs() / 1000);
        let limit = |quantity, used, nudge, block| Limit { quantity, used, nudge, block };
        [
            limit(Quantity::Calls, spent.calls, self.calls, self.calls_block),
            limit(Quantity::ToolCalls, of_tool, self.tool_calls, self.tool_calls_block),
            limit(Quantity::Turns, spent.turns, self.turns, self.turns_block),
            limit(Quantity::Tokens, small(spent.tokens), self.tokens, self.tokens_block),
            limit(Quantity::Cost, small(spent.cost_micro_usd), self.cost_micro_usd, self.cost_micro_usd_block),
            limit(Quantity::Wall, elapsed, seconds(self.wall_ms), seconds(self.wall_ms_block)),
        ]
    }
}

/// Takes a call that is made, and compares what was used with what may be used.
pub fn observe(settings: &Settings, spent: &mut Spent, tool: &str, step: &Step) -> Vec<Finding> {
    let of_tool = spent.note_call(hash_text(tool).hash64());
    let limits = settings.limits(spent, of_tool, step.time);
    let is_over = |limit: &Limit| [limit.nudge, limit.block].into_iter().any(|most| most > 0 && limit.used > most);
    limits
        .into_iter()
        .filter(is_over)
        .map(|limit| {
            let is_of_tool = limit.quantity == Quantity::ToolCalls;
            let tool = if is_of_tool { u64::from(step.tool.0) } else { 0 };
            let identity = loop_identity(Family::Budget, &[limit.quantity as u64, tool]);
            let least = if limit.nudge > 0 { limit.nudge } else { limit.block };
            let block_at = if limit.block > 0 { limit.block.saturating_add(1) } else { 0 };
            let mut finding = Finding::new(Detector::Budget, settings.mode, identity, limit.used, least)
                .blocking_at(block_at)
                .spanning(step.sequence, step.sequence);
            finding.scope = Some(if is_of_tool { BlockScope::Tool } else { BlockScope::Session });
            finding.quantity = Some(limit.quantity);
            finding
        })
        .collect()
}
