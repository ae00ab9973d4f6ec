//! How the fingerprint in a command is made again of a call, by whoever obeys the command.

use std::sync::Arc;

use crate::identity::call::{CallRules, args_identity, call_identity};
use crate::identity::fingerprint::{FingerprintRules, fingerprint};
use crate::identity::{arguments::Arguments, hash::Hash128};

/// How a worker recomputes the fingerprint of a scope (`command.v1.schema.json`). The lists are shared: each report and each command
/// of a policy holds the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityRecipe {
    /// Tool and canonical arguments, chosen as the policy of the tool says.
    Call(CallRules),
    /// Tool and those of these arguments that are present, all where none is.
    Coarse(Arc<[String]>),
    /// Canonical arguments alone, chosen as the policy of the tool says.
    Args(CallRules),
    /// Not to be recomputed (shell rules).
    Opaque,
}

impl IdentityRecipe {
    /// The fingerprint of a call; none where nothing can be made.
    #[must_use]
    pub fn fingerprint(&self, tool: &str, args: &Arguments<'_>) -> Option<Hash128> {
        let digest = match self {
            Self::Call(rules) => call_identity(tool, args, rules).0,
            Self::Args(rules) => args_identity(args, rules),
            Self::Coarse(kept) => {
                // Only those of the list that are present, all where none is: a worker knows no target from its company.
                let rules = FingerprintRules { targets: kept.to_vec(), args: Arc::clone(kept), ..FingerprintRules::default() };
                fingerprint(tool, args, None, &rules)?
            }
            Self::Opaque => return None,
        };
        Some(digest.hash128())
    }
}
