//! The webhooks of a process: a thread for each `[[webhook]]`, which no lane waits for.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::{thread::JoinHandle, time::Duration};

use loopwarden_kafka::{CommandFollower, KafkaOptions, Start};
use loopwarden_log::{LogError, Output};
use loopwarden_log::{clock::Deadline, embedded::EmbeddedBroker};
use loopwarden_settings::{Config, Diagnostic, ExpiredCommand, WebhookConfig, WebhookFormat, WebhookStart, read_secret};
use loopwarden_token::Way;
use loopwarden_webhook::{
    AnswerKind, Chat, Client, EmbeddedSource, Format, LinkKey, Links, Open, ReaderSlot, Secret, Source, Token, Webhook,
    WebhookReport, WebhookSettings,
};

use crate::failure::Failure;

/// Where the embedded log's webhooks keep how far they are, in the data directory.
const DIR: &str = "webhooks";
/// How long the end of the process waits for requests that are under way. What is cut off is sent again.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// What each webhook shows of itself.
pub(super) type Reports = Vec<Arc<Mutex<WebhookReport>>>;

/// A webhook that could be started.
pub(crate) struct Prepared {
    pub(crate) client: Client,
    pub(crate) name: String,
    start: WebhookStart,
}

/// Threads of webhooks.
pub(super) struct Webhooks {
    pub(super) reports: Reports,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// Closed by the last thread.
    ended: Receiver<()>,
    /// Taken away when they are to end.
    reader: ReaderSlot,
}

/// What they show now.
pub(super) fn shown(reports: &[Arc<Mutex<WebhookReport>>]) -> Vec<WebhookReport> {
    reports.iter().map(|report| report.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
}

/// Reads the files that the tables name. Nothing is opened yet: what is wrong here is a mistake of the settings.
///
/// # Errors
/// E0202.
pub(crate) fn prepare(config: &Config) -> Result<Vec<Prepared>, Failure> {
    let key = link_key(config)?;
    let prepared = config.webhook.iter().enumerate().map(|(index, webhook)| {
        let links = key.clone().zip(config.http.public_url.clone()).map(|(key, public_url)| Links {
            public_url,
            key,
            life_ms: config.http.link_ms_max,
            answers: webhook.links().filter_map(AnswerKind::from_name).collect(),
        });
        prepared(index, webhook, links)
    });
    Ok(prepared.collect::<Result<_, Diagnostic>>()?)
}

/// The secret that signs links, where the settings name one.
///
/// # Errors
/// E0202, without the secret.
pub(super) fn link_key(config: &Config) -> Result<Option<LinkKey>, Diagnostic> {
    let Some(file) = &config.http.link_secret_file else { return Ok(None) };
    let key = "http.link_secret_file";
    let wrong = |cause: String| {
        let message = format!("{key}: what {} holds {cause}", file.display());
        Diagnostic::new("E0202", message).help("make one, as by: openssl rand -hex 32")
    };
    LinkKey::of(&read_secret(file, key)?).map(Some).map_err(wrong)
}

fn prepared(index: usize, webhook: &WebhookConfig, links: Option<Links>) -> Result<Prepared, Diagnostic> {
    let key = |name: &str| format!("webhook[{index}].{name}");
    let wrong = |name: &str, cause: String| Diagnostic::new("E0202", format!("{}: {cause}", key(name)));
    let url = webhook.target(index)?;
    if let Some(file) = &webhook.token_file {
        read_secret(file, &key("token_file"))?;
    }
    let secret = match &webhook.secret_file {
        Some(file) => {
            let secret = Secret::parse(&read_secret(file, &key("secret_file"))?);
            Some(secret.map_err(|cause| wrong("secret_file", format!("what {} holds {cause}", file.display())))?)
        }
        None => None,
    };
    let settings = WebhookSettings {
        name: webhook.name.clone(),
        url,
        format: match webhook.format {
            WebhookFormat::Binary => Format::Binary,
            WebhookFormat::Structured => Format::Structured,
            WebhookFormat::Otlp => Format::Otlp,
            WebhookFormat::Slack => Format::Chat(Chat::Slack),
            WebhookFormat::Teams => Format::Chat(Chat::Teams),
            WebhookFormat::Discord => Format::Chat(Chat::Discord),
            WebhookFormat::PagerDuty => Format::Chat(Chat::PagerDuty),
        },
        actions: webhook.actions(),
        tenant: webhook.tenant.clone(),
        drops_expired: webhook.expired == ExpiredCommand::Drop,
        token: webhook.token_file.clone().map(|file| Token { file, header: webhook.token_header.clone() }),
        links,
        secret,
        ca_file: webhook.ca_file.clone(),
        way: Way::of(webhook.proxy.as_deref()),
        connect_wait: Duration::from_millis(webhook.connect_ms_max),
        request_wait: Duration::from_millis(webhook.request_ms_max),
    };
    let client = Client::new(settings).map_err(|cause| wrong("ca_file", cause))?;
    Ok(Prepared { client, name: webhook.name.clone(), start: webhook.start })
}

/// Starts those of the embedded log. Where a new one begins is kept before any event is taken.
///
/// # Errors
/// A thread cannot be started, or where a webhook begins cannot be kept.
pub(super) fn embedded(prepared: Vec<Prepared>, broker: &EmbeddedBroker, data_dir: &Path) -> Result<Webhooks, Failure> {
    let reader: ReaderSlot = Arc::new(Mutex::new((!prepared.is_empty()).then(|| broker.reader())));
    let slot = Arc::clone(&reader);
    let dir: PathBuf = data_dir.join(DIR);
    for webhook in &prepared {
        drop(EmbeddedSource::open(&slot, &dir, &webhook.name, webhook.start == WebhookStart::Latest)?);
    }
    start(prepared, reader, move |name, from| {
        let (slot, dir, name, from_end) = (Arc::clone(&slot), dir.clone(), name.to_owned(), from == WebhookStart::Latest);
        Box::new(move || Ok(Box::new(EmbeddedSource::open(&slot, &dir, &name, from_end)?)))
    })
}

/// Starts those of a process on Kafka.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn kafka(prepared: Vec<Prepared>, options: &KafkaOptions) -> Result<Webhooks, Failure> {
    start(prepared, ReaderSlot::default(), |name, from| {
        let options = options.of_webhook(name);
        let from = if from == WebhookStart::Latest { Start::Latest } else { Start::Earliest };
        Box::new(move || Ok(Box::new(OfTopic(CommandFollower::join(&options, from)?))))
    })
}

