//! Whether records may be written, found without writing any: the record asks for two acknowledgements, which no broker gives. Brokers look at
//! the permission first, and then refuse the number (`INVALID_REQUIRED_ACKS`) before anything is appended.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};

use loopwarden_core::limits;
use loopwarden_log::LogError;
use loopwarden_token::Tokens;
use rdkafka::client::OAuthToken;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientContext, Message};

use crate::client::settings::KafkaOptions;
use crate::client::{bearer, fate, settings};

/// What became of each record, by topic.
#[derive(Debug, Default)]
struct Answers {
    given: Mutex<BTreeMap<String, KafkaError>>,
    tokens: Option<Tokens>,
}

impl ClientContext for Answers {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        bearer::answer(self.tokens.as_ref())
    }
}

impl ProducerContext for Answers {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            given.insert(message.topic().to_owned(), error.clone());
        }
    }
}

/// The topics that this identity may not write to, with the broker's words. One that does not answer in time says nothing.
///
/// # Errors
/// A setting librdkafka refuses.
pub(crate) fn refused(options: &KafkaOptions, topics: &[String]) -> Result<BTreeMap<String, KafkaError>, LogError> {
    let context = Answers { tokens: options.security.tokens.clone(), ..Answers::default() };
    let config = settings::write_probe(options);
    let producer: BaseProducer<Answers> =
        config.create_with_context(context).map_err(|error| fate::of(&error, "making a producer that writes nothing"))?;
    for topic in topics {
        // A broker that took it after all would have a tombstone of a key that nothing else has.
        let record = BaseRecord::<[u8], [u8]>::to(topic).key(b"loopwarden-check").partition(0);
        producer.send(record).map_err(|(error, _)| fate::of(&error, &format!("writing nothing to {topic}")))?;
    }
    // What is left then is dropped with the producer.
    let _ = producer.flush(limits::ASK_WAIT);
    let mut given = std::mem::take(&mut *producer.context().given.lock().unwrap_or_else(PoisonError::into_inner));
    given.retain(|_, error| error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed));
    Ok(given)
}
