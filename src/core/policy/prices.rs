//! What tokens cost, where a source leaves the cost out: a table with a version, and nothing that is guessed.

use std::collections::BTreeMap;

use crate::event::{Event, Usage};
use crate::limits::{POLICY_LIST_MAX, PRICE_USD_MAX};
use crate::setting::{Maybe, Must, Patterns, Section, Table, Text, Usd, settings};

/// Tokens that a price is of.
const TOKENS_PRICED: u128 = 1_000_000;

/// Prices of a million tokens, by model.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    /// When the table was made, for people; empty = there is none.
    pub version: String,
    exact: BTreeMap<String, Price>,
    /// Prices of all names with a beginning, the longest beginning first.
    beginnings: Vec<(String, Price)>,
}

/// Millionths of a US dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Price {
    input: u64,
    /// Of input tokens that were read from a cache.
    cached: u64,
    output: u64,
}

impl Price {
    /// What a usage costs, rounded up to a millionth of a dollar.
    fn of(self, usage: &Usage) -> u64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let parts = [(usage.input_tokens - cached, self.input), (cached, self.cached), (usage.output_tokens, self.output)];
        // Counts and prices have 64 bits each, and there are three.
        let sum = parts
            .into_iter()
            .fold(0_u128, |sum, (tokens, price)| sum.saturating_add(u128::from(tokens).saturating_mul(u128::from(price))));
        u64::try_from(sum.div_ceil(TOKENS_PRICED)).unwrap_or(u64::MAX)
    }
}

settings! {
    /// `[prices]` without its list of models.
    struct PriceList {
        version: String = r#""""#, Text, "when the prices were looked up, as 2026-11-27; needed with any model";
    }
}

settings! {
    /// One `[[prices.model]]`: what some models cost.
    struct ModelPrice {
        names: Vec<String> = "[]", Must(Patterns("")), "names of models: exact, or a prefix ending in *; an exact name wins, then the longest prefix";
        input_usd: u64 = "0.0", Must(Usd(PRICE_USD_MAX)), "US dollars for a million input tokens";
        output_usd: u64 = "0.0", Must(Usd(PRICE_USD_MAX)), "the same of output tokens";
        cached_usd: Option<u64> = "0.0", Maybe(Usd(PRICE_USD_MAX)), "the same of input tokens read from a cache; left out: as input tokens";
    }
}

impl Prices {
    pub(super) const SECTIONS: [Section; 2] = [
        Section {
            path: "prices",
            is_list: false,
            about: "What tokens cost where events give none. A model that is not named has no price: its tokens are counted (unpriced_tokens_total).",
            settings: PriceList::SETTINGS,
        },
        Section { path: "prices.model", is_list: true, about: "", settings: ModelPrice::SETTINGS },
    ];

    pub(super) fn read(table: &mut Table<'_>) -> Self {
        let PriceList { version } = PriceList::read(table);
        let mut prices = Self { version, ..Self::default() };
        for model in table.key("model").rows(POLICY_LIST_MAX, ModelPrice::SETTINGS, ModelPrice::read) {
            let (input, output) = (model.input_usd, model.output_usd);
            // Nobody knows what a cache saves: without a price of its own its tokens cost what others do.
            let price = Price { input, cached: model.cached_usd.unwrap_or(input), output };
            for name in model.names {
                match name.strip_suffix('*') {
                    Some(beginning) => prices.beginnings.push((beginning.to_owned(), price)),
                    None => _ = prices.exact.insert(name, price),
                }
            }
        }
        // The sort is stable: of equal ones the later entry wins, as of exact names.
        prices.beginnings.reverse();
        prices.beginnings.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        let path = table.path("version");
        table.check.rule(&path, prices.is_empty() || !prices.version.is_empty(), || {
            format!("{path} is empty, but a table of prices must name its day")
        });
        prices
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.beginnings.is_empty()
    }

    fn get(&self, model: &str) -> Option<Price> {
        let by_beginning = || self.beginnings.iter().find(|(beginning, _)| model.starts_with(beginning.as_str()));
        self.exact.get(model).copied().or_else(|| by_beginning().map(|(_, price)| *price))
    }

    /// Gives an event with tokens and no cost the cost of its model. Returns the tokens whose price nobody knows: no model is named, or the
    /// table lacks it.
    pub fn fill(&self, event: &mut Event<'_>) -> u64 {
        let tokens = event.usage.input_tokens.saturating_add(event.usage.output_tokens);
        if self.is_empty() || tokens == 0 || event.usage.cost_micro_usd > 0 {
            return 0;
        }
        match event.model.as_deref().and_then(|model| self.get(model)) {
            Some(price) => {
                event.usage.cost_micro_usd = price.of(&event.usage);
                0
            }
            None => tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_of_a_million_tokens_and_hostile_counts_saturate() {
        let price = Price { input: 3_000_000, cached: 300_000, output: 15_000_000 };
        let usage =
            |input_tokens, cached_tokens, output_tokens| Usage { input_tokens, cached_tokens, output_tokens, cost_micro_usd: 0 };
        assert_eq!(price.of(&usage(1_000_000, 0, 0)), 3_000_000);
        assert_eq!(price.of(&usage(1_000_000, 900_000, 1_000)), 300_000 + 270_000 + 15_000);
        assert_eq!(price.of(&usage(1, 0, 0)), 3);
        assert_eq!(price.of(&usage(1, 1, 0)), 1, "rounded up");
        // More of a cache than there was: all of it came from there.
        assert_eq!(price.of(&usage(10, u64::MAX, 0)), 3);
        let dear = Price { input: u64::MAX, cached: u64::MAX, output: u64::MAX };
        assert_eq!(dear.of(&usage(u64::MAX, 0, u64::MAX)), u64::MAX);
    }
}
