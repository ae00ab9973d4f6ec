//! Verdicts from the lanes of this process, and events to its log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwarden_core::engine::SEPARATOR;
use loopwarden_core::event::{EventTime, Stage};
use loopwarden_guard::{Dropped, Guard, Record};
use loopwarden_log::LogError;
use loopwarden_log::embedded::{Append, Awaiting, EmbeddedBroker};
use tokio::sync::{Semaphore, watch};

use crate::clock;
use crate::http::answer;

/// Appends at once.
pub(in crate::http) const APPENDS: usize = 4;
/// State rows that are read at the start.
const ROWS_MAX: usize = 65_536;
/// Wait for the sync that covers them.
const SYNC_WAIT: Duration = Duration::from_secs(10);

/// The embedded log, as the guard uses it.
pub(super) struct EmbeddedSink {
    broker: EmbeddedBroker,
    appends: Arc<Semaphore>,
    /// Next offset of each partition of events that has been committed in this process.
    committed: watch::Receiver<BTreeMap<u32, u64>>,
    dropped: AtomicU64,
}

impl EmbeddedSink {
    /// Follows the lanes. What is in force already is read under the lock of the guard: what changes meanwhile comes after it.
    pub(super) fn start(broker: EmbeddedBroker, guard: &Arc<Mutex<Guard>>) -> Result<Self, LogError> {
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
        for kind in ["agent", "swarm", "fleet"] {
            let prefix = format!("{kind}{SEPARATOR}");
            let rows = broker.reader().rows(prefix.as_bytes(), &|_| true, ROWS_MAX, SYNC_WAIT)?;
            for (key, value) in rows {
                held.row(&key, Some(&value), now);
            }
        }
        drop(held);
        Ok(Self { broker, appends: Arc::new(Semaphore::new(APPENDS)), committed, dropped: AtomicU64::new(0) })
    }

    /// Lanes commit at once as long as this lives.
    pub(super) fn hurry(&self) -> Awaiting {
        self.broker.await_commits()
    }

    /// Appends events, all or none: where they are. They are durable with the next sync, which nobody waits for.
    pub(super) async fn record(&self, events: Vec<Record>) -> Result<Vec<(u32, u64)>, Dropped> {
        let (broker, count) = (self.broker.clone(), events.len() as u64);
        let appended = answer::blocking(&self.appends, move || {
            let timestamp_ms = clock::now_ms();
            let append = |record: &Record| -> (Vec<u8>, Vec<u8>) {
                (record.session_id.clone().into_bytes(), record.event.clone().into_bytes())
            };
            let owned: Vec<(Vec<u8>, Vec<u8>)> = events.iter().map(append).collect();
            let appends: Vec<Append<'_>> =
                owned.iter().map(|(key, value)| Append { key, value, headers: Vec::new(), timestamp_ms }).collect();
            broker.append_unsynced(&appends).map(|(places, _)| places)
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
