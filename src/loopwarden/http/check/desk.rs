//! Where checks are answered: the guard, and the way its events take.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwarden_core::event::EventTime;
use loopwarden_guard::{
    Answer, BadCheck, Check, Dropped, Guard, Kept, Knowledge, Opened, Options, Phase, Record, Revision, Source,
};
use loopwarden_log::clock::{Deadline, Stopwatch};
use loopwarden_log::{LogError, embedded::EmbeddedBroker};
use tokio::time::timeout;

use crate::http::check::beside::{BesideSink, Send};
use crate::http::check::embedded::{self, EmbeddedSink};
use crate::{
    clock, http::access::principal::Principal, http::backlog::Backlog, input_quality::InputQuality, telemetry::guard::GuardReport,
};

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
    /// A message of its source came.
    fed: Condvar,
    sink: Sink,
    event_bytes_max: usize,
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
        backlog: Arc<Backlog>,
        event_bytes_max: usize,
        quality: Arc<InputQuality>,
    ) -> Result<Self, LogError> {
        let guard = Arc::new(Mutex::new(Guard::new(Options { event_bytes_max, ..Options::default() })));
        let sink = EmbeddedSink::start(broker, backlog, &guard)?;
        Ok(Self { guard, fed: Condvar::new(), sink: Sink::Embedded(sink), event_bytes_max, quality })
    }

    /// Of a process beside an agent. It learns of verdicts by [`Desk::feed`], and hands on events by `send`.
    #[must_use]
    pub fn beside(options: Options, source: Source, send: Send) -> Self {
        let guard = Arc::new(Mutex::new(Guard::new(options)));
        let sink = Sink::Beside(BesideSink::new(source, send));
        Self { guard, fed: Condvar::new(), sink, event_bytes_max: options.event_bytes_max, quality: Arc::default() }
    }

    /// Tells the guard of verdicts.
    pub fn feed(&self, tell: impl FnOnce(&mut Guard, EventTime)) {
        tell(&mut self.guard(), now());
        self.fed.notify_all();
    }

    /// All verdicts that its source had so long ago are known, from the beginning on where `has_all`. The judging behind them lags so many
    /// milliseconds.
    pub fn is_current(&self, age: Duration, late_ms: i64, has_all: bool) {
        if let Sink::Beside(sink) = &self.sink {
            sink.is_current(now().plus_ms(-(age.as_millis() as i64)), late_ms);
        }
        self.feed(|guard, now| guard.is_whole(has_all, now));
    }

    /// Takes over what bound before a restart, unless its source has been read already. Whether anything still does.
    pub fn restore(&self, kept: Kept) -> bool {
        let mut guard = self.guard();
        !self.has_verdicts() && guard.restore(kept, now())
    }

    /// Whether another stop came or went than those at `revision`, within that time.
    pub fn has_stop_since(&self, revision: &Revision, wait: Duration) -> bool {
        let waited = self.fed.wait_timeout_while(self.guard(), wait, |guard| guard.revision().stops == revision.stops);
        waited.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }

    /// What binds, as soon as it may be another than at `revision`; none where that takes longer than `wait`.
    pub fn kept_since(&self, revision: &mut Revision, wait: Duration) -> Option<Kept> {
        let waited = self.fed.wait_timeout_while(self.guard(), wait, |guard| guard.revision() == *revision);
        let (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (std::mem::replace(revision, guard.revision()) != *revision).then(|| guard.kept(now()))
    }

    /// Whether the verdicts in force were known once, as a whole.
    #[must_use]
    pub fn has_verdicts(&self) -> bool {
        match &self.sink {
            Sink::Embedded(_) => true,
            Sink::Beside(sink) => sink.knowledge().as_of.is_some(),
        }
    }

    /// Whether the verdicts that are known are of now.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        match &self.sink {
            Sink::Embedded(sink) => self.guard().is_fresh(embedded::knowledge(sink.longest_ms()), now()),
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
        GuardReport {
            counts: guard.counts(now()),
            is_fresh,
            subjects: guard.held().0 as u64,
            events_sent: None,
            events_rejected: None,
            events_dropped,
        }
    }

    /// Waits until the guard knows what lanes have made of events of its own log. Lanes commit at once meanwhile.
    pub(in crate::http) async fn settled(&self, places: &[(u32, u64)]) {
        if let Sink::Embedded(sink) = &self.sink {
            let _hurry = sink.hurry();
            sink.settled(places).await;
        }
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
    pub(in crate::http) fn quality(&self) -> Arc<InputQuality> {
        Arc::clone(&self.quality)
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A check as whoever asks may ask it.
    ///
    /// # Errors
    /// Its event is none, or not his to tell.
    pub(in crate::http) fn admitted(&self, who: &Principal, check: Check) -> Result<Check, BadCheck> {
        who.admit_check(check, now(), self.event_bytes_max)
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
            self.quality.note(std::iter::once((opened.agent.session_id.as_str(), source)));
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
        let mut answer = self.decide(&mut opened, is_known, deadline).await;
        let events = opened.take_events();
        if !events.is_empty() {
            taken = taken.and(match &self.sink {
                // A disk that does not answer holds up nobody either.
                Sink::Embedded(sink) => match timeout(deadline.left(), sink.record(&opened.agent.tenant, events)).await {
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

    /// Decides; what the table of verdicts has forgotten is looked up first, as far as there is a store and time.
    async fn decide(&self, opened: &mut Opened, is_known: bool, deadline: Deadline) -> Answer {
        if let Sink::Embedded(sink) = &self.sink {
            let missing = self.guard().missing(opened, now());
            if !missing.is_empty()
                && let Ok(Some(rows)) = timeout(deadline.left(), sink.look_up(missing)).await
            {
                let rows = rows.iter().map(|(key, value)| (key.as_slice(), value.as_slice()));
                self.guard().found(opened, rows, now());
            }
        }
        let now = now();
        let knowledge = match &self.sink {
            Sink::Embedded(sink) => {
                let knowledge = embedded::knowledge(sink.late_ms(&opened.agent.session_id));
                Knowledge { as_of: knowledge.as_of.filter(|_| is_known), ..knowledge }
            }
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
    let places = sink.record(&opened.agent.tenant, events).await?;
    sink.settled(&places).await;
    Ok(())
}

fn now() -> EventTime {
    EventTime(clock::now_ms())
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::partition_of;
    use loopwarden_guard::{Client, Decision};
    use loopwarden_log::embedded::{Append, EmbeddedOptions};
    use loopwarden_state::{RocksOptions, RocksStore, StoreOwner};
    use serde_json::value::RawValue;

    use super::*;
    use crate::http::backlog::BacklogLimits;

    /// A desk over a log that no lane reads.
    async fn with_desk<T>(of: &str, left: &[Append<'_>], test: impl AsyncFnOnce(&Desk) -> T) {
        let dir = std::env::temp_dir().join(format!("lw-desk-{of}-{}", std::process::id()));
        let owner = StoreOwner { app: "a".to_owned(), instance: "i".to_owned(), cluster: None };
        let store = RocksStore::open(&dir, &RocksOptions::default(), &owner).unwrap();
        let broker = EmbeddedBroker::open(store, EmbeddedOptions::default()).unwrap();
        broker.append(left).unwrap();
        let backlog = Backlog::open(&broker, BacklogLimits::default()).unwrap();
        let desk = Desk::embedded(broker, backlog, 1_000, Arc::default()).unwrap();
        test(&desk).await;
        drop(desk);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    async fn ask(desk: &Desk, session: &str, kind: &str, deadline_ms: u64) -> Answer {
        let event = format!(r#"{{"id":"{session}-{kind}","kind":"{kind}","session_id":"{session}","tool":"t"}}"#);
        let check = Check::new(RawValue::from_string(event).unwrap(), Client::default());
        desk.answer(Check { deadline_ms, ..check }, Stopwatch::start(), "checks").await.unwrap()
    }

    #[tokio::test]
    async fn a_verdict_that_does_not_come_in_time_is_no_reason_to_wait() {
        with_desk("time", &[], async |desk| {
            for (kind, deadline_ms, stale) in [("tool_call", 10_000, false), ("tool", 20, true)] {
                let answer = ask(desk, "s", kind, deadline_ms).await;
                assert_eq!((answer.decision, answer.state.stale), (Decision::Allow, stale), "{kind}");
                assert!(stale || answer.recorded);
            }
        })
        .await;
    }

    #[tokio::test]
    async fn an_answer_before_a_call_says_how_far_lanes_have_judged() {
        let minute_ago = Append { key: b"late", value: b"{}", headers: Vec::new(), timestamp_ms: clock::now_ms() - 60_000 };
        with_desk("late", &[minute_ago], async |desk| {
            let late = ask(desk, "late", "tool_call", 10_000).await.state;
            assert!(late.stale && late.lag_ms.is_some_and(|lag_ms| (60_000..120_000).contains(&lag_ms)), "{late:?}");
            assert!(late.as_of.is_some(), "{late:?}");
            assert!(!desk.is_fresh(), "its metrics say so too");
            // Of another partition nothing waits.
            let others = (0..).map(|number| format!("s{number}"));
            let mut other = others.filter(|other| partition_of(other.as_bytes(), 8) != partition_of(b"late", 8));
            let fresh = ask(desk, &other.next().unwrap(), "tool_call", 10_000).await.state;
            assert!(!fresh.stale, "{fresh:?}");
        })
        .await;
    }
}
