//! Where tokens come from, and what one is.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::file;
use crate::issuer::Issuer;
use crate::msk::Msk;

/// Longest token. Bytes. Brokers refuse a request of SASL above 512 KiB; tokens have some kilobytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 64 * 1024;
/// Between two looks at a file. Whoever replaced it waits for that long.
const FILE_AGAIN: Duration = Duration::from_secs(2);
/// Longest time between two tokens of an issuer: more than that no clock need be right.
const REFRESH_MAX: Duration = Duration::from_secs(86_400);

/// A token.
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

/// Where tokens come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An issuer, asked with a client's credentials.
    Issuer(Issuer),
    /// A file that something else renews.
    File(PathBuf),
    /// AWS, for Amazon MSK.
    Msk(Msk),
}

impl Source {
    /// A new token. Blocks for some seconds at most.
    pub(crate) fn fetch(&self, now_ms: i64) -> Result<Token, TokenError> {
        match self {
            Self::Issuer(issuer) => issuer.fetch(now_ms),
            Self::File(path) => file::read(path, now_ms),
            Self::Msk(msk) => msk.fetch(now_ms),
        }
    }

    /// How long to wait before the next one: clients ask for it after four fifths of a token's life, and it must be there by then.
    pub(crate) fn refresh_after(&self, token: &Token, now_ms: i64) -> Duration {
        match self {
            Self::File(_) => FILE_AGAIN,
            Self::Issuer(_) | Self::Msk(_) => {
                let left_ms = token.expires_ms.saturating_sub(now_ms).max(0).unsigned_abs();
                Duration::from_millis(left_ms / 10 * 6).min(REFRESH_MAX)
            }
        }
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
    fn the_next_token_is_there_before_clients_ask_for_it() {
        let token = Token { value: "t".into(), principal: String::new(), expires_ms: 10_000 };
        let issuer = Source::Issuer(Issuer::default());
        assert_eq!(issuer.refresh_after(&token, 0), Duration::from_secs(6));
        assert_eq!(issuer.refresh_after(&token, 20_000), Duration::ZERO);
        assert_eq!(issuer.refresh_after(&Token { expires_ms: i64::MAX, ..token }, 0), REFRESH_MAX);
    }

    #[test]
    fn what_cannot_be_a_token_is_told() {
        assert_eq!(sound("a.b-c_~+/="), Ok("a.b-c_~+/="));
        assert!(["", "a b", "a\nb", "ü"].iter().all(|bad| sound(bad).is_err()));
        assert!(sound(&"a".repeat(TOKEN_BYTES_MAX + 1)).is_err());
    }
}
