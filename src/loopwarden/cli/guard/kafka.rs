//! Verdicts from the state topic, events to the input topic.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::{sync::Arc, time::Duration};

use loopwarden_guard::{Guard, Options, Source};
use loopwarden_kafka::{Followed, Forwarder, Judged, KafkaOptions, StateFollower};
use loopwarden_log::LogError;
use loopwarden_settings::Config;

use crate::cli::guard::works::{Deliveries, Works};
use crate::{cli::shared::setup, failure::Failure, http::check::Desk, server::kafka_options};

/// One wait of the follower.
const TURN: Duration = Duration::from_millis(200);
/// Between two looks at how late events are judged.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
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
    let (told_desk, stops, flushed) = (Arc::clone(&desk), Arc::clone(stop), Arc::clone(&forwarder));
    let late_ms = Arc::new(AtomicI64::new(0));
    let (watched, told, ends) = (kafka.clone(), Arc::clone(&late_ms), Arc::clone(stop));
    let watch = std::thread::Builder::new().name("lateness".to_owned()).spawn(move || watch(&watched, &told, &ends))?;
    let follower = std::thread::Builder::new().name("follower".to_owned()).spawn(move || {
        follow(&kafka, &told_desk, &late_ms, &stops);
        flushed.flush(FLUSH_WAIT);
    })?;
    let deliveries = Box::new(move || {
        let (delivered, lost) = forwarder.deliveries();
        Deliveries { delivered, lost, rejected: 0 }
    });
    Ok(Works { desk, threads: vec![follower, watch], deliveries, place })
}

/// Looks how late events are judged, until told to stop. Where it cannot be known, they count as judged: what is heard of verdicts still says
/// whether there are any.
fn watch(options: &KafkaOptions, late_ms: &AtomicI64, stop: &AtomicBool) {
    let (mut judged, mut is_told) = (None, false);
    while !stop.load(Ordering::Acquire) {
        match late_of(options, &mut judged) {
            Ok(found_ms) => {
                late_ms.store(i64::try_from(found_ms).unwrap_or(i64::MAX), Ordering::Release);
                is_told = false;
            }
            Err(error) => {
                judged = None;
                late_ms.store(0, Ordering::Release);
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(%error, "how late events are judged cannot be known; it is not said to agents");
                }
            }
        }
        std::thread::park_timeout(LOOK_PAUSE);
    }
}

fn late_of(options: &KafkaOptions, judged: &mut Option<Judged>) -> Result<u64, LogError> {
    if judged.is_none() {
        *judged = Some(Judged::open(options)?);
    }
    judged.as_mut().map_or(Ok(0), Judged::late_ms)
}

/// Follows until told to stop; from the beginning again after each failure.
fn follow(options: &KafkaOptions, desk: &Desk, late_ms: &AtomicI64, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        if let Err(error) = follow_once(options, desk, late_ms, stop) {
            tracing::warn!(%error, "the state topic cannot be followed; calls run without fresh verdicts");
            std::thread::park_timeout(PAUSE);
        }
    }
}

fn follow_once(options: &KafkaOptions, desk: &Desk, late_ms: &AtomicI64, stop: &AtomicBool) -> Result<(), LogError> {
    let mut follower = StateFollower::open(options)?;
    desk.feed(Guard::reads_anew);
    while !stop.load(Ordering::Acquire) {
        let came = follower.turn(TURN, &mut |key, value| desk.feed(|guard, now| guard.row(key, value, now)))?;
        if let Followed::Current(age) = came {
            desk.is_current(age, late_ms.load(Ordering::Acquire), true);
        }
    }
    Ok(())
}
