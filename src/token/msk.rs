//! Tokens of Amazon MSK: a URL that asks for `kafka-cluster:Connect`, signed with AWS credentials, as `aws-msk-iam-sasl-signer` makes it.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use loopwarden_core::event::EventTime;

use crate::sigv4::{Credentials, Request};
use crate::{Token, TokenError, credentials::Environment, http::Way};

/// What brokers of MSK take at most. Seconds.
const LIFE_S: u32 = 900;
/// SHA-256 of nothing.
const NO_PAYLOAD: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// What it is told by, in the logs of AWS.
const USER_AGENT: &str = concat!("loopwarden%2F", env!("CARGO_PKG_VERSION"));

/// AWS as a source of tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct Msk {
    region: String,
    environment: Environment,
    way: Way,
}

impl fmt::Debug for Msk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Msk({})", self.region)
    }
}

impl Msk {
    /// With what the environment says, as pairs of name and value; without a region the environment's. AWS is reached by `way`.
    ///
    /// # Errors
    /// There is no region, or it has characters that none has.
    pub fn new(region: Option<&str>, way: Way, variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, String> {
        let environment = Environment::new(variables);
        let region = region.or_else(|| environment.region()).unwrap_or_default().to_owned();
        let is_region =
            !region.is_empty() && region.len() <= 64 && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_region {
            Ok(Self { region, environment, way })
        } else {
            Err(format!("is {region:?}, but must be a region, as eu-west-1"))
        }
    }

    pub(crate) fn fetch(&self, now_ms: i64) -> Result<Token, TokenError> {
        self.environment.credentials(&self.region, &self.way, now_ms).map(|credentials| token(&credentials, &self.region, now_ms))
    }
}

fn token(credentials: &Credentials, region: &str, now_ms: i64) -> Token {
    // To the second: what is behind it is part of no signature.
    let second_ms = now_ms - now_ms.rem_euclid(1_000);
    let time: String = EventTime(second_ms).to_rfc3339().chars().filter(|letter| !matches!(letter, '-' | ':')).collect();
    let time = format!("{}Z", time.get(..15).unwrap_or_default());
    let host = format!("kafka.{region}.amazonaws.com");
    let request = Request {
        host: &host,
        path: "/",
        query: &[("Action", "kafka-cluster:Connect")],
        payload: NO_PAYLOAD,
        region,
        service: "kafka-cluster",
        time: &time,
        life_s: LIFE_S,
    };
    // Behind the signature, which does not cover it.
    let url = format!("{}&User-Agent={USER_AGENT}", request.signed(credentials));
    let expires_ms = second_ms + i64::from(LIFE_S) * 1_000;
    Token {
        value: URL_SAFE_NO_PAD.encode(url),
        principal: credentials.key_id.clone(),
        expires_ms: credentials.expires_ms.map_or(expires_ms, |of_credentials| of_credentials.min(expires_ms)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// 2026-01-31T12:34:56Z.
    const NOW_MS: i64 = 1_769_862_896_000;

    /// Region, key, secret, session token, and the signature of aws-msk-iam-sasl-signer-python 1.0.2 (botocore 1.44.8) at `NOW_MS`.
    const VECTORS: [(&str, &str, &str, Option<&str>, &str); 3] = [
        (
            "us-east-1",
            "AKIDEXAMPLE",
            "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            None,
            "752f79780323d727e9c7202fbb99c6fd18faef12dfe53a821eebf87ad455cbe8",
        ),
        (
            "eu-west-1",
            "ASIAIOSFODNN7EXAMPLE",
            "secret/with+every=kind&of%char",
            Some("IQoJb3JpZ2luX2VjEH8//+token==/with&chars%"),
            "509b0362f5585e30ab98125de375141c77bd36e4d35b67d49ca0133243f435fb",
        ),
        ("ap-southeast-2", "ASIAX", "k", Some("t"), "1d2bf851b9172dc16f7552fca67e2bd41d739f2e85abc5710d313fbc1e3fd912"),
    ];

    /// The whole URL of the second.
    const URL: &str = "https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&X-Amz-Algorithm=AWS4-HMAC-SHA256\
        &X-Amz-Credential=ASIAIOSFODNN7EXAMPLE%2F20260131%2Feu-west-1%2Fkafka-cluster%2Faws4_request&X-Amz-Date=20260131T123456Z\
        &X-Amz-Expires=900&X-Amz-SignedHeaders=host\
        &X-Amz-Security-Token=IQoJb3JpZ2luX2VjEH8%2F%2F%2Btoken%3D%3D%2Fwith%26chars%25\
        &X-Amz-Signature=509b0362f5585e30ab98125de375141c77bd36e4d35b67d49ca0133243f435fb\
        &User-Agent=aws-msk-iam-sasl-signer-python%2F1.0.2";

    fn url(token: &Token) -> String {
        String::from_utf8(URL_SAFE_NO_PAD.decode(&token.value).expect("base64")).expect("text")
    }

    fn parameters(url: &str) -> BTreeSet<&str> {
        let (place, query) = url.split_once('?').expect("a query");
        query.split('&').filter(|pair| !pair.starts_with("User-Agent=")).chain([place]).collect()
    }

    #[test]
    fn tokens_are_those_of_the_published_signer() {
        for (region, key_id, secret, session_token, signature) in VECTORS {
            let credentials = Credentials {
                key_id: key_id.to_owned(),
                secret: secret.to_owned(),
                session_token: session_token.map(str::to_owned),
                expires_ms: None,
            };
            let token = token(&credentials, region, NOW_MS + 999);
            let url = url(&token);
            assert!(url.contains(&format!("&X-Amz-Signature={signature}&User-Agent=loopwarden%2F")), "{url}");
            assert_eq!(token.expires_ms, NOW_MS + 900_000);
            if region == "eu-west-1" {
                assert_eq!(parameters(&url), parameters(URL));
            }
        }
    }

    #[test]
    fn a_token_ends_with_the_credentials_that_it_is_signed_with() {
        let credentials = |expires_ms| Credentials { key_id: "a".into(), secret: "b".into(), session_token: None, expires_ms };
        assert_eq!(token(&credentials(Some(NOW_MS + 5)), "eu-west-1", NOW_MS).expires_ms, NOW_MS + 5);
        assert_eq!(token(&credentials(Some(i64::MAX)), "eu-west-1", NOW_MS).expires_ms, NOW_MS + 900_000);
    }

    #[test]
    fn a_region_is_needed_and_named_by_setting_or_environment() {
        let of = |set, variable: &str| {
            Msk::new(set, Way::Straight, [("AWS_REGION".to_owned(), variable.to_owned())]).map(|msk| msk.region)
        };
        assert_eq!(of(Some("eu-west-1"), "us-east-1").as_deref(), Ok("eu-west-1"));
        assert_eq!(of(None, "us-east-1").as_deref(), Ok("us-east-1"));
        assert!(of(None, "").is_err() && of(Some("evil.example/"), "").is_err());
    }
}
