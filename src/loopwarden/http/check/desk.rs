//! Where checks are answered: the guard, and the way its events take.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwarden_core::event::EventTime;
use loopwarden_guard::{Answer, BadCheck, Check, Dropped, Guard, Knowledge, Opened, Options, Phase, Record, Source};
use loopwarden_log::LogError;
use loopwarden_log::clock::{Deadline, Stopwatch};
use loopwarden_log::embedded::EmbeddedBroker;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::clock;
use crate::http::check::beside::{BesideSink, Send};
use crate::http::check::embedded::EmbeddedSink;
use crate::input_quality::InputQuality;
use crate::telemetry::guard::GuardReport;

/// Bodies on their way in, together. Bytes.
const BODIES_BYTES_MAX: usize = 64 << 20;
/// An answer leaves so much before the caller gives up, or a tenth of its wait where that is more.
const MARGIN_MIN: Duration = Duration::from_millis(5);

/// Where verdicts come from, and where events go.
enum Sink {
    Embedded(EmbeddedSink),
    Beside(BesideSink),
}

/// Answers checks.
pub struct Desk {
    guard: Arc<Mutex<Guard>>,
    sink: Sink,
    event_bytes_max: usize,
    bodies: Arc<Semaphore>,
    quality: Arc<InputQuality>,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

impl Desk {
    /// Of a process with a log of its own: verdicts come from its lanes, events go to its log.
    ///
    /// # Errors
    /// The verdicts in force cannot be read.
    pub(in crate::http) fn embedded(
        broker: EmbeddedBroker,
        event_bytes_max: usize,
        quality: Arc<InputQuality>,
    ) -> Result<Self, LogError> {
        let guard = Arc::new(Mutex::new(Guard::new(Options { event_bytes_max, ..Options::default() })));
        let sink = EmbeddedSink::start(broker, &guard)?;
        Ok(Self::new(guard, Sink::Embedded(sink), event_bytes_max, quality))
    }

    /// Of a process beside an agent. It learns of verdicts by [`Desk::feed`], and hands on events by `send`.
    #[must_use]
    pub fn beside(options: Options, source: Source, send: Send) -> Self {
        let guard = Arc::new(Mutex::new(Guard::new(options)));
        Self::new(guard, Sink::Beside(BesideSink::new(source, send)), options.event_bytes_max, Arc::default())
    }

    fn new(guard: Arc<Mutex<Guard>>, sink: Sink, event_bytes_max: usize, quality: Arc<InputQuality>) -> Self {
        let bodies = Arc::new(Semaphore::new((BODIES_BYTES_MAX / event_bytes_max.max(1)).max(1)));
        Self { guard, sink, event_bytes_max, bodies, quality }
    }

    /// Tells the guard of verdicts.
    pub fn feed(&self, tell: impl FnOnce(&mut Guard, EventTime)) {
        tell(&mut self.guard(), now());
    }

    /// All verdicts up to now are known.
    pub fn is_current(&self) {
        if let Sink::Beside(sink) = &self.sink {
            sink.is_current(now());
        }
    }

