//! AWS credentials from where AWS's own programs find them, as far as a container needs: variables, the token of a web identity (IRSA), the
//! endpoint of a container (ECS, EKS Pod Identity). Profiles and the metadata of instances are left out.

use std::{collections::BTreeMap, path::Path};

use loopwarden_core::event::EventTime;
use serde_json::Value;

use crate::sigv4::{Credentials, encoded};
use crate::{TokenError, file, http, http::Way};

/// Where a container on ECS asks.
const CONTAINER_HOST: &str = "http://169.254.170.2";
/// Hosts that may be asked without encryption: this one, and those of ECS and EKS.
const PLAIN_HOSTS: [&str; 6] = ["127.0.0.1", "localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// The variables of AWS, as of the start.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    pub(crate) fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(variables.into_iter().filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty()).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn region(&self) -> Option<&str> {
        self.get("AWS_REGION").or_else(|| self.get("AWS_DEFAULT_REGION"))
    }

    /// Of the first source that the environment names.
    pub(crate) fn credentials(&self, region: &str, way: &Way, now_ms: i64) -> Result<Credentials, TokenError> {
        let found = if let (Some(key_id), Some(secret)) = (self.get("AWS_ACCESS_KEY_ID"), self.get("AWS_SECRET_ACCESS_KEY")) {
            let session_token = self.get("AWS_SESSION_TOKEN").map(str::to_owned);
            Credentials { key_id: key_id.to_owned(), secret: secret.to_owned(), session_token, expires_ms: None }
        } else if let (Some(file), Some(role)) = (self.get("AWS_WEB_IDENTITY_TOKEN_FILE"), self.get("AWS_ROLE_ARN")) {
            self.of_web_identity(Path::new(file), (role, region), way)?
        } else if let Some(url) = self.container_url() {
            self.of_container(&url, way)?
        } else {
            return Err(TokenError::refused(
                "the environment names no AWS credentials: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, AWS_WEB_IDENTITY_TOKEN_FILE with \
                 AWS_ROLE_ARN, or AWS_CONTAINER_CREDENTIALS_FULL_URI or AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            ));
        };
        if found.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms) {
            return Err(TokenError::passing("the AWS credentials have ended already: compare the clocks"));
        }
        Ok(found)
    }

    /// A role for the token of a web identity, by STS. The token is the proof; nothing is signed.
    fn of_web_identity(&self, token_file: &Path, (role, region): (&str, &str), way: &Way) -> Result<Credentials, TokenError> {
        let token = file::text(token_file, "the web identity in")?;
        let session = self.get("AWS_ROLE_SESSION_NAME").unwrap_or("loopwarden");
        let of_region = format!("https://sts.{region}.amazonaws.com");
        let url = self.get("AWS_ENDPOINT_URL_STS").unwrap_or(&of_region).trim_end_matches('/');
        let whom = format!("AWS STS at {url}");
        if !is_safe(url) {
            return Err(TokenError::refused(format!("{whom}: must be https")));
        }
        let form = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", role),
            ("RoleSessionName", session),
            ("WebIdentityToken", &token),
        ];
        let body = form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&");
        let url = format!("{url}/");
        let request = http::agent(&url, None, way)?.post(&url).header("content-type", "application/x-www-form-urlencoded");
        let answer = http::answer(request.send(body), &whom)?;
        if answer.status != 200 {
            let said = element(&answer.body, "Code").unwrap_or("no code");
            let is_refused = (400..500).contains(&answer.status) && answer.status != 429;
            let message =
                format!("{whom} answered with status {}: {}; check the role's trust policy", answer.status, http::one_line(said));
            return Err(TokenError { message, is_refused });
        }
        let part = |name| element(&answer.body, name).map(str::to_owned);
        credentials(&whom, part("AccessKeyId"), part("SecretAccessKey"), part("SessionToken"), part("Expiration"))
    }

    fn container_url(&self) -> Option<String> {
        let relative = self.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{CONTAINER_HOST}{path}"));
        relative.or_else(|| self.get("AWS_CONTAINER_CREDENTIALS_FULL_URI").map(str::to_owned))
    }

    fn of_container(&self, url: &str, way: &Way) -> Result<Credentials, TokenError> {
        let whom = format!("the credentials of the container at {url}");
        if !is_safe(url) {
            return Err(TokenError::refused(format!("{whom}: must be https, or on this host")));
        }
        let from_file =
            self.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(|path| file::text(Path::new(path), "the authorization in"));
        let authorization = from_file.transpose()?.or_else(|| self.get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned));
        let mut request = http::agent(url, None, way)?.get(url);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let answer = http::answer(request.call(), &whom)?;
        if answer.status != 200 {
            let is_refused = (400..500).contains(&answer.status) && answer.status != 429;
            return Err(TokenError { message: format!("{whom}: status {}", answer.status), is_refused });
        }
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let part = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        credentials(&whom, part("AccessKeyId"), part("SecretAccessKey"), part("Token"), part("Expiration"))
    }
}

