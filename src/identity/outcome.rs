//! What counts as the same answer, the same error, the same state.

use std::borrow::Cow;

use crate::event::Content;
use crate::identity::hash::Digest;
use crate::identity::hash::hash_text;
use crate::identity::mask::MaskSet;

/// How outcomes are compared (`detectors.md` 1.4).
#[derive(Debug, Clone, Default)]
pub struct OutcomeRules {
    /// Applied before any cut.
    pub mask: MaskSet,
    /// Characters kept after masking; 0 = whole.
    pub chars: usize,
    /// Fields dropped from object results at any depth. Sorted.
    pub volatile_fields: Vec<String>,
}

/// What one tool changes about that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutcomeRules {
    /// `result_mask = "none"`.
    pub is_unmasked: bool,
    /// Further fields dropped. Sorted.
    pub result_ignored: Vec<String>,
}

/// Identity of an outcome: SHA-256 of `ok` or `fail` and the masked answer, a failure with its masked error text.
#[must_use]
pub fn outcome_identity(
    _is_ok: bool,
    _result: &Content<'_>,
    _error: Option<&str>,
    _rules: &OutcomeRules,
    _tool: &ToolOutcomeRules,
) -> Digest {
    hash_text("")
}

/// The readable part of a result: the string; of an object its texts `output`, `stdout`, `stderr`, `content`, `text`, joined
/// by line ends; else canonical JSON. Empty where absent or hashed. At most `READABLE_BYTES_MAX`.
#[must_use]
pub fn readable_text<'a>(_result: &'a Content<'a>) -> Cow<'a, str> {
    Cow::Borrowed("")
}

/// Hash of norm(description) `|` norm(output): lower case, trimmed, white-space runs to one space.
#[must_use]
pub fn state_identity(_description: &str, _output: &str) -> Digest {
    hash_text("")
}

/// Error key: trimmed, lower case, masked before the cut, first `chars` characters. Empty texts have none.
#[must_use]
pub fn error_key(_error: &str, _chars: usize, _mask: &MaskSet) -> Option<String> {
    None
}
