//! Where tokens come from.

use std::{path::PathBuf, time::Duration};

use crate::{Token, TokenError, file, issuer::Issuer, msk::Msk};

/// Between two looks at a file. Whoever replaced it waits for that long.
const FILE_AGAIN: Duration = Duration::from_secs(2);
/// Longest time between two tokens of an issuer: more than that no clock need be right.
const REFRESH_MAX: Duration = Duration::from_secs(86_400);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_token_is_there_before_clients_ask_for_it() {
        let token = Token { value: "t".into(), principal: String::new(), expires_ms: 10_000 };
        let issuer = Source::Issuer(Issuer::default());
        assert_eq!(issuer.refresh_after(&token, 0), Duration::from_secs(6));
        assert_eq!(issuer.refresh_after(&token, 20_000), Duration::ZERO);
        assert_eq!(issuer.refresh_after(&Token { expires_ms: i64::MAX, ..token }, 0), REFRESH_MAX);
    }
}
