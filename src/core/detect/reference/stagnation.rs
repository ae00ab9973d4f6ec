//! `stagnation`: known calls with known outcomes, over and over (IronCurtain). Its streak is counted by the progress matrix. Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{CommandText, TextContext};
use crate::setting::{BLOCK_SCOPE, BlockAt, BlockScope, MODE, Mode, Needs, SharedSettings, Tools, count, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "3", count(1), "steps in a row of a finding";
        block_at: u32 = "9", BlockAt, "steps in a row of a block, the tenth equal one; 0 = never";
        tools: Vec<String> = "[]", Tools, "tools that take part; empty = all";
        block_scope: BlockScope = r#""fingerprint""#, BLOCK_SCOPE, "as above";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Seen approach, seen outcome.",
        rule: "A step is *seen* by its call, and by its outcome. `threshold` steps in a row were seen in both. A \
            new outcome ends the streak. The rule also sees A, B, A, B, and may block both.",
        example: "The agent makes the same call and gets the same answer. The fourth such call is the first finding, \
            the tenth is refused.",
        silent: &["The answers always differ a little."],
        on_result: true,
        ..About::CALL
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::Stagnation, self.mode, self.threshold).blocking(self.block_at, self.block_scope)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { fingerprint: true, outcome: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let text = streak(
            context,
            "You have been repeating the same step with the same result.",
            "You are repeating the same step with the same result. Try a fundamentally different approach.",
        );
        CommandText::new(
            text,
            format!("{}: {} steps in a row with a known call and a known answer", context.tool, context.count()),
        )
    }
}

/// The texts of a streak of the progress matrix: `what` is wrong, and a `warning` of it.
pub(crate) fn streak(context: &TextContext<'_>, what: &str, warning: &str) -> String {
    let streak = context.count();
    if context.is_block && context.blocks_all {
        format!("LOOP DETECTED: {what} Execution is now blocked. Summarize what you have accomplished and stop.")
    } else if context.is_block {
        format!(
            "LOOP DETECTED: {what} Further calls of this kind are refused until the block expires. Take a different approach, or explain \
             what prevents progress."
        )
    } else if context.finding.can_block() {
        format!("WARNING: {warning} ({streak}/{} before block)", context.finding.block_at)
    } else {
        format!("WARNING: {warning} ({streak} in a row)")
    }
}
