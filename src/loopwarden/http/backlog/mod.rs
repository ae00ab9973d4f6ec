//! What the embedded log has taken and lanes have not judged: since when it waits, and whose it is. An event is judged when both stages have
//! done with it: what the session stage sums up of it waits on, against its sender, for the swarm stage.
//!
//! Verdicts are as late as the oldest event that waits. So how much may wait is bounded in time, by the rate at which lanes judge, and
//! shared between senders: whoever has more than his share is sent away while others still get in. A sender may have half of the room that
//! the others leave. So one that floods has half of it, *n* of them leave a part of *n* + 1, and a sender who has nothing waiting always
//! finds some.

mod pace;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use loopwarden_core::event::{Stage, TaskId, json, partition_of};
use loopwarden_core::shares::Shares;
use loopwarden_log::embedded::{Committed, EmbeddedBroker};
use loopwarden_log::{LogError, clock::Stopwatch};
use tokio::{sync::watch, time::timeout};

use crate::http::backlog::queue::{Entry, Queue};
use crate::{clock, http::backlog::pace::Pace};

/// Nothing waits.
const NOBODY: u64 = u64::MAX;
/// What the clock shows at the start, so that older events have a time too: ten years. Milliseconds.
const ORIGIN_MS: u64 = 315_360_000_000;
/// A sender may always have so many events waiting, until twice of what may wait does beside that of one: a batch of an exporter.
const ALWAYS: usize = 256;
/// Nobody else sent anything for so long: a sender is alone, and what it sends delays nobody but itself. Milliseconds.
const ALONE_AFTER_MS: u64 = 60_000;
/// What a sender that is alone may have waiting, and so the longest that the first event of another one waits for it. Milliseconds.
const ALONE_MS: u64 = 4_000;
/// Events of a task that has stopped wait for ever. They do not count against their senders after so long. Milliseconds.
const COUNTS_MS: u64 = 10_000;
/// Entries of events that wait.
const ENTRIES_MAX: usize = 65_536;
/// How long an answer is held back where more than half of the sender's share waits: who waits for answers sends no faster than lanes judge.
const HOLD_MAX: Duration = Duration::from_secs(1);

/// Bounds of the backlog.
#[derive(Debug, Clone, Copy)]
pub struct BacklogLimits {
    /// Nobody's events are taken in partitions that are further behind. Milliseconds; 0: no bound.
    pub lag_ms_max: u64,
    /// For so long may the events of all senders wait, in shares. Milliseconds; 0: no shares.
    pub share_ms_max: u64,
}

impl Default for BacklogLimits {
    fn default() -> Self {
        Self { lag_ms_max: 10_000, share_ms_max: 1_000 }
    }
}

/// Why events are not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Lanes are so far behind. Milliseconds.
    Behind(u64),
    /// The share of the sender is used up; so many events may it have waiting.
    Share(usize),
}

#[derive(Debug, Default)]
struct Inner {
    sessions: Vec<Queue>,
    sums: Vec<Queue>,
    /// What each sender has waiting; who has nothing is not here.
    senders: Shares<Arc<str>>,
    pace: Pace,
    /// Who sent last, and who was the last other one before; each with when.
    latest: [(Option<Arc<str>>, u64); 2],
}

/// What waits, and whose.
#[derive(Debug)]
pub struct Backlog {
    clock: Stopwatch,
    limits: BacklogLimits,
    /// Since when the oldest event of each partition waits, and the oldest sum of swarms.
    oldest: [Vec<AtomicU64>; 2],
    inner: Mutex<Inner>,
    /// Changes after each commit.
    judged: watch::Sender<()>,
    refused: [AtomicU64; 2],
    /// An event has come since the start. Lanes report what they have judged a moment later.
    has_come: AtomicBool,
}

