//! Signature Version 4 of AWS, in the query of a URL ("presigned").

use std::{fmt, fmt::Write as _};

use sha2::{Digest as _, Sha256};

/// Bytes that SHA-256 takes at once: HMAC pads its key to them.
const BLOCK_BYTES: usize = 64;

/// What AWS knows somebody by, for a while.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) key_id: String,
    pub(crate) secret: String,
    /// Of credentials that end.
    pub(crate) session_token: Option<String>,
    /// When they end. Unix ms.
    pub(crate) expires_ms: Option<i64>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, …)", self.key_id)
    }
}

/// A GET request to be signed.
pub(crate) struct Request<'a> {
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    /// Parameters that are its own, as name and value.
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// Hash of the body, or the word that stands for none.
    pub(crate) payload: &'a str,
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
    /// As `20260131T123456Z`.
    pub(crate) time: &'a str,
    pub(crate) life_s: u32,
}

impl Request<'_> {
    /// The signed URL.
    pub(crate) fn signed(&self, credentials: &Credentials) -> String {
        let day = self.time.split('T').next().unwrap_or_default();
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let (credential, life) = (format!("{}/{scope}", credentials.key_id), self.life_s.to_string());
        let mut query = self.query.to_vec();
        query.extend([
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", self.time),
            ("X-Amz-Expires", &life),
            ("X-Amz-SignedHeaders", "host"),
        ]);
        query.extend(credentials.session_token.as_deref().map(|token| ("X-Amz-Security-Token", token)));
        let mut pairs: Vec<String> = query.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        pairs.sort_unstable();
        let (query, Self { host, path, payload, time, .. }) = (pairs.join("&"), self);
        let canonical = format!("GET\n{path}\n{query}\nhost:{host}\n\nhost\n{payload}");
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let key = signing_key(&credentials.secret, day, self.region, self.service);
        format!("https://{host}{path}?{query}&X-Amz-Signature={}", hex(&hmac_sha256(&key, to_sign.as_bytes())))
    }
}

fn signing_key(secret: &str, day: &str, region: &str, service: &str) -> [u8; 32] {
    let first = hmac_sha256(format!("AWS4{secret}").as_bytes(), day.as_bytes());
    [region, service, "aws4_request"].iter().fold(first, |key, part| hmac_sha256(&key, part.as_bytes()))
}

/// HMAC-SHA256 (RFC 2104).
pub fn hmac_sha256(key: &[u8], text: &[u8]) -> [u8; 32] {
    let short: Vec<u8> = if key.len() > BLOCK_BYTES { Sha256::digest(key).to_vec() } else { key.to_vec() };
    let padded = |with: u8| (0..BLOCK_BYTES).map(|at| short.get(at).copied().unwrap_or(0) ^ with).collect::<Vec<u8>>();
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A String takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Percent-encoded but for RFC 3986's unreserved characters.
pub(crate) fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

    #[test]
    fn the_hash_with_a_key_is_that_of_rfc_4231() {
        let long = [0xaa; 131];
        assert_eq!(
            hex(&hmac_sha256(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(&hmac_sha256(&long, text)), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    /// From AWS's "Examples of how to derive a signing key for Signature Version 4".
    #[test]
    fn the_signing_key_is_that_of_the_manual() {
        let key = signing_key(SECRET, "20120215", "us-east-1", "iam");
        assert_eq!(hex(&key), "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d");
    }

    /// From AWS's "Authenticating Requests: Using Query Parameters".
    #[test]
    fn the_signature_is_that_of_the_manual() {
        // Another one than above, by one character.
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let request = Request {
            host: "examplebucket.s3.amazonaws.com",
            path: "/test.txt",
            query: &[],
            payload: "UNSIGNED-PAYLOAD",
            region: "us-east-1",
            service: "s3",
            time: "20130524T000000Z",
            life_s: 86_400,
        };
        let who =
            Credentials { key_id: "AKIAIOSFODNN7EXAMPLE".into(), secret: secret.into(), session_token: None, expires_ms: None };
        let signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert!(request.signed(&who).ends_with(&format!("&X-Amz-Signature={signature}")), "{}", request.signed(&who));
        assert!(!format!("{who:?}").contains(secret));
    }
}
