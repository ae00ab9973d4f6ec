//! Whose requests are counted together.

use std::net::IpAddr;

/// Whose requests are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purse {
    /// Programs of this host that need no token.
    Local,
    /// Whoever shows this token, by its place in the list.
    Token(usize),
    /// Whoever comes from this address and shows nothing.
    Stranger(IpAddr),
}
