//! Tokens that brokers take for a password: from an issuer, a file or AWS. They are renewed before they expire. What the client for
//! issuers is made of serves all other requests too: TLS, secrets in files, signatures.

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

pub use file::secret_text;
pub use http::{Way, client, one_line};
pub use issuer::Issuer;
pub use keeper::{E_NO_TOKEN, Tokens};
pub use msk::Msk;
pub use sigv4::hmac_sha256;
pub use source::Source;
pub use token::{Token, TokenError};
