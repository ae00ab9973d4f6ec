//! What calls cost, where events say.

use loopwarden_core::event::Usage;
use serde_json::Value;

use crate::report::Column;

/// Calls, their tokens, their cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Calls, and text turns.
    pub calls: u64,
    /// Tokens read and written by the model replies behind them.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micro_usd: u64,
}

impl Spent {
    /// What an event says, without a call.
    #[must_use]
    pub const fn of(usage: Usage) -> Self {
        Self { calls: 0, tokens: usage.input_tokens.saturating_add(usage.output_tokens), cost_micro_usd: usage.cost_micro_usd }
    }

    /// Adds.
    pub const fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
    }

    /// Columns of a table that tells it.
    pub const COLUMNS: [Column; 3] = [Column::number("in_loops"), Column::number("loop_tokens"), Column::number("loop_cost_usd")];

    /// Its cells below [`Self::COLUMNS`]; empty where there is nothing, so that a table of logs without usage has no such columns.
    #[must_use]
    pub fn cells(self) -> [Value; 3] {
        let tokens = (self.tokens > 0).then_some(self.tokens);
        [self.calls.into(), tokens.into(), (self.cost_micro_usd > 0).then(|| self.cost_usd()).into()]
    }

    /// Tokens, unless no event tells them: a zero would be an answer.
    #[must_use]
    pub fn known_tokens(self) -> Option<u64> {
        (self.tokens > 0 || self.calls == 0).then_some(self.tokens)
    }

    /// US dollars, unless no event tells them.
    #[must_use]
    pub fn known_cost_usd(self) -> Option<f64> {
        (self.cost_micro_usd > 0 || self.calls == 0).then(|| self.cost_usd())
    }

    /// US dollars, to a hundredth of a cent.
    #[must_use]
    pub fn cost_usd(self) -> f64 {
        (self.cost_micro_usd as f64 / 100.0).round() / 1e4
    }

    /// Whether events said anything.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.tokens > 0 || self.cost_micro_usd > 0
    }
}