fn start(prepared: Vec<Prepared>, reader: ReaderSlot, open: impl Fn(&str, WebhookStart) -> Open) -> Result<Webhooks, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let (lives, ended) = sync_channel(0);
    let mut webhooks = Webhooks { reports: Vec::new(), threads: Vec::new(), stop, ended, reader };
    for Prepared { client, name, start } in prepared {
        let report = Arc::new(Mutex::new(WebhookReport { name: name.clone(), ..WebhookReport::default() }));
        webhooks.reports.push(Arc::clone(&report));
        let webhook = Webhook::new(client, open(&name, start), report);
        let (stop, lives): (_, SyncSender<()>) = (Arc::clone(&webhooks.stop), lives.clone());
        webhooks.threads.push(std::thread::Builder::new().name("webhook".to_owned()).spawn(move || {
            webhook.run(&stop);
            drop(lives);
        })?);
    }
    Ok(webhooks)
}

impl Webhooks {
    /// They are to end. A request that is under way is waited for later, by [`Webhooks::join`].
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }

    /// Waits for a moment. A receiver that does not answer holds up the end of nothing: its thread ends with the process.
    pub(super) fn join(self) {
        self.stop();
        let deadline = Deadline::after(STOP_WAIT);
        // Nothing is ever sent: what comes is the end of all threads, or of the time.
        let _ = self.ended.recv_timeout(deadline.left());
        // The log closes with its last reader.
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The commands topic as a source: kept is what is committed.
struct OfTopic(CommandFollower);

impl Source for OfTopic {
    fn next(&mut self, wait: Duration) -> Result<Option<Output>, LogError> {
        self.0.next(wait)
    }

    fn hold(&mut self, wait: Duration) -> Result<bool, LogError> {
        self.0.hold(wait)
    }

    fn done(&mut self) {
        self.0.done();
    }

    fn keep(&mut self) -> Result<(), LogError> {
        self.0.commit()
    }
}
