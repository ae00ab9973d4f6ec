//! What is "the same": canonical JSON, call identity, fingerprint, outcome identity, volatile-text masks, shell commands.
//!
//! Everything stored or published is SHA-256; the rules (`CallRules`, `FingerprintRules`, `OutcomeRules`) are values that
//! `policy` builds once and hands in.

mod arguments;
mod call;
mod candidates;
mod canonical;
mod fingerprint;
mod hash;
mod likeness;
mod mask;
mod number;
mod outcome;
mod phrases;
mod recipe;
mod scanner;
mod shell;
mod signature;
mod sketch;

pub use arguments::{Arguments, argument_names, canonical_text};
pub use call::{CallIdentity, CallRules, args_identity, call_identity};
pub(crate) use canonical::canonical_json;
pub use fingerprint::{FingerprintRules, fingerprint, fingerprint_text};
pub use hash::{Digest, Fnv64, Hash64, Hash128, base32, hash_bytes, hash_parts, hash_text};
pub use likeness::{Places, SKETCH_HASHES, Sketch, SketchView, paired, pairs_of, unpaired};
pub use mask::{MaskError, MaskRule, MaskSet, SHIPPED_MASKS, shipped_masks};
pub use outcome::{
    Compared, OutcomeRules, ToolOutcomeRules, error_key, outcome_identity, readable_text, readable_text_of, state_identity,
    text_identity,
};
pub use phrases::Phrases;
pub use recipe::IdentityRecipe;
pub use shell::{ShellRules, after_cd};
pub use signature::{Signature, StopWords};
pub use sketch::{
    AnswerSketch, ArgumentSketch, NamingWords, read_arguments, read_failure, read_hash, read_json, read_message, read_text,
    repeated_run, sketch_message, sketch_text,
};
