//! `semantic_repeat`: variations of one idea, by Jaccard similarity of tokens (corteX). Page `detection`.
//!
//! Example: "search weather forecast paris", "search weather forecast for paris today" …. Limits: words are not meaning; a
//! sweep over dates looks alike, hence shadow by default.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::history::History;
use crate::detect::step::Step;
use crate::identity::hash_text;
use crate::policy::{Detector, SemanticRepeat, ToolPolicy};

/// Counts similar earlier completed steps.
#[must_use]
pub fn observe(settings: &SemanticRepeat, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    if step.tokens.0.is_empty() {
        return None;
    }
    let threshold = step.scaled(tool, settings.threshold);
    let mut count = 0;
    let mut first = step.sequence;
    let earlier = history.complete_back_from(step).skip(1);
    for earlier in earlier.take(settings.window_steps as usize) {
        let may = step.tokens.may_exceed(step.token_bits, &earlier.tokens, earlier.token_bits, settings.similarity);
        if may && step.tokens.jaccard(&earlier.tokens) > settings.similarity {
            count += 1;
            first = earlier.sequence;
        }
    }
    (count >= threshold).then(|| {
        let identity = loop_identity(Family::Meaning, &[hash_text(history.tool(step)).hash64().0]);
        let mut finding = Finding::new(Detector::SemanticRepeat, settings.mode, identity, count, threshold)
            .within(u64::from(settings.window_steps))
            .spanning(first, step.sequence);
        finding.confidence = 0.2f64.mul_add(f64::from(count), 0.4).clamp(0.0, 1.0);
        finding
    })
}
