//! `test_fix`: test runs failing in a row, edits between them or not (attocode). Page `detection`.
//!
//! Example: edit, `npm test` → `FAILED`, edit, `npm test` → `FAILED`, edit, `npm test` → `FAILED`. Limits: only output that says
//! passed or failed in the usual words is a signal; without one nothing changes.

use crate::detect::finding::Family;
use crate::detect::finding::Finding;
use crate::detect::finding::loop_identity;
use crate::detect::history::History;
use crate::detect::step::Flags;
use crate::detect::step::Step;
use crate::detect::streaks::Streaks;
use crate::policy::Detector;
use crate::policy::TestFix;

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
#[must_use]
pub fn signals(output: &str, zero_failed_fails: bool) -> (bool, bool) {
    let passed = output.contains("PASSED") || numbers_before(output, "passed").next().is_some();
    let failed = output.contains("FAILED")
        || output.contains("ERROR")
        || numbers_before(output, "failed").any(|digits| zero_failed_fails || digits.bytes().any(|digit| digit != b'0'));
    (passed, failed)
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
