//! `stuck`: new calls that bring known outcomes (IronCurtain). Its streak is counted by the progress matrix. Page `detection`.

use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, reference::stagnation::streak};
use crate::setting::{BLOCK_SCOPE, BlockAt, BlockScope, MODE, Mode, Needs, SharedSettings, Tools, count, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "5", count(1), "steps in a row of a finding";
        block_at: u32 = "8", BlockAt, "steps in a row of a block in mode block; 0 = never";
        tools: Vec<String> = "[]", Tools, "tools that take part; empty = all";
        block_scope: BlockScope = r#""session""#, BLOCK_SCOPE,
            "approaches differ, so only a block of all its calls would hold";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "New approach, seen outcome.",
        rule: "`threshold` new calls in a row have an outcome that was seen before.",
        example: "Six wordings of a search are all answered `No results were found.`",
        silent: &[
            "The tool has `identity = \"args_only\"`, as notes to oneself (`TodoWrite`, `think`).",
            "The empty answers differ slightly.",
        ],
        on_result: true,
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::Stuck, self.mode, self.threshold).blocking(self.block_at, self.block_scope)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { outcome: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let text = streak(
            context,
            "You keep trying different approaches but get the same result.",
            "Different approaches are producing the same result. Re-examine your assumptions.",
        );
        CommandText::new(text, format!("{}: {} new calls in a row with a known answer", context.tool, context.count()))
    }
}
