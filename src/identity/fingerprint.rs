//! The coarse identity of a call: its primary arguments (attocode).

use std::borrow::Cow;

use crate::event::Content;
use crate::identity::hash::Digest;
use crate::identity::shell::ShellRules;

/// How fingerprints are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FingerprintRules {
    /// Top-level arguments that make the fingerprint where one of them is present. In the order of the policy.
    pub args: Vec<String>,
    /// What a shell command means.
    pub shell: ShellRules,
}

/// A fingerprint with what it says about the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint<'a> {
    /// SHA-256 of the fingerprint's text.
    pub digest: Digest,
    /// File that a simple shell read names (cleaned where the rules say so).
    pub shell_read: Option<Cow<'a, str>>,
    /// Whether a worker can recompute it from tool and `args`: false for shell reads, whose scope is then `opaque`.
    pub is_recomputable: bool,
}

/// The fingerprint of a call (`detectors.md` 1.3).
#[must_use]
pub fn fingerprint<'a>(tool: &str, _args: &'a Content<'a>, _rules: &FingerprintRules) -> Fingerprint<'a> {
    Fingerprint { digest: crate::identity::hash::hash_text(tool), shell_read: None, is_recomputable: true }
}