impl Backlog {
    /// Follows the lanes of a log, from what they have not judged yet. To be called before they start.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn open(broker: &EmbeddedBroker, limits: BacklogLimits) -> Result<Arc<Self>, LogError> {
        let partitions = broker.partitions();
        let none = |count: u32| (0..count).map(|_| AtomicU64::new(NOBODY)).collect();
        let backlog = Arc::new(Self {
            clock: Stopwatch::start(),
            limits,
            oldest: [none(partitions.session), none(partitions.swarm)],
            inner: Mutex::default(),
            judged: watch::channel(()).0,
            refused: Default::default(),
            has_come: AtomicBool::new(false),
        });
        let left_over = |stage: Stage, count: u32| {
            (0..count).map(|partition| backlog.left_over(broker, TaskId { stage, partition })).collect::<Result<_, LogError>>()
        };
        {
            let mut inner = backlog.inner();
            inner.sessions = left_over(Stage::Session, partitions.session)?;
            inner.sums = left_over(Stage::Swarm, partitions.swarm)?;
            backlog.publish(&inner);
        }
        let followed = Arc::clone(&backlog);
        broker.on_committed(move |committed| followed.committed(committed));
        Ok(backlog)
    }

    /// What an earlier process has left.
    fn left_over(&self, broker: &EmbeddedBroker, task: TaskId) -> Result<Queue, LogError> {
        let range = broker.input_range(task);
        let next = broker.committed(task).unwrap_or(range.start).max(range.start);
        let mut queue = Queue::new(next);
        let mut recorded_ms = None;
        broker.reader().events(task, next, range.end, &mut |event| {
            recorded_ms = Some(event.timestamp_ms);
            ControlFlow::Break(())
        })?;
        if let Some(recorded_ms) = recorded_ms {
            let age_ms = clock::now_ms().saturating_sub(recorded_ms).max(0).unsigned_abs();
            queue.push(Entry { end: range.end, since_ms: self.now_ms().saturating_sub(age_ms), sender: None, events: 0 });
        }
        Ok(queue)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        ORIGIN_MS + self.clock.elapsed().as_millis() as u64
    }

    /// Says since when the oldest waits.
    fn publish(&self, inner: &Inner) {
        for (of_stage, queues) in self.oldest.iter().zip([&inner.sessions, &inner.sums]) {
            for (oldest, queue) in of_stage.iter().zip(queues) {
                oldest.store(queue.since_ms().unwrap_or(NOBODY), Ordering::Release);
            }
        }
    }

    fn committed(&self, committed: &Committed<'_>) {
        let now_ms = self.now_ms();
        let mut inner = self.inner();
        let (mut summed, mut judged, mut records) = (Vec::new(), Vec::new(), 0);
        for (task, next) in committed.offsets {
            let is_first = task.stage == Stage::Session;
            let ended = if is_first { &mut summed } else { &mut judged };
            let count = inner.queue(*task).map_or(0, |queue| queue.judge(next.0, |entry| ended.push(entry)));
            records += if is_first { count as usize } else { 0 };
        }
        judged.extend(inner.hand_on(summed, committed.ends, now_ms));
        let (first_ms, second_ms) = (self.oldest_ms(0, now_ms), self.oldest_ms(1, now_ms));
        // The stage that is further behind shows how fast lanes are.
        let done = if second_ms > first_ms { judged.iter().map(|entry| entry.events).sum() } else { records };
        for entry in &judged {
            inner.release(entry.sender.as_ref(), entry.events);
        }
        inner.pace.note(done, first_ms.max(second_ms), now_ms);
        self.publish(&inner);
        drop(inner);
        if !judged.is_empty() {
            self.judged.send_replace(());
        }
    }

    /// For how long the oldest event of any partition of a stage waits. Milliseconds.
    fn oldest_ms(&self, stage: usize, now_ms: u64) -> u64 {
        let since = self.oldest.get(stage).into_iter().flatten().map(|oldest| oldest.load(Ordering::Acquire)).min();
        since.filter(|since| *since != NOBODY).map_or(0, |since| now_ms.saturating_sub(since))
    }

    /// How far behind verdicts about a session are: those of its own partition, and those about swarms. Milliseconds.
    pub fn late_ms(&self, session_id: &str) -> u64 {
        self.late_at(session_id, self.now_ms())
    }

    fn late_at(&self, session_id: &str, now_ms: u64) -> u64 {
        self.own_ms(session_id, now_ms).max(self.oldest_ms(1, now_ms))
    }

    fn own_ms(&self, session_id: &str, now_ms: u64) -> u64 {
        let [sessions, _] = &self.oldest;
        let partition = partition_of(session_id.as_bytes(), sessions.len().max(1) as u32);
        let since = sessions.get(partition as usize).map_or(NOBODY, |oldest| oldest.load(Ordering::Acquire));
        if since == NOBODY { 0 } else { now_ms.saturating_sub(since) }
    }

    /// How far behind the furthest partition is. Milliseconds.
    pub fn longest_ms(&self) -> u64 {
        self.longest_at(self.now_ms())
    }

    fn longest_at(&self, now_ms: u64) -> u64 {
        self.oldest_ms(0, now_ms).max(self.oldest_ms(1, now_ms))
    }

    /// How far behind each partition of each stage is. Milliseconds.
    pub fn each_ms(&self) -> Vec<(Stage, u32, u64)> {
        let now_ms = self.now_ms();
        let of = |(stage, oldest): (Stage, &Vec<AtomicU64>)| -> Vec<(Stage, u32, u64)> {
            let late = oldest.iter().map(|oldest| match oldest.load(Ordering::Acquire) {
                NOBODY => 0,
                since => now_ms.saturating_sub(since),
            });
            (0..).zip(late).map(|(partition, late_ms)| (stage, partition, late_ms)).collect()
        };
        [Stage::Session, Stage::Swarm].into_iter().zip(&self.oldest).flat_map(of).collect()
    }

    /// Events that were sent away: because lanes are behind, because a share was used up.
    pub fn refused(&self) -> [u64; 2] {
        self.refused.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Room for events, each with its session and its sender.
    ///
    /// # Errors
    /// There is none for one of the senders: none of the events is to be taken.
    pub fn admit<'a>(self: &Arc<Self>, events: impl Iterator<Item = (&'a str, Sender<'a>)>) -> Result<Admitted, Full> {
        let now_ms = self.now_ms();
        let mut admitted = Admitted { backlog: Arc::clone(self), since_ms: now_ms, senders: Vec::new(), each: Vec::new() };
        let mut known: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        let mut behind_ms = 0;
        let is_behind = self.is_behind(self.longest_at(now_ms), now_ms);
        let mut last: Option<(Sender<'a>, usize)> = None;
        for (session_id, sender) in events {
            if is_behind {
                behind_ms = behind_ms.max(self.late_at(session_id, now_ms));
            }
            let at = match last {
                Some((last, at)) if last == sender => at,
                _ => *known.entry(sender.name()).or_insert_with_key(|name| {
                    admitted.senders.push((Arc::clone(name), 0));
                    admitted.senders.len() - 1
                }),
            };
            last = Some((sender, at));
            if let Some((_, count)) = admitted.senders.get_mut(at) {
                *count += 1;
            }
            admitted.each.push(at);
        }
        let found = if is_behind && self.is_behind(behind_ms, now_ms) {
            Err(Full::Behind(behind_ms))
        } else {
            self.inner().take(&admitted.senders, &self.limits, self.longest_at(now_ms), now_ms)
        };
        if let Err(full) = found {
            if let Some(count) = self.refused.get(usize::from(matches!(full, Full::Share(_)))) {
                count.fetch_add(admitted.each.len() as u64, Ordering::Relaxed);
            }
            // Nothing was taken, so nothing is to be given back.
            admitted.senders.clear();
            return Err(full);
        }
        Ok(admitted)
    }

    /// Whether that is too long ago. What an earlier process has left counts from the start of this one: nobody could judge it before.
    const fn is_behind(&self, late_ms: u64, now_ms: u64) -> bool {
        let here_ms = now_ms - ORIGIN_MS;
        let late_ms = if late_ms < here_ms { late_ms } else { here_ms };
        self.limits.lag_ms_max > 0 && late_ms > self.limits.lag_ms_max
    }

    /// Whether an event has been taken since the start, judged or not.
    pub fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Relaxed)
    }

    /// Events of nobody who is held to a share are in the log.
    pub fn note(&self, places: &[(u32, u64)]) {
        let now_ms = self.now_ms();
        self.has_come.store(true, Ordering::Relaxed);
        let mut inner = self.inner();
        for (partition, offset) in places {
            if let Some(queue) = inner.sessions.get_mut(*partition as usize) {
                queue.push(Entry { end: offset + 1, since_ms: now_ms, sender: None, events: 0 });
            }
        }
        self.publish(&inner);
    }
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender<'a> {
    /// As an event names it; empty: none.
    pub tenant: &'a str,
    /// What stands for the sender where there is none: the address it comes from.
    pub peer: &'a str,
}

