//! Signatures of Standard Webhooks: an HMAC-SHA256 over id, time and body, with a secret that both sides have.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use loopwarden_token::hmac_sha256;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// Bytes of a secret, as the standard has it.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that requests are signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Reads `whsec_` and base64.
    ///
    /// # Errors
    /// What is wrong, without the secret, as `must begin with …`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or_else(|| format!("must begin with {PREFIX}"))?;
        let bytes = STANDARD.decode(encoded).map_err(|_| format!("must be base64 behind {PREFIX}"))?;
        if SECRET_BYTES.contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(format!("must have {} to {} bytes behind {PREFIX}", SECRET_BYTES.start(), SECRET_BYTES.end()))
        }
    }

    /// The value of `webhook-signature`.
    pub(crate) fn signature(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let signed = [format!("{id}.{timestamp_s}.").as_bytes(), body].concat();
        format!("v1,{}", STANDARD.encode(hmac_sha256(&self.0, &signed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the tests of the libraries of Standard Webhooks.
    #[test]
    fn a_signature_is_that_of_the_standard() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").expect("a secret");
        assert_eq!(
            secret.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn what_is_no_secret_is_told_without_it() {
        assert_eq!(Secret::parse("hunter2"), Err("must begin with whsec_".to_owned()));
        assert_eq!(Secret::parse("whsec_hunter2!"), Err("must be base64 behind whsec_".to_owned()));
        assert_eq!(Secret::parse("whsec_aHVudGVyMg=="), Err("must have 24 to 64 bytes behind whsec_".to_owned()));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        assert!(Secret::parse(&long).is_err());
        let secret = Secret::parse(&format!("whsec_{}", STANDARD.encode([7; 64]))).expect("a secret");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
