//! Cost of calls, as far as events say.

use loopwarden_core::engine::Cost;
use serde::Serialize;

/// Calls with their tokens and cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(into = "KnownSpent")]
pub struct Spent {
    /// Calls and text turns.
    pub calls: u64,
    /// Tokens read and written in the model replies behind them.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micro_usd: u64,
}

/// The same for programs: `null` where no event says anything, since a zero would be an answer.
#[derive(Serialize)]
struct KnownSpent {
    calls: u64,
    tokens: Option<u64>,
    cost_usd: Option<f64>,
}

impl From<Cost> for Spent {
    fn from(cost: Cost) -> Self {
        Self { calls: cost.calls, tokens: cost.tokens, cost_micro_usd: cost.micro_usd }
    }
}

impl From<Spent> for KnownSpent {
    fn from(spent: Spent) -> Self {
        let has_none = spent.calls == 0;
        Self {
            calls: spent.calls,
            tokens: (spent.tokens > 0 || has_none).then_some(spent.tokens),
            cost_usd: (spent.cost_micro_usd > 0 || has_none).then(|| spent.cost_usd()),
        }
    }
}

/// The same as columns of a table; empty where there is nothing, so that logs without usage have no such columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct SpentColumns {
    in_loops: u64,
    loop_tokens: Option<u64>,
    loop_cost_usd: Option<f64>,
}

impl From<Spent> for SpentColumns {
    fn from(spent: Spent) -> Self {
        Self {
            in_loops: spent.calls,
            loop_tokens: (spent.tokens > 0).then_some(spent.tokens),
            loop_cost_usd: (spent.cost_micro_usd > 0).then(|| spent.cost_usd()),
        }
    }
}

impl Spent {
    pub(super) const fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
    }

    /// US dollars, to a hundredth of a cent.
    pub fn cost_usd(self) -> f64 {
        (self.cost_micro_usd as f64 / 100.0).round() / 1e4
    }

    pub const fn is_known(self) -> bool {
        self.tokens > 0 || self.cost_micro_usd > 0
    }
}