    /// Whether the verdicts that are known are of now.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        match &self.sink {
            Sink::Embedded(_) => true,
            Sink::Beside(sink) => self.guard().is_fresh(sink.knowledge(), now()),
        }
    }

    /// What it shows of itself.
    #[must_use]
    pub fn report(&self) -> GuardReport {
        let is_fresh = self.is_fresh();
        let events_dropped = match &self.sink {
            Sink::Embedded(sink) => sink.dropped(),
            Sink::Beside(sink) => sink.dropped(),
        };
        let guard = self.guard();
        GuardReport { counts: guard.counts(now()), is_fresh, subjects: guard.held().0 as u64, events_sent: None, events_dropped }
    }

    /// Hands on events that nobody waits for. A process with a log of its own has another way for them.
    pub(in crate::http) fn hand_on(&self, events: &[Record]) -> Result<(), Dropped> {
        match &self.sink {
            Sink::Embedded(_) => Err(Dropped::Unavailable),
            Sink::Beside(sink) => sink.record(events),
        }
    }

    /// Largest event. Bytes.
    #[must_use]
    pub const fn event_bytes_max(&self) -> usize {
        self.event_bytes_max
    }

    /// Who sends, and how much of it can be compared.
    pub(in crate::http) fn quality(&self) -> &InputQuality {
        &self.quality
    }

    /// Room for one more body.
    pub(in crate::http) fn body_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.bodies).try_acquire_owned().ok()
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a check that came `since`, by way of a source: before its deadline, whatever happens.
    ///
    /// # Errors
    /// The event is none.
    pub async fn answer(&self, check: Check, since: Stopwatch, source: &'static str) -> Result<Answer, BadCheck> {
        let wait = Duration::from_millis(check.deadline_ms);
        let wait = wait.saturating_sub((wait / 10).max(MARGIN_MIN)).saturating_sub(since.elapsed());
        let deadline = Deadline::after(wait);
        let is_recorded = check.record;
        let mut opened = self.guard().open(check, now())?;
        if is_recorded && opened.phase == Phase::After {
            self.quality.note(std::iter::once((opened.who.session_id.as_str(), source)));
        }
        let (mut taken, mut is_known) = (Ok(()), true);
        if let (Sink::Embedded(sink), Phase::After | Phase::Turn) = (&self.sink, opened.phase) {
            // The verdict about an event is in its own answer: it is recorded first.
            match timeout(deadline.left(), record_and_await(sink, &mut opened)).await {
                Ok(recorded) => taken = recorded,
                // It goes on by itself; whether it was taken nobody knows yet.
                Err(_) => is_known = false,
            }
        }
        let mut answer = self.decide(&mut opened, is_known);
        let events = opened.take_events();
        if !events.is_empty() {
            taken = taken.and(match &self.sink {
                // A disk that does not answer holds up nobody either.
                Sink::Embedded(sink) => match timeout(deadline.left(), sink.record(events)).await {
                    Ok(recorded) => recorded.map(drop),
                    Err(_) => Err(Dropped::Unavailable),
                },
                Sink::Beside(sink) => sink.record(&events),
            });
        }
        answer.recorded = is_recorded && answer.dropped.is_none() && taken.is_ok();
        if is_recorded {
            answer.dropped = answer.dropped.or(taken.err());
        }
        Ok(answer)
    }

    fn decide(&self, opened: &mut Opened, is_known: bool) -> Answer {
        let now = now();
        let knowledge = match &self.sink {
            Sink::Embedded(_) => Knowledge { as_of: is_known.then_some(now), source: Source::Embedded },
            Sink::Beside(sink) => sink.knowledge(),
        };
        self.guard().decide(opened, knowledge, now)
    }
}

async fn record_and_await(sink: &EmbeddedSink, opened: &mut Opened) -> Result<(), Dropped> {
    let events = opened.take_events();
    if events.is_empty() {
        return Ok(());
    }
    let _hurry = sink.hurry();
    let places = sink.record(events).await?;
    sink.settled(&places).await;
    Ok(())
}

fn now() -> EventTime {
    EventTime(clock::now_ms())
}

#[cfg(test)]
mod tests {
    use loopwarden_guard::{Client, Decision};
    use loopwarden_log::embedded::EmbeddedOptions;
    use loopwarden_state::{RocksOptions, RocksStore, StoreOwner};
    use serde_json::value::RawValue;

    use super::*;

    /// No lane reads this log: a verdict never comes.
    #[tokio::test]
    async fn a_verdict_that_does_not_come_in_time_is_no_reason_to_wait() {
        let dir = std::env::temp_dir().join(format!("lw-desk-{}", std::process::id()));
        let owner = StoreOwner { app: "a".to_owned(), instance: "i".to_owned(), cluster: None };
        let store = RocksStore::open(&dir, &RocksOptions::default(), &owner).unwrap();
        let broker = EmbeddedBroker::open(store, EmbeddedOptions::default()).unwrap();
        let desk = Desk::embedded(broker, 1_000, Arc::default()).unwrap();
        for (kind, deadline_ms, stale) in [("tool_call", 10_000, false), ("tool", 20, true)] {
            let event = format!(r#"{{"id":"{kind}","kind":"{kind}","session_id":"s","tool":"t"}}"#);
            let check = Check::new(RawValue::from_string(event).unwrap(), Client::default());
            let answer = desk.answer(Check { deadline_ms, ..check }, Stopwatch::start(), "checks").await.unwrap();
            assert_eq!((answer.decision, answer.state.stale), (Decision::Allow, stale), "{kind}");
            assert!(stale || answer.recorded);
        }
        drop(desk);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
