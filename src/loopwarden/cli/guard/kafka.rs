//! Verdicts from the state topic, events to the input topic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loopwarden_guard::{Options, Source};
use loopwarden_kafka::{Followed, Forwarder, KafkaOptions, StateFollower};
use loopwarden_log::LogError;
use loopwarden_settings::Config;

use crate::cli::guard::works::Works;
use crate::cli::setup;
use crate::failure::Failure;
use crate::http::check::Desk;
use crate::server::kafka_options;

/// One wait of the follower.
const TURN: Duration = Duration::from_millis(200);
/// Before it begins anew.
const PAUSE: Duration = Duration::from_secs(1);
/// For events on their way when the process ends.
const FLUSH_WAIT: Duration = Duration::from_secs(3);

/// Starts to follow. Brokers that are away are no failure: calls run until they come.
pub(super) fn start(config: &Config, options: Options, stop: &Arc<AtomicBool>) -> Result<Works, Failure> {
    let kafka = kafka_options(config, setup::kafka_of(config)?, 0)?;
    let forwarder = Arc::new(Forwarder::new(&kafka)?);
    let sends = Arc::clone(&forwarder);
    let send = Box::new(move |record: &loopwarden_guard::Record| sends.send(&record.session_id, &record.event));
    let desk = Arc::new(Desk::beside(options, Source::Kafka, send));
    let place = format!("Kafka {}, {}", kafka.bootstrap_servers, kafka.topics.state);
    let (followed, stops, flushed) = (Arc::clone(&desk), Arc::clone(stop), Arc::clone(&forwarder));
    let thread = std::thread::Builder::new().name("follower".to_owned()).spawn(move || {
        follow(&kafka, &followed, &stops);
        flushed.flush(FLUSH_WAIT);
    })?;
    Ok(Works { desk, threads: vec![thread], deliveries: Box::new(move || forwarder.deliveries()), place })
}

/// Follows until told to stop; from the beginning again after each failure.
fn follow(options: &KafkaOptions, desk: &Desk, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        if let Err(error) = follow_once(options, desk, stop) {
            tracing::warn!(%error, "the state topic cannot be followed; calls run without fresh verdicts");
            std::thread::park_timeout(PAUSE);
        }
    }
}

fn follow_once(options: &KafkaOptions, desk: &Desk, stop: &AtomicBool) -> Result<(), LogError> {
    let mut follower = StateFollower::open(options)?;
    while !stop.load(Ordering::Acquire) {
        let came = follower.turn(TURN, &mut |key, value| desk.feed(|guard, now| guard.row(key, value, now)))?;
        if came == Followed::Current {
            desk.is_current();
        }
    }
    Ok(())
}
