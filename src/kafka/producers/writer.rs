//! A writer outside of any lane, for what an operator sends: each record once and in order, no transaction.

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use loopwarden_core::limits;
use loopwarden_log::LogError;
use loopwarden_log::clock::Deadline;
use loopwarden_token::Tokens;
use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};

use crate::client::settings::KafkaOptions;
use crate::client::{bearer, fate, settings};

/// Between two looks for room in the client's queue.
const ROOM: Duration = Duration::from_millis(50);

/// Keeps the first record that was not taken.
#[derive(Debug, Default)]
struct Reports {
    failure: Mutex<Option<KafkaError>>,
    tokens: Option<Tokens>,
}

impl ClientContext for Reports {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        bearer::answer(self.tokens.as_ref())
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
        }
    }
}

/// Writes to any topic of the group.
pub struct Writer {
    producer: BaseProducer<Reports>,
}

impl Writer {
    /// Makes the client; talks to nobody yet.
    ///
    /// # Errors
    /// A setting librdkafka refuses.
    pub fn new(options: &KafkaOptions) -> Result<Self, LogError> {
        let config = settings::writer(options);
        let context = Reports { tokens: options.security.tokens.clone(), ..Reports::default() };
        let producer = config.create_with_context(context).map_err(|error| fate::of(&error, "making a writer"))?;
        Ok(Self { producer })
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
                    self.producer.poll(ROOM);
                }
                Err((error, _)) => return Err(fate::of(&error, &format!("writing to {topic}"))),
            }
        }
    }

    /// Waits until all that was written is durable.
    ///
    /// # Errors
    /// The first record that was not taken; that brokers do not answer within `limits::WRITE_WAIT`.
    pub fn flush(&self) -> Result<(), LogError> {
        let flushed = self.producer.flush(limits::WRITE_WAIT);
        let failure = self.producer.context().failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        match failure.map_or(flushed, Err) {
            Ok(()) => Ok(()),
            Err(error) => Err(fate::of(&error, "writing")),
        }
    }
}
