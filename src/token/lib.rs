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

pub use file::secret_text;
pub use http::{Way, client, one_line};
pub use issuer::Issuer;
pub use keeper::{E_NO_TOKEN, Tokens};
pub use msk::Msk;
pub use sigv4::hmac_sha256;
pub use source::Source;

use std::fmt;

/// Longest token. Bytes. Brokers refuse a request of SASL above 512 KiB; tokens have some kilobytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// What brokers get.
    pub value: String,
    /// Whom it names, as far as it says so; for log lines of the client only.
    pub principal: String,
    /// When it ends. Wall clock, Unix ms.
    pub expires_ms: i64,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(…, expires_ms: {})", self.expires_ms)
    }
}

/// Why there is no token. The message holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TokenError {
    /// What happened where, and what to look at.
    pub message: String,
    /// Somebody answered, and the answer is no: another try gives the same until a person changes something.
    pub is_refused: bool,
}

impl TokenError {
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_refused: true }
    }

    pub(crate) fn passing(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_refused: false }
    }
}

/// The token if it can be sent as one.
pub(crate) fn sound(value: &str) -> Result<&str, &'static str> {
    match value {
        "" => Err("is empty"),
        value if value.len() > TOKEN_BYTES_MAX => Err("is longer than 64 KiB"),
        value if !value.bytes().all(|byte| byte.is_ascii_graphic()) => Err("holds characters that no token has"),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_does_not_show_in_debug_output() {
        let token = Token { value: "s3cret".into(), principal: String::new(), expires_ms: 7 };
        assert_eq!(format!("{token:?}"), "Token(…, expires_ms: 7)");
    }

    #[test]
    fn what_cannot_be_a_token_is_told() {
        assert_eq!(sound("a.b-c_~+/="), Ok("a.b-c_~+/="));
        assert!(["", "a b", "a\nb", "ü"].iter().all(|bad| sound(bad).is_err()));
        assert!(sound(&"a".repeat(TOKEN_BYTES_MAX + 1)).is_err());
    }
}
