//! Kafka as the settings have it.

use loopwarden_core::event::Stage;
use loopwarden_kafka::{KafkaOptions, NativeSettings, Secret, Security, TopicNames};
use loopwarden_settings::{Config, KafkaConfig, read_secret};

use crate::failure::Failure;

/// Whether the swarm stage runs.
pub const SWARM: bool = true;

/// Kafka as the settings have it, for a lane.
///
/// # Errors
/// The password file cannot be read.
pub fn kafka_options(config: &Config, kafka: &KafkaConfig, lane: u32) -> Result<KafkaOptions, Failure> {
    let password = kafka.password_file.as_ref().map(|file| read_secret(file, "kafka.password_file")).transpose()?;
    Ok(KafkaOptions {
        bootstrap_servers: kafka.bootstrap_servers.clone(),
        app: kafka.group.clone(),
        instance: config.instance.clone(),
        lane,
        topics: TopicNames {
            input: kafka.input.clone(),
            commands: kafka.commands.clone(),
            state: kafka.state.clone(),
            dead_letters: kafka.dlq.clone(),
        },
        start: kafka.start,
        security: Security {
            ca_file: kafka.ca_file.clone(),
            cert_file: kafka.cert_file.clone(),
            key_file: kafka.key_file.clone(),
            sasl_mechanism: kafka.sasl_mechanism.map(|mechanism| mechanism.as_str().to_owned()),
            username: kafka.username.clone(),
            password: password.map(Secret),
        },
        native: NativeSettings {
            all: kafka.librdkafka.0.clone(),
            consumer: kafka.consumer.librdkafka.0.clone(),
            producer: kafka.producer.librdkafka.0.clone(),
        },
        fetch_bytes_max: config.limits.fetch_queue_bytes,
        swarm: SWARM,
        reads: &[Stage::Session],
        value_bytes_max: config.limits.record_bytes_max,
        rekeyed_to: None,
    })
}
