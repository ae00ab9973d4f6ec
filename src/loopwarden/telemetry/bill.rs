//! What loops have cost, and what commands have saved, since the start of the process.

use loopwarden_lab::report::quality::Estimate;
use loopwarden_lab::report::trial::{self, NotSaved, Saved};
use loopwarden_lane::{Samples, Stats, Value};
use serde_json::json;

/// As the live page shows it.
pub fn shown(stats: &Stats, has_trial: bool) -> serde_json::Value {
    // A zero would be an answer.
    let usd = |micro_usd: u64| (micro_usd > 0).then_some(micro_usd as f64 / 1e6);
    let why = |why: NotSaved| if has_trial { NotSaved::TooFew } else { why }.as_str().to_owned();
    let saved = Saved::of(&stats.trial).map_or_else(why, |saved| saved.to_text());
    let lines: Vec<_> = trial::rows(&stats.trial).iter().map(trial::TrialRow::line).collect();
    json!({
        "in_loops": {
            "calls": stats.loop_calls,
            "tokens": stats.loop_tokens,
            "cost_usd": usd(stats.loop_cost_micro_usd),
        },
        "all": { "tokens": stats.usage_tokens, "cost_usd": usd(stats.usage_cost_micro_usd) },
        "saved": saved,
        "trial": lines,
    })
}

/// Both ends of an interval of what was saved; nothing where that is not known.
pub(super) fn saved(stats: &Stats, of: fn(Saved) -> Option<Estimate>) -> Samples {
    let Some(found) = Saved::of(&stats.trial).ok().and_then(of) else { return Vec::new() };
    [("low", found.low), ("high", found.high)].map(|(bound, value)| (vec![bound.to_owned()], Value::Number(value))).into()
}
