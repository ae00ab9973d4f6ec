//! Verdicts from the lanes of this process, and events to its log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::BTreeMap, ops::ControlFlow};

use loopwarden_core::engine::SEPARATOR;
use loopwarden_core::event::{EventTime, Stage};
use loopwarden_guard::{Dropped, Guard, Knowledge, Record, Source};
use loopwarden_log::LogError;
use loopwarden_log::embedded::{Append, Awaiting, EmbeddedBroker, EmbeddedReader, StateRow};
use tokio::sync::{Semaphore, watch};

use crate::http::backlog::{Backlog, Sender};
use crate::{clock, http::answer};

/// Appends at once.
pub(in crate::http) const APPENDS: usize = 4;
/// State rows of each kind that are read at the start. Those beyond are looked up when they are asked for.
const ROWS_MAX: usize = 65_536;
/// Rows that are read for one check. A swarm may have thousands.
const FOUND_MAX: usize = 1_024;
/// Stands for the sender of checks without a tenant.
const CHECKS: &str = "checks";
/// Rows that are looked up at once.
pub(in crate::http) const LOOK_UPS: usize = 4;

/// The embedded log, as the guard uses it.
pub(super) struct EmbeddedSink {
    broker: EmbeddedBroker,
    appends: Arc<Semaphore>,
    look_ups: Arc<Semaphore>,
    backlog: Arc<Backlog>,
    /// Next offset of each partition of events that has been committed in this process.
    committed: watch::Receiver<BTreeMap<u32, u64>>,
    dropped: AtomicU64,
}

/// What is known of lanes that are so far behind: their verdicts come in this process.
pub(super) fn knowledge(late_ms: u64) -> Knowledge {
    let late_ms = i64::try_from(late_ms).unwrap_or(i64::MAX);
    Knowledge { as_of: Some(EventTime(clock::now_ms())), late_ms, source: Source::Embedded }
}

impl EmbeddedSink {
    /// Follows the lanes. What is in force already is read under the lock of the guard: what changes meanwhile comes after it.
    pub(super) fn start(broker: EmbeddedBroker, backlog: Arc<Backlog>, guard: &Arc<Mutex<Guard>>) -> Result<Self, LogError> {
        let (tell, committed) = watch::channel(BTreeMap::new());
        let mut held = guard.lock().unwrap_or_else(PoisonError::into_inner);
        let follower = Arc::clone(guard);
        broker.on_committed(move |committed| {
            let now = EventTime(clock::now_ms());
            if !committed.rows.is_empty() {
                let mut guard = follower.lock().unwrap_or_else(PoisonError::into_inner);
                for (key, value) in committed.rows {
                    guard.row(key, value.as_deref(), now);
                }
            }
            let of_events = committed.offsets.iter().filter(|(task, _)| task.stage == Stage::Session);
            let offsets: Vec<(u32, u64)> = of_events.map(|(task, next)| (task.partition, next.0)).collect();
            tell.send_modify(|known| known.extend(offsets));
        });
        let now = EventTime(clock::now_ms());
        for kind in ["stop", "group", "agent", "swarm", "fleet"] {
            let prefix = format!("{kind}{SEPARATOR}");
            let mut rows = 0_usize;
            broker.reader().visit_rows(prefix.as_bytes(), &mut |key, value| {
                rows += 1;
                if rows <= ROWS_MAX {
                    held.row(key, Some(value), now);
                } else {
                    held.row_was_not_read(key);
                }
                ControlFlow::Continue(())
            })?;
        }
        drop(held);
        let (appends, look_ups) = (Arc::new(Semaphore::new(APPENDS)), Arc::new(Semaphore::new(LOOK_UPS)));
        Ok(Self { broker, appends, look_ups, backlog, committed, dropped: AtomicU64::new(0) })
    }

    /// All rows whose keys begin so; none where there are too many, or the store does not answer.
    pub(super) async fn look_up(&self, beginnings: Vec<String>) -> Option<Vec<StateRow>> {
        let reader = self.broker.reader();
        answer::blocking(&self.look_ups, move || rows_of(&reader, &beginnings)).await.ok()?
    }

    /// Lanes commit at once as long as this lives.
    pub(super) fn hurry(&self) -> Awaiting {
        self.broker.await_commits()
    }

    /// How far behind verdicts about a session are. Milliseconds.
    pub(super) fn late_ms(&self, session_id: &str) -> u64 {
        self.backlog.late_ms(session_id)
    }

    /// How far behind any verdict is. Milliseconds.
    pub(super) fn longest_ms(&self) -> u64 {
        self.backlog.longest_ms()
    }

    /// Appends events of an agent of a tenant, all or none: where they are. They are durable with the next sync, which nobody waits for.
    /// Where too many of them wait to be judged, none is taken.
    pub(super) async fn record(&self, tenant: &str, events: Vec<Record>) -> Result<Vec<(u32, u64)>, Dropped> {
        let (broker, count) = (self.broker.clone(), events.len() as u64);
        let sender = Sender { tenant, peer: CHECKS };
        let Ok(admitted) = self.backlog.admit(events.iter().map(|event| (event.session_id.as_str(), sender))) else {
            self.dropped.fetch_add(count, Ordering::Relaxed);
            return Err(Dropped::Unavailable);
        };
        let appended = answer::blocking(&self.appends, move || {
            let timestamp_ms = clock::now_ms();
            let append = |record: &Record| -> (Vec<u8>, Vec<u8>) {
                (record.session_id.clone().into_bytes(), record.event.clone().into_bytes())
            };
            let owned: Vec<(Vec<u8>, Vec<u8>)> = events.iter().map(append).collect();
            let appends: Vec<Append<'_>> =
                owned.iter().map(|(key, value)| Append { key, value, headers: Vec::new(), timestamp_ms }).collect();
            let (places, _) = broker.append_unsynced(&appends)?;
            drop(admitted.appended(&places));
            Ok::<_, LogError>(places)
        });
        let Ok(Ok(places)) = appended.await else {
            self.dropped.fetch_add(count, Ordering::Relaxed);
            return Err(Dropped::Unavailable);
        };
        Ok(places)
    }

    /// Events that the log did not take.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until the lanes have decided about events, and the guard knows it.
    pub(super) async fn settled(&self, places: &[(u32, u64)]) {
        let mut committed = self.committed.clone();
        let is_behind =
            |known: &BTreeMap<u32, u64>, (partition, offset): &(u32, u64)| known.get(partition).is_none_or(|next| next <= offset);
        // An error: the log is closing, and nothing more comes.
        let _ = committed.wait_for(|known| !places.iter().any(|place| is_behind(known, place))).await;
    }
}

fn rows_of(reader: &EmbeddedReader, beginnings: &[String]) -> Option<Vec<StateRow>> {
    let mut rows = Vec::new();
    for beginning in beginnings {
        let visited = reader.visit_rows(beginning.as_bytes(), &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            if rows.len() > FOUND_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        visited.map_err(|error| answer::note_unread(&error)).ok()?;
    }
    (rows.len() <= FOUND_MAX).then_some(rows)
}
