//! `near_repeat`: the same target again, shell file reads folded (attocode). Page `detection`.

use std::collections::BTreeMap;

use crate::detect::detector::Detector;
use crate::detect::exact_repeat::{Run, repeat, tier};
use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::history::History;
use crate::detect::rule::{About, Rule};
use crate::detect::step::{Flags, Step};
use crate::detect::words::{Said, Words, safe};
use crate::limits::ARG_NAMES_SHOWN;
use crate::setting::{BLOCK_AT, BLOCK_SCOPE, BlockScope, FLAG, MODE, Mode, Needs, Shared, ToolPolicy, count, settings};

settings! {
    /// `detectors.near_repeat`.
    pub struct Settings {
        mode: Mode = r#""nudge""#, MODE, "weaker evidence than exact_repeat, hence no block";
        threshold: u32 = "4", count(1), "calls of a finding: exact_repeat and one more";
        block_at: u32 = "7", BLOCK_AT, "calls of a block in mode block; 0 = never";
        result_aware: bool = "true", FLAG, "a call that comes back with another answer restarts the run";
        block_scope: BlockScope = r#""fingerprint""#, BLOCK_SCOPE, "as above";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Same target, the rest varied.",
        rule: "The newest calls share a fingerprint, at least `threshold` in a row. The question is asked only \
            where `exact_repeat` has no finding. A call that occurred in the run and comes back with another \
            answer restarts it.",
        example: "The agent fetches one page with `max_chars` 2000, 4000, 8000 and 16000. The fourth call is nudged.",
        silent: &[
            "`offset`, `start_line`, `view_range` or `page` differ: paging is work \
                (`equality/pages-by-view-range`). A page number of another name needs an entry in \
                `fingerprint_modifiers`.",
            "Calls share a `limit` or `content` and name no target (`equality/a-limit-is-no-target`).",
            "A new edit of one file works: it restarts the run (`equality/edits-of-one-file-are-work`).",
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
        Needs { fingerprint: true, outcome: self.result_aware, ..Needs::default() }
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

/// Takes an observed outcome into the run; whether that restarts it. It does for a change that worked and had not been made before,
/// and with `result_aware` for a call that already occurred in the run with another answer.
pub fn answered(run: &mut Run, history: &History, step: &Step, result_aware: bool) -> bool {
    if run.hash != step.fingerprint || run.length < 2 || step.sequence < run.first {
        return false;
    }
    let has_moved = || {
        let (first, hash) = (run.first, run.hash);
        let mut in_run = history.counted_back().take_while(|earlier| earlier.sequence >= first && earlier.fingerprint == hash);
        in_run.any(|earlier| earlier.call == step.call && earlier.answers_otherwise(step))
    };
    let restarts = step.flags.has(Flags::NEW_CHANGE)
        || (result_aware && !step.flags.has(Flags::ARGS_ONLY) && step.has_answer() && has_moved());
    if restarts {
        *run = Run { length: 1, same_answer: 1, first: step.sequence, same_first: step.sequence, ..*run };
    }
    restarts
}

/// The run as the ring has it: back to the last call that restarted it.
pub fn rebuild(run: &mut Run, history: &History, result_aware: bool) {
    *run = Run::default();
    let Some(newest) = history.counted_back().next() else { return };
    run.hash = newest.fingerprint;
    // By call, cut ones apart: the step in the run that was answered next.
    let mut answers: BTreeMap<(u128, bool), &Step> = BTreeMap::new();
    let mut since = None;
    for step in history.counted_back().take_while(|step| step.fingerprint == run.hash) {
        if result_aware && step.has_answer() && !step.flags.has(Flags::ARGS_ONLY) {
            let later = answers.insert((step.call.0, step.flags.has(Flags::CUT)), step);
            if let Some(later) = later.filter(|later| later.answers_otherwise(step)) {
                since = Some(later.sequence);
                break;
            }
        }
        run.first = step.sequence;
        if step.flags.has(Flags::NEW_CHANGE) {
            break;
        }
    }
    run.first = since.unwrap_or(run.first);
    run.length = history.counted_back().take_while(|step| step.sequence >= run.first).count() as u32;
    (run.same_answer, run.same_first) = (run.length, run.first);
}

/// Whether the newest counted call nearly repeats. Only asked where `exact_repeat` has no finding.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, run: &Run, exact: &Run, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    if run.hash != step.fingerprint || run.length < threshold {
        return None;
    }
    let count = if exact.hash == step.call { run.length.max(exact.same_answer) } else { run.length };
    let mut finding = Finding::new(Detector::NearRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
        .confident(0.5, 0.1)
        .blocking_at(step.scaled(tool, settings.block_at))
        .spanning(run.first, step.sequence);
    finding.tier = tier(count, threshold.saturating_sub(1));
    Some(finding)
}
