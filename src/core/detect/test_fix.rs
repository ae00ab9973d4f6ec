//! `test_fix`: test runs failing in a row, edits between them or not (attocode). Page `detection`.
//!
//! Example: edit, `npm test` → `FAILED`, edit, `npm test` → `FAILED`, edit, `npm test` → `FAILED`. Limits: only output that says
//! passed or failed in the usual words is a signal; without one nothing changes.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::history::History;
use crate::detect::step::{Flags, Step};
use crate::detect::streaks::Streaks;
use crate::policy::{Detector, TestFix};

/// Takes a completed step; only test runs count.
pub fn observe(settings: &TestFix, streaks: &mut Streaks, history: &History, step: &Step) -> Option<Finding> {
    if !step.flags.has(Flags::TEST) {
        return None;
    }
    if step.flags.has(Flags::TEST_FAILED) {
        // Tests that fail in a new way are work that moves; the first failure of a row is new by nature.
        if settings.same_failure && streaks.test_failures > 0 && !is_known(streaks, history, step) {
            streaks.test_failures = 0;
        }
        if streaks.test_failures == 0 {
            streaks.test_first = step.sequence;
        }
        streaks.test_failures = streaks.test_failures.saturating_add(1);
    } else if step.flags.has(Flags::TEST_PASSED) {
        streaks.test_failures = 0;
    } else {
        return None;
    }
    (streaks.test_failures >= settings.threshold).then(|| {
        Finding::new(
            Detector::TestFix,
            settings.mode,
            loop_identity(Family::Test, &[]),
            streaks.test_failures,
            settings.threshold,
        )
        .confident(0.5, 0.1)
        .spanning(streaks.test_first, step.sequence)
    })
}

/// Whether the failure was seen before: since the last reset or progress, or in the row at hand, which outlasts progress (each fix
/// changes the world).
fn is_known(streaks: &Streaks, history: &History, step: &Step) -> bool {
    let is_same = |earlier: &Step| {
        earlier.sequence < step.sequence && earlier.flags.has(Flags::TEST_FAILED) && earlier.outcome == step.outcome
    };
    step.flags.has(Flags::SEEN_OUTCOME)
        || (step.outcome.is_some()
            && history.ring_back().take_while(|earlier| earlier.sequence >= streaks.test_first).any(is_same))
}

/// What a test run's output says: (passed, failed). Case-sensitive: `3 passed`, `PASSED`; `2 failed`, `FAILED`, `ERROR`.
///
/// A run that worked and counts what passed counts what failed too (`3 passed, 1 error`): words before the count are what the tests have logged.
#[must_use]
pub fn signals(settings: &TestFix, output: &str, is_ok: bool) -> (bool, bool) {
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
        let default = TestFix::default();
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
        let attocode = TestFix { logged_error_fails: true, zero_failed_fails: true, ..TestFix::default() };
        assert_eq!(signals(&attocode, "ERROR  app: refused as expected\n8 passed in 0.1s", true), (true, true));
        assert_eq!(signals(&attocode, "8 passed, 0 failed", true), (true, true));
        assert_eq!(signals(&attocode, "8 passed", true), (true, false));
    }
}
