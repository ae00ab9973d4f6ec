//! `[[webhook]]`: where commands are posted.

use std::path::PathBuf;

use loopwarden_core::setting::{Maybe, Needed, Text, one_of, settings, within, words};

use crate::messages::diagnostic::{BAD, Diagnostic};
use crate::process::kinds::{FilePath, Ruled};
use crate::{layers::file, process::rules};

/// Longest name. It is part of a consumer group and of a file.
const NAME_MAX: usize = 64;
/// Actions of commands.
const ACTIONS: [&str; 3] = ["nudge", "block", "unblock"];
/// Answers that a message for people may have links for.
const ANSWERS: [&str; 4] = ["right", "false_alarm", "allow", "stop"];
/// Headers that are not for a token.
const OWN_HEADERS: [&str; 4] = ["content-type", "content-length", "host", "transfer-encoding"];

settings! {
    /// `[[webhook]]`.
    pub struct WebhookConfig {
        name: String = r#""orchestrator""#, Needed(Ruled(rules::plain_name::<NAME_MAX>)),
            "names it in metrics and log lines; part of a consumer group, or of the file that keeps its progress";
        url: Option<String> = r#""https://hooks.example.com/loopwarden""#, Maybe(Ruled(rules::target)),
            "where commands are posted, with http or https; no redirect is followed";
        url_file: Option<PathBuf> = r#""/run/secrets/webhook-url""#, Maybe(FilePath),
            "file with the URL instead, where the URL itself is a secret";
        format: WebhookFormat = r#""binary""#, one_of(WebhookFormat::WORDS),
            "{words}: form of a command; binary, structured: CloudEvents 1.0, with attributes as headers or all in one JSON document; otlp: a log record of OpenTelemetry, in JSON; the others: a message for people";
        actions: String = r#""nudge,block,unblock""#, Ruled(actions),
            "nudge, block, unblock, or some of them, separated by commas; with block comes what asks for a person";
        tenant: Option<String> = r#""acme""#, Maybe(Text), "commands of this tenant only; empty: of none";
        links: String = r#""right,false_alarm,allow,stop""#, Ruled(answers),
            "answers that messages for people have links for where http.public_url is set, separated by commas; empty: none, and those that are out do nothing";
        start: WebhookStart = r#""latest""#, one_of(WebhookStart::WORDS),
            "{words}: which commands a webhook begins with that has no progress yet";
        expired: ExpiredCommand = r#""send""#, one_of(ExpiredCommand::WORDS),
            "{words}: what becomes of a command past its expires_at; with send it holds up the rest for as long as it takes";
        token_file: Option<PathBuf> = r#""/run/secrets/webhook-token""#, Maybe(FilePath),
            "file with a token, of pagerduty with the routing key; read again for each request, and never sent over plain http to another host";
        token_header: Option<String> = r#""x-api-key""#, Maybe(Ruled(header)),
            "header that carries the token as it is; without: Authorization, as a bearer token";
        secret_file: Option<PathBuf> = r#""/run/secrets/webhook-secret""#, Maybe(FilePath),
            "file with a secret (whsec_ and base64): requests are signed as Standard Webhooks have it";
        ca_file: Option<PathBuf> = r#""/etc/loopwarden/receiver-ca.pem""#, Maybe(FilePath),
            "PEM, authorities of the receiver's certificate; without: those that the system knows";
        proxy: Option<String> = r#""http://proxy.example.com:3128""#, Maybe(Ruled(rules::proxy)),
            "proxy for https (http://HOST:PORT), or environment: HTTPS_PROXY and NO_PROXY count; without: none, whatever the environment says";
        connect_ms_max: u64 = "5_000", within(50, 30_000), "ms for a connection";
        request_ms_max: u64 = "30_000", within(100, 60_000), "ms for a whole request";
    }
}

words! {
    /// How a command is written.
    pub enum WebhookFormat {
        /// Attributes are headers.
        Binary = "binary",
        /// One JSON document.
        Structured = "structured",
        /// Log record of OpenTelemetry, in JSON.
        Otlp = "otlp",
        /// Message of an incoming webhook of Slack.
        Slack = "slack",
        /// Card for a workflow of Microsoft Teams.
        Teams = "teams",
        /// Embed in a channel of Discord.
        Discord = "discord",
        /// Event of PagerDuty's Events API v2.
        PagerDuty = "pagerduty",
    }
}

words! {
    /// Which commands a webhook begins with.
    pub enum WebhookStart {
        /// Those that come.
        Latest = "latest",
        /// The oldest ones that are kept.
        Earliest = "earliest",
    }
}

words! {
    /// What becomes of a command past its `expires_at`.
    pub enum ExpiredCommand {
        /// It is sent.
        Send = "send",
        /// It is dropped, and counted.
        Drop = "drop",
    }
}

fn actions(list: &str) -> Result<String, Vec<String>> {
    rules::words_of(list, &ACTIONS)
}

fn answers(list: &str) -> Result<String, Vec<String>> {
    if list.trim().is_empty() { Ok(String::new()) } else { rules::words_of(list, &ANSWERS) }
}

/// The name of a header that is for a token.
fn header(name: &str) -> Result<String, Vec<String>> {
    let lower = name.to_ascii_lowercase();
    let is_name =
        !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_name && !OWN_HEADERS.contains(&lower.as_str()) && !lower.starts_with("ce-") && !lower.starts_with("webhook-") {
        return Ok(lower);
    }
    let shown: String = name.chars().take(64).collect();
    Err(vec![format!("is {shown:?}, but must be a header of letters, digits and '-' that requests have no other use for")])
}

impl WebhookConfig {
    /// Where commands are posted.
    ///
    /// # Errors
    /// E0202 where its file cannot be read or holds no URL; without the URL, which may be a secret.
    pub fn target(&self, index: usize) -> Result<String, Diagnostic> {
        let key = format!("webhook[{index}].url_file");
        let url = match (&self.url_file, &self.url) {
            (Some(path), _) => file::read_secret(path, &key)?,
            (None, url) => url.clone().unwrap_or_default(),
        };
        if !rules::is_target(&url) {
            return Err(Diagnostic::new(BAD, format!("{key} names a file that holds no URL with http or https")));
        }
        if self.token_file.is_some() && !rules::is_safe(&url) {
            let key = format!("webhook[{index}].token_file");
            return Err(Diagnostic::new(BAD, format!("{key} is set, but the URL has http and another host: use https")));
        }
        if self.proxy.is_some() && !url.starts_with("https://") {
            let key = format!("webhook[{index}].proxy");
            return Err(Diagnostic::new(BAD, format!("{key} is set, but the URL has http: only https goes by a proxy")));
        }
        Ok(url)
    }

    /// Words of the actions that are sent.
    pub fn actions(&self) -> Vec<String> {
        self.actions.split(',').map(str::to_owned).collect()
    }

    /// Words of the answers that its messages have links for.
    pub fn links(&self) -> impl Iterator<Item = &str> {
        self.links.split(',').filter(|word| !word.is_empty())
    }
}
