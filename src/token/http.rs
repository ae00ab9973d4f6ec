//! One bounded request to an issuer, and the TLS of all requests that this program sends. It is the system's OpenSSL, as in the Kafka
//! client.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body, http};

use crate::token::TokenError;

/// From the look-up of the name to the end of the answer.
const WAIT: Duration = Duration::from_secs(5);
/// Longest answer that is read. Bytes.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;
/// Of a foreign text in a message.
const WORDS_CHARS_MAX: usize = 200;

/// What came back, whatever its status.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// TLS that trusts the authorities in a file (PEM), or those of the system.
///
/// # Errors
/// The file cannot be read, or holds no certificate.
pub fn tls(ca_file: Option<&Path>) -> Result<TlsConfig, String> {
    let roots = match ca_file {
        None => RootCerts::PlatformVerifier,
        Some(file) => RootCerts::new_with_certs(&authorities(file)?),
    };
    Ok(TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(roots).build())
}

/// A client that trusts these authorities, or those of the system.
pub(crate) fn agent(ca_file: Option<&Path>) -> Result<Agent, TokenError> {
    let config = Agent::config_builder()
        .tls_config(tls(ca_file).map_err(TokenError::passing)?)
        .timeout_global(Some(WAIT))
        .http_status_as_error(false)
        // Where credentials go is what the settings say, not what an answer says.
        .max_redirects(0)
        .max_redirects_will_error(false);
    Ok(config.build().into())
}

fn authorities(file: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let fail = |cause: &str| format!("the authorities in {}: {cause}", file.display());
    let pem = fs::read(file).map_err(|error| fail(&error.to_string()))?;
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| fail(&error.to_string()))? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err(fail("there is no certificate")) } else { Ok(found) }
}

/// Reads an answer to a question to `whom`.
pub(crate) fn answer(sent: Result<http::Response<Body>, ureq::Error>, whom: &str) -> Result<Answer, TokenError> {
    let fail = |error: &ureq::Error| TokenError::passing(format!("{whom} cannot be asked: {}", words(&error.to_string())));
    let mut response = sent.map_err(|error| fail(&error))?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(|error| fail(&error))?;
    Ok(Answer { status, body })
}

/// A foreign text as one short line.
pub(crate) fn words(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(WORDS_CHARS_MAX).collect()
}
