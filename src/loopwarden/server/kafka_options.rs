//! Kafka as the settings have it.

use loopwarden_core::{event::Stage, limits::REWRITTEN_BYTES_MAX};
use loopwarden_kafka::{KafkaOptions, NativeSettings, Secret, Security, TopicNames};
use loopwarden_settings::{Config, KafkaConfig, SaslMechanism, read_secret};
use loopwarden_token::{Issuer, Msk, Source, Tokens, Way};

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
        group_protocol: kafka.group_protocol,
        start: kafka.start,
        security: Security {
            ca_file: kafka.ca_file.clone(),
            cert_file: kafka.cert_file.clone(),
            key_file: kafka.key_file.clone(),
            sasl_mechanism: kafka.sasl_mechanism.map(mechanism),
            username: kafka.username.clone(),
            password: password.map(Secret),
            tokens: tokens(kafka)?,
        },
        native: NativeSettings {
            all: kafka.librdkafka.0.clone(),
            consumer: kafka.consumer.librdkafka.0.clone(),
            producer: kafka.producer.librdkafka.0.clone(),
        },
        fetch_bytes_max: config.limits.fetch_queue_bytes,
        swarm: SWARM,
        reads: &[Stage::Session],
        value_bytes_max: config.limits.record_bytes_max + REWRITTEN_BYTES_MAX,
        rekeyed_to: None,
    })
}

/// As the brokers know it: tokens of AWS are tokens.
fn mechanism(mechanism: SaslMechanism) -> String {
    let named = if mechanism == SaslMechanism::AwsMskIam { SaslMechanism::OauthBearer } else { mechanism };
    named.as_str().to_owned()
}

/// Where tokens come from, if brokers want them.
fn tokens(kafka: &KafkaConfig) -> Result<Option<Tokens>, Failure> {
    let way = Way::of(kafka.token_proxy.as_deref());
    match kafka.sasl_mechanism {
        Some(SaslMechanism::OauthBearer) => {}
        Some(SaslMechanism::AwsMskIam) => {
            let variables =
                std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
            let msk = Msk::new(kafka.aws_region.as_deref(), way, variables)
                .map_err(|wrong| Failure::coded("E0202", format!("kafka.aws_region {wrong}; AWS_REGION names one too")))?;
            return Ok(Some(Tokens::new(Source::Msk(msk))));
        }
        _ => return Ok(None),
    }
    let oauth = &kafka.oauth;
    let issuer = || {
        Some(Issuer {
            url: oauth.token_url.clone()?,
            client_id: oauth.client_id.clone()?,
            secret_file: oauth.client_secret_file.clone()?,
            scope: oauth.scope.clone(),
            ca_file: oauth.ca_file.clone(),
            way: way.clone(),
        })
    };
    if let Some(file) = &oauth.client_secret_file {
        read_secret(file, "kafka.oauth.client_secret_file")?;
    }
    Ok(oauth.token_file.clone().map(Source::File).or_else(|| issuer().map(Source::Issuer)).map(Tokens::new))
}