impl Sender<'_> {
    fn name(&self) -> Arc<str> {
        let Self { tenant, peer } = self;
        if tenant.is_empty() { format!("peer {peer}") } else { format!("tenant {tenant}") }.into()
    }
}

impl Inner {
    /// Takes room for what senders send, or says why there is none.
    fn take(&mut self, senders: &[(Arc<str>, usize)], limits: &BacklogLimits, oldest_ms: u64, now_ms: u64) -> Result<(), Full> {
        self.forget(now_ms.saturating_sub(COUNTS_MS));
        if limits.share_ms_max > 0 {
            let is_alone = match senders {
                [(own, _)] => self.is_alone(own, now_ms),
                _ => false,
            };
            let ms_max = if is_alone { ALONE_MS.max(limits.share_ms_max) } else { limits.share_ms_max };
            let room = self.pace.within(ms_max);
            for (name, events) in senders {
                let held = self.senders.of(name);
                let share = self.senders.left_to(name, room) / if is_alone { 1 } else { 2 };
                let fits = held + events <= share && (held == 0 || oldest_ms <= ms_max / 2 || oldest_ms > COUNTS_MS);
                // Where lanes become slower than they were, one that floods has more waiting than there is room for, and that is not to keep
                // others out.
                let is_small = held + events <= ALWAYS && self.senders.beside_most() < 2 * room.max(ALWAYS);
                let is_first = is_alone && held == 0;
                if !(fits || is_small || is_first) {
                    self.pace.is_short();
                    return Err(Full::Share(share.max(ALWAYS)));
                }
            }
        }
        if self.sessions.iter().chain(&self.sums).map(Queue::len).sum::<usize>() >= ENTRIES_MAX {
            return Err(Full::Share(ALWAYS));
        }
        for (name, events) in senders {
            self.senders.take(name, *events);
            self.sent(name, now_ms);
        }
        Ok(())
    }

