//! What events cost, and which part of it was spent in loops.

use crate::detect::DetectorBits;
use crate::event::Usage;
use crate::limits::OPEN_COSTS_MAX;

/// Calls with their tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls, and text turns of the agent.
    pub calls: u64,
    /// Tokens that models have read or written.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub micro_usd: u64,
}

impl Cost {
    /// Of an event, without a call.
    #[must_use]
    pub const fn of(usage: &Usage) -> Self {
        Self { calls: 0, tokens: usage.input_tokens.saturating_add(usage.output_tokens), micro_usd: usage.cost_micro_usd }
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            tokens: self.tokens.saturating_add(other.tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
        }
    }

    /// Whether tokens or money are known.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.tokens > 0 || self.micro_usd > 0
    }
}

/// What a call has cost whose result is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenCost {
    pub sequence: u64,
    pub tokens: u64,
    pub micro_usd: u64,
    /// Detectors that have counted it in a loop.
    pub counted: DetectorBits,
}

/// Costs of open calls, the oldest first; at most `OPEN_COSTS_MAX`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenCosts {
    pub calls: Vec<OpenCost>,
    /// Calls below this number are forgotten: what they have cost may have been counted.
    pub forgotten: u64,
}

impl OpenCosts {
    pub(super) fn push(&mut self, open: OpenCost) {
        if self.calls.len() >= OPEN_COSTS_MAX {
            self.forgotten = self.calls.remove(0).sequence.saturating_add(1);
        }
        self.calls.push(open);
    }

    /// The call whose result has come. One without a cost that no detector has counted is not held.
    pub(super) fn take(&mut self, sequence: u64) -> (Cost, DetectorBits) {
        match self.calls.iter().position(|open| open.sequence == sequence).map(|at| self.calls.remove(at)) {
            Some(open) => (Cost { calls: 1, tokens: open.tokens, micro_usd: open.micro_usd }, open.counted),
            None => (Cost { calls: u64::from(sequence >= self.forgotten), tokens: 0, micro_usd: 0 }, 0),
        }
    }
}

/// The cost of one event, and the detectors in force that find its step in a loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spending {
    /// Of the event alone. A call counts with the event that begins it.
    pub event: Cost,
    /// Of its call before this event. It joins a loop with the result that shows it.
    pub before: Cost,
    /// Detectors that had found the call in a loop before this event.
    pub known: DetectorBits,
    /// Detectors that find a loop at this event.
    pub found: DetectorBits,
}

impl Spending {
    /// The part that was spent in loops which any of these detectors sees.
    #[must_use]
    pub const fn in_loops_of(&self, detectors: DetectorBits) -> Cost {
        if self.known & detectors != 0 {
            self.event
        } else if self.found & detectors != 0 {
            self.before.and(self.event)
        } else {
            Cost { calls: 0, tokens: 0, micro_usd: 0 }
        }
    }

    /// The part that was spent in loops.
    #[must_use]
    pub const fn in_loops(&self) -> Cost {
        self.in_loops_of(DetectorBits::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn cost(calls: u64, tokens: u64) -> Cost {
        Cost { calls, tokens, micro_usd: 0 }
    }

    #[test]
    fn a_call_joins_a_loop_with_its_result_and_costs_each_detector_and_the_sum_once() {
        let result = Spending { event: cost(0, 3), before: cost(1, 10), known: 0b01, found: 0b11 };
        assert_eq!(result.in_loops_of(0b01), cost(0, 3), "the call has been counted");
        assert_eq!(result.in_loops_of(0b10), cost(1, 13), "the first that this detector sees of it");
        assert_eq!(result.in_loops(), cost(0, 3));
        assert_eq!(result.in_loops_of(0b100), Cost::default());
    }
}
