//! What the clients are made with, whatever the settings say.

use super::*;

pub(crate) fn options() -> KafkaOptions {
    KafkaOptions {
        bootstrap_servers: "127.0.0.1:1".into(),
        app: "app".into(),
        instance: "lw-0".into(),
        lane: 2,
        topics: TopicNames {
            input: "events".into(),
            commands: "commands".into(),
            state: "state".into(),
            dead_letters: "dlq".into(),
        },
        group_protocol: GroupProtocol::Classic,
        start: Start::Earliest,
        security: Security::default(),
        native: NativeSettings::default(),
        fetch_bytes_max: 16 << 20,
        swarm: true,
        reads: &[Stage::Session, Stage::Swarm],
        value_bytes_max: 1 << 18,
        rekeyed_to: None,
    }
}

#[test]
fn librdkafka_knows_every_setting_of_the_tables() {
    assert_eq!(check(&options()), Ok(()));
}

#[test]
fn of_the_consumer_protocol_what_the_broker_sets_is_refused() {
    let mut options = KafkaOptions { group_protocol: GroupProtocol::Consumer, ..options() };
    assert_eq!(check(&options), Ok(()));
    options.native.consumer.insert("session.timeout.ms".into(), "6000".into());
    assert_eq!(check(&options).map_err(|bad| bad.key), Err("session.timeout.ms".into()));
}

#[test]
fn a_misspelt_native_setting_is_named() {
    let mut options = options();
    options.native.producer.insert("sasl.mecanism".into(), "PLAIN".into());
    assert_eq!(check(&options).map_err(|bad| bad.key), Err("sasl.mecanism".into()));
}

#[test]
fn a_native_setting_of_the_user_comes_last() {
    let mut options = options();
    options.native.all.insert("linger.ms".into(), "1".into());
    options.native.producer.insert("linger.ms".into(), "2".into());
    assert_eq!(producer(&options).get("linger.ms"), Some("2"));
}

#[test]
fn a_certificate_switches_tls_on_and_a_mechanism_sasl() {
    let mut options = options();
    assert_eq!(producer(&options).get("security.protocol"), None);
    options.security.ca_file = Some("/ca.pem".into());
    assert_eq!(producer(&options).get("security.protocol"), Some("ssl"));
    options.security.sasl_mechanism = Some("SCRAM-SHA-512".into());
    assert_eq!(producer(&options).get("security.protocol"), Some("sasl_ssl"));
}

#[test]
fn a_password_is_not_printed() {
    let mut options = options();
    options.security.password = Some(Secret("hunter2".into()));
    assert!(!format!("{options:?}").contains("hunter2"));
}

#[test]
fn an_intake_has_a_group_and_an_identity_of_its_own() {
    let intake = options().of_intake("otlp_spans");
    assert_eq!((intake.app.as_str(), intake.topics.input.as_str()), ("app-in-otlp_spans", "otlp_spans"));
    assert_eq!(intake.transactional_id(), "app-in-otlp_spans-lw-0-0");
    assert_eq!((intake.rekeyed_to.as_deref(), intake.stages()), (Some("events"), &[Stage::Session][..]));
}

#[test]
fn a_webhook_has_a_group_of_its_own_and_its_settings_come_last() {
    let mut options = options();
    options.native.consumer.insert("max.poll.interval.ms".into(), "1000".into());
    let webhook = options.of_webhook("slack");
    assert_eq!((webhook.app.as_str(), webhook.topics.commands.as_str()), ("app-webhook-slack", "commands"));
    let config = webhook_consumer(&webhook);
    assert_eq!((config.get("group.id"), config.get("group.instance.id")), (Some("app-webhook-slack"), None));
    assert_eq!((config.get("max.poll.interval.ms"), config.get("isolation.level")), (Some("300000"), Some("read_committed")));
}

#[test]
fn identities_name_app_instance_and_lane() {
    assert_eq!(options().transactional_id(), "app-lw-0-2");
    assert_eq!(options().group_instance_id(), "lw-0-2");
    assert_eq!(options().input_topic(Stage::Swarm), "app.swarm-counts");
    assert_eq!(options().changelog_topic(Stage::Session), "app.session-changelog");
}
