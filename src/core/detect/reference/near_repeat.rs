//! `near_repeat`: the same target again, shell file reads folded (attocode). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::reference::exact_repeat::{Run, repeat, tier};
use crate::detect::rule::{About, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::words::{Said, Words, safe};
use crate::limits::ARG_NAMES_SHOWN;
use crate::setting::{BLOCK_AT, BLOCK_SCOPE, BlockScope, MODE, Mode, Needs, Shared, ToolPolicy, count, settings};

settings! {
    /// `detectors.near_repeat`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "4", count(1), "calls of a finding: exact_repeat and one more";
        block_at: u32 = "7", BLOCK_AT, "calls of a block in mode block; 0 = never";
        block_scope: BlockScope = r#""fingerprint""#, BLOCK_SCOPE, "as above";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Same target, the rest varied.",
        rule: "The newest calls share a fingerprint, at least `threshold` in a row. The question is asked only \
            where `exact_repeat` has no finding.",
        example: "The agent fetches one page with `max_chars` 2000, 4000, 8000 and 16000. The fourth call is nudged.",
        silent: &[
            "`offset`, `start_line`, `view_range` or `page` differ: paging is work \
                (`rules/pages-by-view-range`). A page number of another name needs an entry in \
                `fingerprint_modifiers`.",
            "Calls share a `limit` or `content` and name no target (`rules/a-limit-is-no-target`).",
        ],
        ..About::CALL
    };

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn block_at(&self) -> Option<u32> {
        Some(self.block_at)
    }

    fn block_scope(&self) -> BlockScope {
        self.block_scope
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs { fingerprint: true, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let target = target(words);
        let summary = format!("{}: {} calls{} on the same target{}", words.tool, words.count(), words.span(), words.failing());
        Said::new(repeat(words, &target, &target), summary)
    }
}

/// What nearly equal calls share, for the text.
fn target(words: &Words<'_>) -> String {
    if words.flags.has(Flags::SHELL) && words.flags.has(Flags::READ) {
        return "on the same target (only the way of reading changed)".to_owned();
    }
    let names: Vec<String> = words.changed.iter().take(ARG_NAMES_SHOWN).map(|name| safe(name, 32)).collect();
    if names.is_empty() {
        "on the same target".to_owned()
    } else {
        format!("on the same target (only {} changed)", names.join(", "))
    }
}

/// Whether the newest counted call nearly repeats. Only asked where `exact_repeat` has no finding.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, run: &Run, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    if run.hash != step.fingerprint || run.length < threshold {
        return None;
    }
    let count = run.length;
    let mut finding = Finding::new(Detector::NearRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
        .confident(0.5, 0.1)
        .blocking_at(step.scaled(tool, settings.block_at))
        .spanning(run.first, step.sequence);
    finding.tier = tier(count, threshold.saturating_sub(1));
    Some(finding)
}
