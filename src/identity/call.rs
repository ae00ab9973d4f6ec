//! Identity of a whole call: tool and canonical arguments.

use crate::event::Content;
use crate::identity::hash::Digest;
use crate::identity::hash::hash_text;

/// Which top-level arguments make the identity of a tool's calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallRules {
    /// Only these; empty = all. Sorted.
    pub args: Vec<String>,
    /// Never these. Sorted.
    pub args_ignored: Vec<String>,
}

/// SHA-256 of `tool + "\n" + canonical arguments`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallIdentity(pub Digest);

/// Identity of a call under its tool's rules.
#[must_use]
pub fn call_identity(tool: &str, _args: &Content<'_>, _rules: &CallRules) -> CallIdentity {
    CallIdentity(hash_text(tool))
}

/// SHA-256 of the canonical arguments alone: a definition, whatever tool starts it.
#[must_use]
pub fn args_identity(_args: &Content<'_>, _rules: &CallRules) -> Digest {
    hash_text("")
}