    /// Whether nobody but this sender has sent anything for a while.
    fn is_alone(&self, own: &Arc<str>, now_ms: u64) -> bool {
        let [last, before] = &self.latest;
        let other = if last.0.as_ref() == Some(own) { before } else { last };
        other.0.is_none() || now_ms.saturating_sub(other.1) > ALONE_AFTER_MS
    }

    /// A sender has sent.
    fn sent(&mut self, own: &Arc<str>, now_ms: u64) {
        let [last, before] = &mut self.latest;
        if last.0.as_ref() != Some(own) {
            *before = std::mem::take(last);
        }
        *last = (Some(Arc::clone(own)), now_ms);
    }

    /// What has waited since before a time counts against nobody any more.
    fn forget(&mut self, before_ms: u64) {
        let mut forgotten = Vec::new();
        for queue in self.sessions.iter_mut().chain(&mut self.sums) {
            queue.forget(before_ms, |sender, events| forgotten.push((sender, events)));
        }
        for (sender, events) in forgotten {
            self.release(sender.as_ref(), events);
        }
    }

    /// Events that the session stage has judged wait for the sums of their commit: all in the input that is furthest behind. Those of
    /// which nothing waits.
    fn hand_on(&mut self, mut events: Vec<Entry>, ends: &[(TaskId, u64)], now_ms: u64) -> Vec<Entry> {
        let since_ms = events.iter().map(|entry| entry.since_ms).min().unwrap_or(now_ms);
        let first_ms = |inner: &mut Self, task| inner.queue(task).and_then(|queue| queue.since_ms()).unwrap_or(NOBODY);
        let slowest = ends.iter().map(|(task, _)| *task).min_by_key(|task| first_ms(self, *task));
        for (task, end) in ends {
            let Some(queue) = self.queue(*task) else { continue };
            queue.push(Entry { end: *end, since_ms, sender: None, events: 0 });
            if slowest == Some(*task) {
                events.retain(|entry| !queue.push(Entry { end: *end, ..entry.clone() }));
            }
        }
        events
    }

