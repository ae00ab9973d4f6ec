//! One bounded request to a receiver.

use std::io::Read as _;

use loopwarden_core::event::EventTime;
use loopwarden_log::clock;
use loopwarden_token::{client, one_line, secret_text};
use ureq::{Agent, http};

use crate::answer::{Answer, HttpStatus};
use crate::chat::{Chat, with_components, with_routing_key};
use crate::cloud_event::{CloudEvent, Message};
use crate::settings::{Format, Token, WebhookSettings};
use crate::{otlp::is_rejected, sample::sample};

/// How much of an answer's body is read, to use the connection again. Bytes. Only its first line is shown.
const BODY_BYTES_READ: u64 = 64 * 1024;
/// Largest head of an answer. Bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A shorter part of a path is a word, and no secret. Bytes.
const SECRET_BYTES_MIN: usize = 8;

pub struct Client {
    agent: Agent,
    settings: WebhookSettings,
}

impl Client {
    /// A client for the receiver of these settings. Nothing is connected yet.
    ///
    /// # Errors
    /// The file of authorities cannot be used, or the proxy is none.
    pub fn new(settings: WebhookSettings) -> Result<Self, String> {
        let config = client(&settings.url, settings.ca_file.as_deref(), &settings.way)?
            .timeout_connect(Some(settings.connect_wait))
            .timeout_global(Some(settings.request_wait))
            .max_response_header_size(HEAD_BYTES_MAX)
            .user_agent(concat!("loopwarden/", env!("CARGO_PKG_VERSION")));
        Ok(Self { agent: config.build().into(), settings })
    }

    pub(crate) const fn settings(&self) -> &WebhookSettings {
        &self.settings
    }

    /// A command as its receiver takes it, with links that begin to hold at a time.
    pub(crate) fn message(&self, event: &CloudEvent<'_>, now: EventTime) -> Message {
        let settings = &self.settings;
        let links = settings.links.as_ref().filter(|_| matches!(settings.format, Format::Chat(_)));
        let buttons = links.map(|links| links.buttons(&settings.name, &event.command(), now)).unwrap_or_default();
        event.message(settings.format, &buttons)
    }

    /// Sends commands that are made up, one of each action that this webhook sends, and returns what the receiver answers. They bind nobody.
    ///
    /// # Errors
    /// The first that is not taken: its action, and why.
    pub fn test(&self) -> Result<Vec<(&str, HttpStatus)>, (&str, String)> {
        // One time is one loop.
        let now_ms = clock::now_ms();
        let actions = self.settings.actions.iter().map(String::as_str);
        let sent = actions.map(|action| {
            let output = sample(action, now_ms);
            let message = CloudEvent::of(&output).map(|event| self.message(&event, EventTime(now_ms)));
            match message.map(|message| self.post(&message)) {
                Some(Answer::Done(status)) => Ok((action, status)),
                Some(Answer::Refused(status) | Answer::Gone(status) | Answer::Again(Ok(status), _)) => {
                    Err((action, status.to_string()))
                }
                Some(Answer::Again(Err(why), _)) => Err((action, why)),
                None => Err((action, "it is no event".to_owned())),
            }
        });
        sent.collect()
    }

    pub(crate) fn post(&self, message: &Message) -> Answer {
        match self.try_post(message) {
            Ok(answer) => answer,
            Err(cause) => Answer::Again(Err(one_line(&cause)), None),
        }
    }

    fn try_post(&self, message: &Message) -> Result<Answer, String> {
        let settings = &self.settings;
        let mut request = match settings.format {
            Format::Chat(Chat::Discord) if !message.links.is_empty() => self.agent.post(with_components(&settings.url)),
            _ => self.agent.post(&settings.url),
        };
        for (name, value) in &message.headers {
            request = request.header(name, value);
        }
        let mut body = message.body.as_slice();
        let with_key;
        let mut secrets: Vec<String> = settings.url.splitn(4, '/').skip(3).map(str::to_owned).collect();
        secrets.extend(message.links.iter().filter_map(|link| link.rsplit('/').next()).map(str::to_owned));
        if let Some(Token { file, header }) = &settings.token {
            let token = secret_text(file, "the token in").map_err(|error| error.message)?;
            secrets.push(token.clone());
            if settings.format == Format::Chat(Chat::PagerDuty) {
                with_key = with_routing_key(body, &token);
                body = &with_key;
            } else {
                request = match header {
                    Some(name) => request.header(name, token),
                    None => request.header("authorization", format!("Bearer {token}")),
                };
            }
        }
        let now_ms = clock::now_ms();
        if let Some(secret) = &settings.secret {
            let timestamp_s = now_ms / 1_000;
            request = request
                .header("webhook-id", &message.id)
                .header("webhook-timestamp", timestamp_s.to_string())
                .header("webhook-signature", secret.signature(&message.id, timestamp_s, body));
        }
        let response = request.send(body).map_err(|error| error.to_string())?;
        let retry_after = response.headers().get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let (code, retry_after) = (response.status().as_u16(), retry_after.map(str::to_owned));
        // The status is what counts. Who breaks off behind it, or never ends, costs a connection.
        let mut text = Vec::new();
        let _ = response.into_body().into_reader().take(BODY_BYTES_READ).read_to_end(&mut text);
        let is_rejected = settings.format == Format::Otlp && is_rejected(&text);
        let text = unsecret(one_line(String::from_utf8_lossy(&text).trim()), &secrets);
        let status = HttpStatus { code, text };
        Ok(match Answer::of(status.clone(), retry_after.as_deref(), now_ms) {
            Answer::Done(_) if is_rejected => Answer::Refused(status),
            answer => answer,
        })
    }
}

/// A text without the path of the URL and without the token: servers repeat what they are asked for, and whoever knows these may post.
fn unsecret(text: String, secrets: &[String]) -> String {
    let parts = secrets.iter().flat_map(|secret| secret.split(['/', '?', '&', '=']));
    let repeats = parts.filter(|part| part.len() >= SECRET_BYTES_MIN).any(|part| text.contains(part));
    if repeats { "(the answer repeats a secret)".to_owned() } else { text }
}
