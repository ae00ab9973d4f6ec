//! One bounded request to an issuer, and what all requests have in common that this program sends: TLS, which is the system's OpenSSL, as in
//! the Kafka client, and no way but the one that the settings name.

use std::{fs, net::IpAddr, path::Path, time::Duration};

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body, Proxy, http};
use ureq::{config::ConfigBuilder, typestate::AgentScope};

use crate::TokenError;

/// From the look-up of the name to the end of the answer.
const WAIT: Duration = Duration::from_secs(5);
/// Longest answer that is read. Bytes.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;
/// Of a foreign text in a message.
const LINE_CHARS_MAX: usize = 200;

/// What came back, whatever its status.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// The setting that takes a proxy from the environment.
const OF_ENVIRONMENT: &str = "environment";

/// The way of requests to other hosts. The environment alone sends nothing another way: whoever sets a variable would read secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Way {
    /// To the host itself.
    #[default]
    Straight,
    /// By a proxy, `http://HOST:PORT`.
    Proxy(String),
    /// By the proxy that `HTTPS_PROXY` or `ALL_PROXY` names, but for hosts of `NO_PROXY`.
    Environment,
}

impl Way {
    /// As a setting says it: the URL of a proxy, or `environment`.
    pub fn of(setting: Option<&str>) -> Self {
        match setting {
            None => Self::Straight,
            Some(OF_ENVIRONMENT) => Self::Environment,
            Some(url) => Self::Proxy(url.to_owned()),
        }
    }

    /// The proxy for a URL. What is not encrypted goes by none, and neither does what stays on this host or its link.
    fn proxy(&self, url: &str) -> Result<Option<Proxy>, String> {
        match self {
            _ if !is_encrypted_and_beyond(url) => Ok(None),
            Self::Straight => Ok(None),
            Self::Proxy(proxy) => Proxy::new(proxy).map(Some).map_err(|error| format!("the proxy {proxy}: {error}")),
            Self::Environment => Ok(Proxy::try_from_env()),
        }
    }
}

fn is_encrypted_and_beyond(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return false };
    let host = uri.host().unwrap_or_default();
    let is_near = match host.trim_matches(['[', ']']).parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_link_local() || ip.is_unspecified(),
        Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified(),
        Err(_) => host.trim_end_matches('.').rsplit('.').next().is_none_or(|last| last.eq_ignore_ascii_case("localhost")),
    };
    uri.scheme_str() == Some("https") && !is_near
}

/// What every client has in common that asks for this URL: it trusts the authorities in a file (PEM), or those of the system; it goes the
/// way that the settings name; and where it asks is what they say, not what an answer says.
///
/// # Errors
/// The file cannot be read, or holds no certificate; the proxy is none.
pub fn client(url: &str, ca_file: Option<&Path>, way: &Way) -> Result<ConfigBuilder<AgentScope>, String> {
    Ok(Agent::config_builder()
        .tls_config(tls(ca_file)?)
        .proxy(way.proxy(url)?)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false))
}

fn tls(ca_file: Option<&Path>) -> Result<TlsConfig, String> {
    let roots = match ca_file {
        None => RootCerts::PlatformVerifier,
        Some(file) => RootCerts::new_with_certs(&authorities(file)?),
    };
    Ok(TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(roots).build())
}

/// A client for one question about credentials.
pub(crate) fn agent(url: &str, ca_file: Option<&Path>, way: &Way) -> Result<Agent, TokenError> {
    let config = client(url, ca_file, way).map_err(TokenError::passing)?;
    Ok(config.timeout_global(Some(WAIT)).build().into())
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
    let fail = |error: &ureq::Error| TokenError::passing(format!("{whom} cannot be asked: {}", one_line(&error.to_string())));
    let mut response = sent.map_err(|error| fail(&error))?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(|error| fail(&error))?;
    Ok(Answer { status, body })
}

/// A foreign text as one short line: at most 200 characters, none of them a control character.
pub fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(LINE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_gets_what_is_encrypted_and_leaves_the_link_and_nothing_else() {
        let by = |url: &str| Way::Proxy("http://127.0.0.1:3128".to_owned()).proxy(url).expect("a proxy").is_some();
        for url in
            ["https://hooks.example.com/x", "https://10.0.0.1:8443/", "https://[2001:db8::1]/", "https://localhost.example.com/"]
        {
            assert!(by(url), "{url}");
            assert!(Way::Straight.proxy(url).expect("none").is_none());
        }
        for url in [
            "http://hooks.example.com/x",
            "https://localhost:1/",
            "https://a.LocalHost./",
            "https://127.9.9.9/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://169.254.170.2/",
            "https://[fe80::1]/",
            "no url",
        ] {
            assert!(!by(url), "{url}");
        }
        assert!(Way::Proxy("ftp://x".to_owned()).proxy("https://a.example/").is_err());
        assert_eq!(
            [None, Some("environment"), Some("http://p:1")].map(Way::of),
            [Way::Straight, Way::Environment, Way::Proxy("http://p:1".to_owned())]
        );
    }
}
