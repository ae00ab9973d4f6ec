//! Writers outside of any lane: each record once and in order, no transaction.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, error::Error, thread, time::Duration};

use loopwarden_core::limits;
use loopwarden_log::{LogError, clock::Deadline};
use loopwarden_token::Tokens;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext, Message};
use rdkafka::{client::OAuthToken, message::DeliveryResult};

use crate::client::settings::KafkaOptions;
use crate::client::{bearer, closing::Bounded, fate, settings};

/// Between two tries to hand over a record that the client's queue has no room for.
const ROOM: Duration = Duration::from_millis(50);

/// What became of the records.
#[derive(Debug, Default)]
struct Deliveries {
    delivered: AtomicU64,
    lost: AtomicU64,
    /// Partition and offset of the last one.
    last: Mutex<Option<(u32, u64)>>,
    /// Of each topic the first record that was not taken, and why.
    refused: Mutex<BTreeMap<String, KafkaError>>,
    tokens: Option<Tokens>,
}

impl Deliveries {
    fn refused(&self) -> MutexGuard<'_, BTreeMap<String, KafkaError>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        match result {
            Ok(message) => {
                self.delivered.fetch_add(1, Ordering::Relaxed);
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some((message.partition() as u32, message.offset() as u64));
            }
            Err((error, message)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                self.refused().entry(message.topic().to_owned()).or_insert_with(|| error.clone());
            }
        }
    }
}

/// Writes to any topic of the group.
pub struct Writer {
    producer: Bounded<ThreadedProducer<Deliveries>>,
}

impl Writer {
    /// For what an operator sends. Makes the client; talks to nobody yet.
    ///
    /// # Errors
    /// A setting librdkafka refuses.
    pub fn new(options: &KafkaOptions) -> Result<Self, LogError> {
        Self::of(&settings::writer(options), options)
    }

    pub(crate) fn of(config: &ClientConfig, options: &KafkaOptions) -> Result<Self, LogError> {
        let context = Deliveries { tokens: options.security.tokens.clone(), ..Deliveries::default() };
        Ok(Self { producer: Bounded::make(config, context, "making a writer")? })
    }

    /// Hands one record to the client; without a partition its key says where it goes. A null value is a tombstone.
    ///
    /// # Errors
    /// The client refuses it, or has no room for it for `limits::WRITE_WAIT`.
    pub fn write(&self, topic: &str, partition: Option<u32>, key: &[u8], value: Option<&[u8]>) -> Result<(), LogError> {
        let deadline = Deadline::after(limits::WRITE_WAIT);
        let mut record = BaseRecord::to(topic).key(key);
        record.payload = value;
        record.partition = partition.map(|partition| partition as i32);
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) if !deadline.is_over() => {
                    record = refused;
                    thread::park_timeout(ROOM);
                }
                Err((error, _)) => return Err(fate::of(&error, &format!("writing to {topic}"))),
            }
        }
    }

    /// Waits until all that was written is durable.
    ///
    /// # Errors
    /// A record that was not taken, the first of its topic; that brokers do not answer within `limits::WRITE_WAIT`.
    pub fn flush(&self) -> Result<(), LogError> {
        let flushed = self.producer.flush(limits::WRITE_WAIT);
        let failure = self.refused().into_values().next();
        failure.map_or(flushed, Err).map_err(|error| fate::of(&error, "writing"))
    }

    /// Where the last record that brokers have taken lies: its partition and offset.
    #[must_use]
    pub fn last_place(&self) -> Option<(u32, u64)> {
        *self.producer.context().last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for brokers, at most so long.
    pub(crate) fn settle(&self, wait: Duration) {
        // What is left then is dropped with the producer.
        let _ = self.producer.flush(wait);
    }

    /// Topics with records that were not taken since the last time, and why.
    pub(crate) fn refused(&self) -> BTreeMap<String, KafkaError> {
        std::mem::take(&mut *self.producer.context().refused())
    }
}

/// Sends events to the input topic from beside an agent: batched, never waiting. What brokers do not take in time is dropped and counted.
pub struct Forwarder {
    writer: Writer,
    topic: String,
}

impl Forwarder {
    /// Makes the client; talks to nobody yet.
    ///
    /// # Errors
    /// A setting librdkafka refuses.
    pub fn new(options: &KafkaOptions) -> Result<Self, LogError> {
        Ok(Self { writer: Writer::of(&settings::forwarder(options), options)?, topic: options.topics.input.clone() })
    }

    /// Hands an event to the client. False: its queue is full.
    #[must_use]
    pub fn send(&self, session_id: &str, event: &str) -> bool {
        self.writer.producer.send(BaseRecord::to(&self.topic).key(session_id).payload(event)).is_ok()
    }

    /// Events that brokers have taken, and those they have not taken in time.
    #[must_use]
    pub fn deliveries(&self) -> (u64, u64) {
        let counts = self.writer.producer.context();
        (counts.delivered.load(Ordering::Relaxed), counts.lost.load(Ordering::Relaxed))
    }

    /// Waits until all is sent, at most so long.
    pub fn flush(&self, wait: Duration) {
        self.writer.settle(wait);
    }
}
