//! One bounded request to a receiver.

use std::io::{Read as _, copy, sink};

use loopwarden_log::clock;
use loopwarden_token::{client, one_line, secret_text};
use ureq::{Agent, http};

use crate::answer::Answer;
use crate::cloud_event::Message;
use crate::settings::{Token, WebhookSettings};

/// How much of an answer's body is read, to use the connection again. Bytes. Nothing of it counts.
const BODY_BYTES_READ: u64 = 64 * 1024;
/// Largest head of an answer. Bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Sends to one receiver.
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

    /// Sends once.
    pub(crate) fn post(&self, message: &Message) -> Answer {
        match self.try_post(message) {
            Ok(answer) => answer,
            Err(cause) => Answer::Again(Err(one_line(&cause)), None),
        }
    }

    fn try_post(&self, message: &Message) -> Result<Answer, String> {
        let settings = &self.settings;
        let mut request = self.agent.post(&settings.url);
        for (name, value) in &message.headers {
            request = request.header(name, value);
        }
        if let Some(Token { file, header }) = &settings.token {
            let token = secret_text(file, "the token in").map_err(|error| error.message)?;
            request = match header {
                Some(name) => request.header(name, token),
                None => request.header("authorization", format!("Bearer {token}")),
            };
        }
        let now_ms = clock::now_ms();
        if let Some(secret) = &settings.secret {
            let timestamp_s = now_ms / 1_000;
            request = request
                .header("webhook-id", &message.id)
                .header("webhook-timestamp", timestamp_s.to_string())
                .header("webhook-signature", secret.signature(&message.id, timestamp_s, &message.body));
        }
        let response = request.send(message.body.as_slice()).map_err(|error| error.to_string())?;
        let retry_after = response.headers().get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let answer = Answer::of(response.status().as_u16(), retry_after, now_ms);
        // The status is what counts. Who breaks off behind it, or never ends, costs a connection.
        let _ = copy(&mut response.into_body().into_reader().take(BODY_BYTES_READ), &mut sink());
        Ok(answer)
    }
}
