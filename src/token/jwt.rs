//! What a signed token says of itself. Nothing is verified: that is for the brokers.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

/// Longest name that is taken over. Characters.
const NAME_CHARS_MAX: usize = 256;

/// What a token says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// `exp`. Unix ms.
    pub(crate) expires_ms: Option<i64>,
    /// `sub`.
    pub(crate) subject: String,
}

impl Claims {
    /// Of a token in three parts, as JWTs are; nothing of any other.
    pub(crate) fn of(token: &str) -> Self {
        let payload = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let claims: Value = payload.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        // Some issuers write it with a fraction.
        let seconds = claims.get("exp").and_then(|exp| exp.as_i64().or_else(|| Some(exp.as_f64()? as i64)));
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        Self {
            expires_ms: seconds.map(|seconds| seconds.saturating_mul(1_000)),
            subject: subject.chars().filter(|letter| !letter.is_control()).take(NAME_CHARS_MAX).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_token_says_when_it_ends_and_whom_it_names() {
        assert_eq!(Claims::of(&token(r#"{"exp":7,"sub":"me"}"#)), Claims { expires_ms: Some(7_000), subject: "me".into() });
        assert_eq!(Claims::of(&token(r#"{"exp":7.9}"#)).expires_ms, Some(7_000));
        assert_eq!(
            Claims::of(&token(r#"{"exp":9e99,"sub":"a\u0000b"}"#)),
            Claims { expires_ms: Some(i64::MAX), subject: "ab".into() }
        );
        for opaque in ["", "opaque", "a.b.c", "..", &token("[]"), &token(r#"{"exp":"soon"}"#)] {
            assert_eq!(Claims::of(opaque), Claims::default(), "{opaque}");
        }
    }
}
