//! Tokens that brokers take for a password: from an issuer, a file or AWS. They are renewed before they expire.

mod credentials;
mod file;
mod http;
mod issuer;
mod jwt;
mod keeper;
mod msk;
mod sigv4;
mod source;
mod token;

pub use issuer::Issuer;
pub use keeper::{E_NO_TOKEN, Tokens};
pub use msk::Msk;
pub use source::Source;
pub use token::{Token, TokenError};
