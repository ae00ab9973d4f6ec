//! What is "the same": canonical JSON, call identity, fingerprint, outcome identity, volatile-text masks, shell commands.
//!
//! Everything stored or published is SHA-256; the rules (`CallRules`, `FingerprintRules`, `OutcomeRules`) are values that
//! `policy` builds once and hands in.

mod arguments;
mod base32;
mod call;
mod candidates;
mod canonical;
mod fingerprint;
mod fnv;
mod hash;
mod mask;
mod number;
mod outcome;
mod residue;
mod scanner;
mod shell;
mod signature;

pub use arguments::Arguments;
pub use arguments::argument_names;
pub use base32::base32;
pub use call::CallIdentity;
pub use call::CallRules;
pub use call::args_identity;
pub use call::call_identity;
pub use canonical::canonical_text;
pub use fingerprint::FingerprintRules;
pub use fingerprint::fingerprint;
pub use fingerprint::fingerprint_text;
pub(crate) use fnv::Fnv64;
pub use hash::Digest;
pub use hash::Hash64;
pub use hash::Hash128;
pub use hash::hash_bytes;
pub(crate) use hash::hash_parts;
pub use hash::hash_text;
pub use mask::MaskError;
pub use mask::MaskRule;
pub use mask::MaskSet;
pub use mask::SHIPPED_MASKS;
pub use outcome::Compared;
pub use outcome::OutcomeRules;
pub use outcome::ToolOutcomeRules;
pub use outcome::error_key;
pub use outcome::outcome_identity;
pub use outcome::readable_text;
pub use outcome::readable_text_of;
pub use outcome::state_identity;
pub use outcome::text_identity;
pub use residue::Residue;
pub use shell::ShellRules;
pub use shell::after_cd;
pub use shell::contains_any_word;
pub use signature::Signature;
pub use signature::StopWords;
