//! `stuck`: new calls that bring known outcomes (IronCurtain). Its streak is counted by the progress matrix. Page `detection`.

use crate::detect::reference::stagnation::streak;
use crate::detect::rule::{About, Rule};
use crate::detect::words::{Said, Words};
use crate::setting::{BLOCK_AT, BLOCK_SCOPE, BlockScope, MODE, Mode, Needs, Shared, TOOLS, count, settings};

settings! {
    /// `detectors.stuck`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "5", count(1), "steps in a row of a finding";
        block_at: u32 = "8", BLOCK_AT, "steps in a row of a block in mode block; 0 = never";
        tools: Vec<String> = "[]", TOOLS, "tools that take part; empty = all";
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
        Needs { outcome: true, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let text = streak(
            words,
            "You keep trying different approaches but get the same result.",
            "Different approaches are producing the same result. Re-examine your assumptions.",
        );
        Said::new(text, format!("{}: {} new calls in a row with a known answer", words.tool, words.count()))
    }
}