fn credentials(
    whom: &str,
    key_id: Option<String>,
    secret: Option<String>,
    session_token: Option<String>,
    expiration: Option<String>,
) -> Result<Credentials, TokenError> {
    let (Some(key_id), Some(secret)) = (key_id, secret) else {
        return Err(TokenError::passing(format!("{whom}: the answer holds no credentials")));
    };
    let expires_ms = expiration.and_then(|text| EventTime::parse_rfc3339(&text)).map(|time| time.0);
    Ok(Credentials { key_id, secret, session_token, expires_ms })
}

/// The text of the first element of a name, in XML without attributes, as STS answers.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

/// Whether secrets may be sent there: encrypted, or not over any network.
fn is_safe(url: &str) -> bool {
    let host = |rest: &str| {
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let port = authority.rfind(':').filter(|at| !authority.get(*at..).unwrap_or_default().contains(']'));
        authority.get(..port.unwrap_or(authority.len())).unwrap_or_default().to_owned()
    };
    match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(_), _) => true,
        (None, Some(rest)) => PLAIN_HOSTS.contains(&host(rest).as_str()),
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::{net::TcpListener, thread};

    use super::*;

    /// Answers one request, and gives back what it was asked.
    fn server(status: &'static str, body: &'static str) -> (String, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a request");
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let at = head.len();
                reader.read_line(&mut head).expect("a line");
                let line = head[at..].to_ascii_lowercase();
                length = line.strip_prefix("content-length: ").map_or(length, |length| length.trim().parse().expect("a length"));
            }
            let mut rest = vec![0; length];
            reader.read_exact(&mut rest).expect("a body");
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
                .expect("sent");
            head + &String::from_utf8(rest).expect("text")
        });
        (url, asked)
    }

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::new(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn variables_come_first_and_what_is_missing_is_named() {
        let found = environment(&[("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_SESSION_TOKEN", "")]);
        let found = found.credentials("eu-west-1", &Way::Straight, 0).expect("credentials");
        assert_eq!((found.key_id.as_str(), found.secret.as_str(), found.session_token), ("a", "b", None));
        let error =
            environment(&[("AWS_ACCESS_KEY_ID", "a")]).credentials("eu-west-1", &Way::Straight, 0).expect_err("half of it");
        assert!(error.is_refused && error.message.contains("AWS_WEB_IDENTITY_TOKEN_FILE"), "{error}");
    }

    #[test]
    fn a_web_identity_becomes_a_role_and_a_refusal_is_told_by_its_code() {
        let file = std::env::temp_dir().join(format!("loopwarden-identity-{}", std::process::id()));
        std::fs::write(&file, "a.b+c\n").expect("written");
        let ask = |status, body| {
            let (url, asked) = server(status, body);
            let variables = [
                ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().expect("a path")),
                ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
                ("AWS_ENDPOINT_URL_STS", &url),
            ];
            let found = environment(&variables).credentials("eu-west-1", &Way::Straight, 0);
            (found, asked.join().expect("asked"))
        };
        let (found, asked) = ask(
            "200 OK",
            "<AssumeRoleWithWebIdentityResponse><Credentials><SessionToken>t/+=</SessionToken><SecretAccessKey>s</SecretAccessKey>\
             <Expiration>2026-01-31T12:34:56Z</Expiration><AccessKeyId>ASIA</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResponse>",
        );
        let expected = Credentials {
            key_id: "ASIA".into(),
            secret: "s".into(),
            session_token: Some("t/+=".into()),
            expires_ms: Some(1_769_862_896_000),
        };
        assert_eq!(found, Ok(expected));
        let body = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr\
                    &RoleSessionName=loopwarden&WebIdentityToken=a.b%2Bc";
        assert!(asked.starts_with("POST / HTTP/1.1") && asked.ends_with(body), "{asked}");
        let (refused, _) = ask("403 Forbidden", "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>");
        let error = refused.expect_err("refused");
        assert!(error.is_refused && error.message.contains("403: AccessDenied"), "{error}");
        let (away, _) = ask("503 Slow Down", "");
        assert!(!away.expect_err("away").is_refused);
        std::fs::remove_file(&file).expect("removed");
    }

    #[test]
    fn a_container_is_asked_with_its_authorization_and_only_where_that_is_safe() {
        let (url, asked) =
            server("200 OK", r#"{"AccessKeyId":"ASIA","SecretAccessKey":"s","Token":"t","Expiration":"2026-01-31T12:34:56Z"}"#);
        let full = format!("{url}/v1/credentials");
        let variables = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", full.as_str()), ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "me")];
        let found = environment(&variables).credentials("eu-west-1", &Way::Straight, 0).expect("credentials");
        assert_eq!((found.key_id.as_str(), found.session_token.as_deref()), ("ASIA", Some("t")));
        let asked = asked.join().expect("asked").to_ascii_lowercase();
        assert!(asked.starts_with("get /v1/credentials") && asked.contains("authorization: me"), "{asked}");
        for unsafe_url in
            ["http://evil.example/", "http://127.0.0.1.evil.example/", "http://127.0.0.1@evil.example/", "ftp://127.0.0.1/"]
        {
            let error =
                environment(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", unsafe_url)]).credentials("eu-west-1", &Way::Straight, 0);
            assert!(error.is_err_and(|error| error.message.ends_with("must be https, or on this host")), "{unsafe_url}");
        }
        assert!(is_safe("http://[fd00:ec2::23]/v1") && is_safe("http://169.254.170.2:80/x") && is_safe("https://a.example"));
    }
}
