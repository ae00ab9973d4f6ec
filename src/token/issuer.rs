//! Client credentials of OAuth 2.0 (RFC 6749, section 4.4): id and secret for a token.

use std::path::PathBuf;

use serde_json::Value;

use crate::{Token, TokenError, file, http, http::Way, jwt::Claims, sigv4::encoded, sound};

/// An issuer, and what it knows this client by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issuer {
    /// Its token endpoint.
    pub url: String,
    pub client_id: String,
    /// Read for each token, so that a new secret needs no restart.
    pub secret_file: PathBuf,
    /// Scopes, separated by spaces.
    pub scope: Option<String>,
    /// PEM; without, the authorities of the system.
    pub ca_file: Option<PathBuf>,
    pub way: Way,
}

impl Issuer {
    pub(crate) fn fetch(&self, now_ms: i64) -> Result<Token, TokenError> {
        let secret = file::text(&self.secret_file, "the client's secret in")?;
        let mut form = vec![("grant_type", "client_credentials")];
        form.extend(self.scope.iter().map(|scope| ("scope", scope.as_str())));
        let request = http::agent(&self.url, self.ca_file.as_deref(), &self.way)?
            .post(&self.url)
            .header("authorization", basic(&self.client_id, &secret))
            .header("accept", "application/json");
        let whom = format!("the issuer at {}", self.url);
        let answer = http::answer(request.send_form(form), &whom)?;
        read(&answer, &whom, &secret, now_ms)
    }
}

fn read(answer: &http::Answer, whom: &str, secret: &str, now_ms: i64) -> Result<Token, TokenError> {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    if answer.status != 200 {
        let said: Vec<&str> = ["error", "error_description"].into_iter().filter_map(text).collect();
        // It may repeat what it was given.
        let said = Some(said.join(": ")).filter(|said| !said.is_empty() && !said.contains(secret));
        let said = said.map(|said| format!(": {}", http::one_line(&said))).unwrap_or_default();
        let status = answer.status;
        let is_refused = (300..500).contains(&status) && !matches!(status, 408 | 425 | 429);
        let advice = if is_refused { "; check client_id, client_secret_file, scope and token_url of kafka.oauth" } else { "" };
        return Err(TokenError { message: format!("{whom} answered with status {status}{said}{advice}"), is_refused });
    }
    let fail = |cause: &str| TokenError::refused(format!("{whom} gave a token that cannot be used: it {cause}"));
    let value = text("access_token").ok_or_else(|| fail("is missing in the answer"))?;
    let value = sound(value).map_err(fail)?;
    let claims = Claims::of(value);
    let seconds = body.get("expires_in").and_then(|given| given.as_i64().or_else(|| given.as_str()?.parse().ok()));
    // By our own clock, where it says for how long.
    let expires_ms = seconds
        .map(|seconds| now_ms.saturating_add(seconds.saturating_mul(1_000)))
        .or(claims.expires_ms)
        .ok_or_else(|| fail("does not say when it ends"))?;
    if expires_ms <= now_ms {
        return Err(fail("has ended already"));
    }
    Ok(Token { value: value.to_owned(), principal: claims.subject, expires_ms })
}

/// `client_secret_basic`: both are encoded as in a form before they are joined (section 2.3.1).
fn basic(id: &str, secret: &str) -> String {
    use base64::Engine as _;
    let joined = format!("{}:{}", encoded(id), encoded(secret));
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(joined))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, body: &str) -> Result<Token, TokenError> {
        let answer = http::Answer { status, body: body.to_owned() };
        super::read(&answer, "the issuer", "s3cret", 1_000)
    }

    #[test]
    fn an_answer_becomes_a_token_or_says_whether_another_try_helps() {
        let token = read(200, r#"{"access_token":"abc","expires_in":60}"#).expect("a token");
        assert_eq!((token.value.as_str(), token.expires_ms), ("abc", 61_000));
        assert_eq!(read(200, r#"{"access_token":"abc","expires_in":"60"}"#).map(|token| token.expires_ms), Ok(61_000));
        let refused = |status, body| read(status, body).expect_err("no token").is_refused;
        assert!(refused(401, r#"{"error":"invalid_client"}"#) && refused(302, "") && refused(404, "<html>"));
        assert!(!refused(503, "") && !refused(429, ""));
        for unusable in ["", "[]", "{}", r#"{"access_token":"abc"}"#, r#"{"access_token":"a b","expires_in":1}"#] {
            assert!(refused(200, unusable), "{unusable}");
        }
        assert!(refused(200, r#"{"access_token":"abc","expires_in":-5}"#));
    }

    #[test]
    fn a_refusal_repeats_the_issuers_words_but_never_the_secret() {
        let told = |body| read(401, body).expect_err("no token").message;
        assert!(
            told(r#"{"error":"invalid_client","error_description":"who\nare you"}"#).contains(": invalid_client: who are you;")
        );
        assert!(!told(r#"{"error":"invalid_client","error_description":"not s3cret"}"#).contains("s3cret"));
    }

    #[test]
    fn id_and_secret_are_encoded_before_they_are_joined() {
        assert_eq!(basic("a:b", "c d"), format!("Basic {}", "YSUzQWI6YyUyMGQ="));
    }
}
