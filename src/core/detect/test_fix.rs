//! `test_fix`: test runs failing in a row, edits between them or not (attocode). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::history::History;
use crate::detect::row::Row;
use crate::detect::rule::{About, Rule};
use crate::detect::step::{Flags, Step};
use crate::detect::words::{Said, Words};
use crate::setting::{FLAG, MODE, Mode, NAMES_IN_ORDER, Needs, Shared, count, settings, words};

settings! {
    /// `detectors.test_fix`.
    pub struct Settings {
        mode: Mode = r#""nudge""#, MODE, "";
        threshold: u32 = "3", count(1), "failing runs of a finding";
        commands: Vec<String> = r#"["test", "pytest", "npm test", "jest", "cargo test", "go test"]"#, NAMES_IN_ORDER,
            "what makes a shell command a test run";
        match_words as "match": bool = r#""word""#, words(&MATCHING),
            r#"word | substring: as a word, or anywhere, so that "latest" matches too"#;
        same_failure: bool = "true", FLAG,
            "only a failure seen before counts: tests that fail in a new way are work that moves";
        zero_failed_fails: bool = "false", FLAG, r#"true: "0 failed" counts as a failure"#;
        logged_error_fails: bool = "false", FLAG,
            r#"true: so do ERROR and FAILED in a run that worked and says "8 passed"; else only numbers do there: tests log errors"#;
    }
}

const MATCHING: [(&str, bool); 2] = [("word", true), ("substring", false)];

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Test runs failing in a row.",
        rule: "`threshold` shell commands in a row run tests and fail. Edits between them do not matter; a run that \
            passes ends the row. A run that fails in a way not seen before begins a new row (`same_failure`). A \
            run that worked and counts what passed (`8 passed`) fails only by numbers, or by words behind that \
            count.",
        example: "Edit, test, edit, test, edit, test: the third failure of the same kind is nudged.",
        silent: &[
            "Each run fails in a new way: that is work that moves (`equality/tests-other-failure`).",
            "Tests log `ERROR` before their count and pass (`equality/tests-that-pass-and-log-errors`).",
            "The tests run in a script of another name; add it to `commands`.",
            "The output has neither a count nor `PASSED`, `FAILED` or `ERROR` \
                (`attocode/tests-without-a-signal`).",
        ],
        looks_through: true,
        ..About::AGENT
    };

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs { test: true, outcome: self.same_failure, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let n = words.count();
        let text = format!(
            "[System] You've had {n} consecutive test failures. Step back and rethink: 1. read the errors again, carefully; 2. ask \
             whether the approach itself is wrong; 3. choose a DIFFERENT fix strategy instead of iterating. Do not retry the same fix."
        );
        Said::new(text, format!("{n} failing test runs in a row"))
    }
}

/// Takes a completed step; only test runs count.
pub fn observe(settings: &Settings, row: &mut Row, history: &History, step: &Step) -> Option<Finding> {
    if !step.flags.has(Flags::TEST) {
        return None;
    }
    if step.flags.has(Flags::TEST_FAILED) {
        // Tests that fail in a new way are work that moves; the first failure of a row is new by nature.
        if settings.same_failure && row.count > 0 && !is_known(row, history, step) {
            row.count = 0;
        }
        row.extend(step.sequence);
    } else if step.flags.has(Flags::TEST_PASSED) {
        row.count = 0;
    } else {
        return None;
    }
    (row.count >= settings.threshold).then(|| {
        Finding::new(Detector::TestFix, settings.mode, loop_identity(Family::Test, &[]), row.count, settings.threshold)
            .confident(0.5, 0.1)
            .spanning(row.first, step.sequence)
    })
}

/// Whether the failure was seen before: since the last reset or progress, or in the row at hand, which outlasts progress (each fix
/// changes the world).
fn is_known(row: &Row, history: &History, step: &Step) -> bool {
    let is_same = |earlier: &Step| {
        earlier.sequence < step.sequence && earlier.flags.has(Flags::TEST_FAILED) && earlier.outcome == step.outcome
    };
    step.flags.has(Flags::SEEN_OUTCOME)
        || (step.outcome.is_some() && history.ring_back().take_while(|earlier| earlier.sequence >= row.first).any(is_same))
}

/// What a test run's output says: (passed, failed). Case-sensitive: `3 passed`, `PASSED`; `2 failed`, `FAILED`, `ERROR`.
///
/// A run that worked and counts what passed counts what failed too (`3 passed, 1 error`): words before the count are what the tests have logged.
#[must_use]
pub fn signals(settings: &Settings, output: &str, is_ok: bool) -> (bool, bool) {
    let is_above_zero = |digits: &str| digits.bytes().any(|digit| digit != b'0');
    let counts_passed = |text: &str| numbers_before(text, "passed").next().is_some();
    let has_count = counts_passed(output);
    let says_so = |text: &str| text.contains("FAILED") || text.contains("ERROR");
    let fails_by_words = if is_ok && has_count && !settings.logged_error_fails {
        // What a test has logged stands before the count, and a gate that was not passed behind it.
        let behind = output.lines().rev().take_while(|line| !counts_passed(line)).any(says_so);
        behind || output.lines().any(|line| counts_passed(line) && numbers_before(line, "error").any(is_above_zero))
    } else {
        says_so(output)
    };
    let is_failure = |digits: &str| settings.zero_failed_fails || is_above_zero(digits);
    let failed = fails_by_words || numbers_before(output, "failed").any(is_failure);
    (has_count || output.contains("PASSED"), failed)
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
    fn words_in_a_run_that_worked_and_counts_what_passed_are_what_was_logged() {
        let default = Settings::default();
        let said = |output: &str, is_ok: bool| signals(&default, output, is_ok);
        assert_eq!(said("ERROR  app: refused as expected\n8 passed in 0.1s", true), (true, false));
        assert_eq!(said("[ERROR core] GET /x: 404 error\ntest result: ok. 8 passed; 0 failed", true), (true, false));
        assert_eq!(said("ERROR  app: refused as expected\n8 passed in 0.1s", false), (true, true));
        // A pipe hides the exit code, but no count.
        assert_eq!(said("test result: FAILED. 3 passed; 1 failed", true), (true, true));
        assert_eq!(said("3 passed, 2 errors in 0.5s", true), (true, true));
        assert_eq!(said("[  PASSED  ] 3 tests.\n[  FAILED  ] 1 test, listed below:", true), (true, true));
        assert_eq!(said("FAILED (failures=1)", true), (false, true));
        assert_eq!(said("40 passed, 0 failed, 0 errors", true), (true, false));
        assert_eq!(
            said("40 passed in 3.2s\nERROR: Coverage failure: total of 78 is less than fail-under=90", true),
            (true, true)
        );
    }

    #[test]
    fn words_count_where_the_policy_says_so() {
        let attocode = Settings { logged_error_fails: true, zero_failed_fails: true, ..Settings::default() };
        assert_eq!(signals(&attocode, "ERROR  app: refused as expected\n8 passed in 0.1s", true), (true, true));
        assert_eq!(signals(&attocode, "8 passed, 0 failed", true), (true, true));
        assert_eq!(signals(&attocode, "8 passed", true), (true, false));
    }
}