    /// The queue of a task.
    fn queue(&mut self, task: TaskId) -> Option<&mut Queue> {
        let queues = match task.stage {
            Stage::Session => &mut self.sessions,
            Stage::Swarm => &mut self.sums,
        };
        queues.get_mut(task.partition as usize)
    }

    /// Gives back the room of so many events.
    fn release(&mut self, sender: Option<&Arc<str>>, events: usize) {
        if let Some(sender) = sender {
            self.senders.give_back(sender, events);
        }
    }
}

/// Room that was taken for events. It is given back with this value, unless they were appended.
#[derive(Debug)]
pub struct Admitted {
    backlog: Arc<Backlog>,
    since_ms: u64,
    senders: Vec<(Arc<str>, usize)>,
    /// Whose each event is: a place in `senders`.
    each: Vec<usize>,
}

impl Admitted {
    /// They are in the log, at these places.
    pub fn appended(mut self, places: &[(u32, u64)]) -> Appended {
        let backlog = Arc::clone(&self.backlog);
        let senders = std::mem::take(&mut self.senders);
        backlog.has_come.store(true, Ordering::Relaxed);
        let mut inner = backlog.inner();
        for ((partition, offset), at) in places.iter().zip(&self.each) {
            let sender = senders.get(*at).map(|(name, _)| name);
            let entry = Entry { end: offset + 1, since_ms: self.since_ms, sender: sender.cloned(), events: 1 };
            let queue = inner.sessions.get_mut(*partition as usize);
            if queue.is_some_and(|queue| !queue.push(entry)) {
                inner.release(sender, 1);
            }
        }
        backlog.publish(&inner);
        drop(inner);
        Appended { backlog, senders }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if self.senders.is_empty() {
            return;
        }
        let mut inner = self.backlog.inner();
        for (sender, events) in &self.senders {
            inner.release(Some(sender), *events);
        }
    }
}

/// Events that were appended.
#[derive(Debug)]
pub struct Appended {
    backlog: Arc<Backlog>,
    senders: Vec<(Arc<str>, usize)>,
}

impl Appended {
    /// Waits for a moment, until no more than half of what may wait is of any of these senders.
    pub async fn settled(self) {
        let Self { backlog, senders } = self;
        if backlog.limits.share_ms_max == 0 {
            return;
        }
        let mut judged = backlog.judged.subscribe();
        let has_room = || {
            let inner = backlog.inner();
            let half = inner.pace.within(backlog.limits.share_ms_max) / 4;
            senders.iter().all(|(name, _)| inner.senders.of(name) <= half.max(ALWAYS))
        };
        let wait = async {
            while !has_room() {
                if judged.changed().await.is_err() {
                    return;
                }
            }
        };
        // Who has waited for so long is answered, and finds out with the next events.
        let _ = timeout(HOLD_MAX, wait).await;
    }
}

/// The tenant that an event names; empty: none.
pub fn tenant_of(event: &[u8]) -> String {
    let text = std::str::from_utf8(event).unwrap_or_default();
    let found = json::fields(text).find(|(name, _)| name == "tenant");
    found.and_then(|(_, tenant)| serde_json::from_str(tenant).ok()).unwrap_or_default()
}
