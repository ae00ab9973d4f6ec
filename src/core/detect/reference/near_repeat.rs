//! `near_repeat`: the same target again, shell file reads folded (attocode). Page `detection`.

use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::reference::exact_repeat::{repeat, tier};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::text::{CommandText, TextContext, safe};
use crate::detect::{detector::Detector, steps::tally::Run};
use crate::limits::ARG_NAMES_SHOWN;
use crate::setting::{BLOCK_SCOPE, BlockAt, BlockScope, MODE, Mode, Needs, SharedSettings, ToolPolicy, count, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "4", count(1), "calls of a finding: exact_repeat and one more";
        block_at: u32 = "7", BlockAt, "calls of a block in mode block; 0 = never";
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

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::NearRepeat, self.mode, self.threshold).blocking(self.block_at, self.block_scope)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { fingerprint: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let target = target(context);
        let summary =
            format!("{}: {} calls{} on the same target{}", context.tool, context.count(), context.span(), context.failing());
        CommandText::new(repeat(context, &target, &target), summary)
    }
}

/// What nearly equal calls share, for the text.
fn target(context: &TextContext<'_>) -> String {
    if context.flags.contains(Flags::SHELL_READ) {
        return "on the same target (only the way of reading changed)".to_owned();
    }
    let names: Vec<String> = context.changed.iter().take(ARG_NAMES_SHOWN).map(|name| safe(name, 32)).collect();
    if names.is_empty() {
        "on the same target".to_owned()
    } else {
        format!("on the same target (only {} changed)", names.join(", "))
    }
}

/// Whether the newest counted call nearly repeats. Only asked where `exact_repeat` has no finding.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, run: &Run, step: &Step) -> Option<Finding> {
    if run.hash != step.fingerprint {
        return None;
    }
    let counts = settings.counts().scaled(step, tool);
    let finding = counts.finding(run.steps, step.sequence, || repeat_identity(step.fingerprint))?;
    let tier = tier(run.steps.count, counts.threshold.saturating_sub(1));
    Some(Finding { tier, varies: true, ..finding.confident(0.5, 0.1) })
}
