//! The secret that opens the listener to other hosts.

use subtle::ConstantTimeEq as _;

/// The secret that opens admin and api routes to other hosts.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token; an empty one opens nothing.
    pub const fn new(secret: String) -> Self {
        Self(secret)
    }

    /// Whether this is the token, in a time that depends on the lengths only.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        !own.is_empty() && own.ct_eq(given).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(***)")
    }
}
