//! `test_fix`: test runs failing in a row, edits between them or not (attocode). Page `detection`.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, steps::tally::Tally};
use crate::identity::Phrases;
use crate::setting::{Flag, MODE, Mode, Needs, PhrasesInOrder, SharedSettings, count, one_of, settings};

settings! {
    #[derive(Default)]
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "3", count(1), "failing runs of a finding";
        commands: Phrases = r#"["test", "pytest", "npm test", "jest", "cargo test", "go test"]"#, PhrasesInOrder,
            "what makes a shell command a test run";
        match_words as "match": bool = r#""word""#, one_of(&MATCHING),
            r#"{words}: as a word, or anywhere, so that "latest" matches too"#;
        zero_failed_fails: bool = "false", Flag, r#"true: "0 failed" counts as a failure"#;
    }
}

const MATCHING: [(&str, bool); 2] = [("word", true), ("substring", false)];

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Test runs failing in a row.",
        rule: "`threshold` shell commands in a row run tests and fail. Edits between them do not matter; a run that \
            passes ends the row.",
        example: "Edit, test, edit, test, edit, test: the third failure is nudged.",
        silent: &[
            "The tests run in a script of another name; add it to `commands`.",
            "The output has neither a count nor `PASSED`, `FAILED` or `ERROR` \
                (`attocode/tests-without-a-signal`).",
        ],
        looks_through: true,
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::TestFix, self.mode, self.threshold)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { test: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let n = context.count();
        let text = format!(
            "[System] You've had {n} consecutive test failures. Step back and rethink: 1. read the errors again, carefully; 2. ask \
             whether the approach itself is wrong; 3. choose a DIFFERENT fix strategy instead of iterating. Do not retry the same fix."
        );
        CommandText::new(text, format!("{n} failing test runs in a row"))
    }
}

/// Takes a completed step; only test runs count.
pub fn observe(settings: &Settings, row: &mut Tally, step: &Step) -> Option<Finding> {
    if !step.flags.contains(Flags::TEST) {
        return None;
    }
    if step.flags.contains(Flags::TEST_FAILED) {
        row.extend(step.sequence);
    } else if step.flags.contains(Flags::TEST_PASSED) {
        row.count = 0;
    } else {
        return None;
    }
    let finding = settings.counts().finding(*row, step.sequence, || loop_identity(Family::Test, &[]))?;
    Some(finding.confident(0.5, 0.1))
}

/// What a test run's output shows: (passed, failed). Case-sensitive: `3 passed`, `PASSED`; `2 failed`, `FAILED`, `ERROR`.
#[must_use]
pub fn signals(settings: &Settings, output: &str) -> (bool, bool) {
    let is_failure = |digits: &str| settings.zero_failed_fails || digits.bytes().any(|digit| digit != b'0');
    let has_word = output.contains("FAILED") || output.contains("ERROR");
    let failed = has_word || numbers_before(output, "failed").any(is_failure);
    (output.contains("PASSED") || numbers_before(output, "passed").next().is_some(), failed)
}

/// The numbers that stand before a word, white space between: `3 passed`.
fn numbers_before<'a>(output: &'a str, word: &'static str) -> impl Iterator<Item = &'a str> {
    output.match_indices(word).filter_map(move |(at, _)| {
        let before = output.get(..at)?;
        let number = before.trim_end_matches(|c: char| c.is_ascii_whitespace());
        let digits = number.len() - number.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        (number.len() < before.len() && digits > 0).then(|| number.get(number.len() - digits..).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_fails_by_words_or_by_numbers() {
        let default = Settings::default();
        assert_eq!(signals(&default, "ERROR  app: refused as expected\n8 passed in 0.1s"), (true, true));
        assert_eq!(signals(&default, "test result: FAILED. 3 passed; 1 failed"), (true, true));
        assert_eq!(signals(&default, "40 passed, 0 failed, 0 errors"), (true, false));
        assert_eq!(signals(&default, "no signal"), (false, false));
        let attocode = Settings { zero_failed_fails: true, ..Settings::default() };
        assert_eq!(signals(&attocode, "8 passed, 0 failed"), (true, true));
        assert_eq!(signals(&attocode, "8 passed"), (true, false));
    }
}
