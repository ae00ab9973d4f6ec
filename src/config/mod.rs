//! What people write: configuration and policy files, their layers, and every problem with its place.
//!
//! `Config` stops at `cli`; the rest of the program is handed plain values.

mod diagnostic;
mod file;
pub mod policy;
mod shape;
mod suggest;
mod tree;

pub use diagnostic::Diagnostic;
pub use diagnostic::Diagnostics;
pub use diagnostic::Origin;
pub use suggest::closest;
pub use tree::Effective;
