//! Sends events to the input topic from beside an agent: batched, each once and in order, never waiting. What brokers do not take in
//! time is dropped and counted.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use loopwarden_log::LogError;
use loopwarden_token::Tokens;
use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

use crate::client::settings::KafkaOptions;
use crate::client::{bearer, fate, settings};

/// Counts what was taken and what was not.
#[derive(Debug, Default)]
struct Deliveries {
    delivered: AtomicU64,
    lost: AtomicU64,
    tokens: Option<Tokens>,
}

impl ClientContext for Deliveries {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        bearer::answer(self.tokens.as_ref())
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &self.delivered } else { &self.lost };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends events.
pub struct Forwarder {
    producer: ThreadedProducer<Deliveries>,
    topic: String,
}

impl Forwarder {
    /// Makes the client; talks to nobody yet.
    ///
    /// # Errors
    /// A setting librdkafka refuses.
    pub fn new(options: &KafkaOptions) -> Result<Self, LogError> {
        let config = settings::forwarder(options);
        let context = Deliveries { tokens: options.security.tokens.clone(), ..Deliveries::default() };
        let producer = config.create_with_context(context).map_err(|error| fate::of(&error, "making a producer"))?;
        Ok(Self { producer, topic: options.topics.input.clone() })
    }

    /// Hands an event to the client. False: its queue is full.
    #[must_use]
    pub fn send(&self, session_id: &str, event: &str) -> bool {
        self.producer.send(BaseRecord::to(&self.topic).key(session_id).payload(event)).is_ok()
    }

    /// Events that brokers have taken, and those they have not taken in time.
    #[must_use]
    pub fn deliveries(&self) -> (u64, u64) {
        let counts = self.producer.context();
        (counts.delivered.load(Ordering::Relaxed), counts.lost.load(Ordering::Relaxed))
    }

    /// Waits until all is sent, at most so long.
    pub fn flush(&self, wait: std::time::Duration) {
        // What is left then is lost with the process.
        let _ = self.producer.flush(wait);
    }
}
