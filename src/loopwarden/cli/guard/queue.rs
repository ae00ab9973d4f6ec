//! Events of many agents that wait to be sent, in the order in which they came. The room is shared: a tenant may have half of what the
//! others leave, and a session half of what the others leave of that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwarden_guard::Record;

/// Events that wait.
const EVENTS_MAX: usize = 20_000;
/// Bytes of them.
const BYTES_MAX: usize = 32 << 20;
/// What an event takes besides its text. Bytes.
const EVENT_BYTES: usize = 64;

/// An event on one line, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    tenant: String,
    session_id: String,
    pub(super) line: String,
}

impl Waiting {
    const fn size(&self) -> Size {
        Size { events: 1, bytes: self.line.len() + EVENT_BYTES }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Size {
    events: usize,
    bytes: usize,
}

impl Size {
    const MAX: Self = Self { events: EVENTS_MAX, bytes: BYTES_MAX };

    const fn plus(self, other: Self) -> Self {
        Self { events: self.events + other.events, bytes: self.bytes + other.bytes }
    }

    const fn minus(self, other: Self) -> Self {
        Self { events: self.events.saturating_sub(other.events), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    const fn half(self) -> Self {
        Self { events: self.events / 2, bytes: self.bytes / 2 }
    }

    const fn fits(self, room: Self) -> bool {
        self.events <= room.events && self.bytes <= room.bytes
    }
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Waiting>,
    /// Of all, those that are being sent among them.
    all: Size,
    tenants: BTreeMap<String, Size>,
    /// By tenant and session.
    sessions: BTreeMap<(String, String), Size>,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

impl Queue {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event of a tenant; false: its share is used up.
    pub(super) fn push(&self, tenant: String, record: &Record) -> bool {
        let event = Waiting { tenant, session_id: record.session_id.clone(), line: one_line(&record.event) };
        let mut inner = self.inner();
        let is_taken = inner.take(&event);
        if is_taken {
            inner.waiting.push_back(event);
            self.arrived.notify_one();
        }
        is_taken
    }

    /// The next event, waiting at most so long.
    pub(super) fn next(&self, wait: Duration) -> Option<Waiting> {
        let waited = self.arrived.wait_timeout_while(self.inner(), wait, |inner| inner.waiting.is_empty());
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        inner.waiting.pop_front()
    }

    /// Events that were sent, or given up: their room is free.
    pub(super) fn done(&self, events: &[Waiting]) {
        let mut inner = self.inner();
        for event in events {
            inner.give_back(event);
        }
    }
}

impl Inner {
    fn take(&mut self, event: &Waiting) -> bool {
        let of_session = (event.tenant.clone(), event.session_id.clone());
        let tenant = self.tenants.get(&event.tenant).copied().unwrap_or_default();
        let session = self.sessions.get(&of_session).copied().unwrap_or_default();
        let of_tenant = Size::MAX.minus(self.all.minus(tenant)).half();
        let share = of_tenant.minus(tenant.minus(session)).half();
        let size = event.size();
        if !tenant.plus(size).fits(of_tenant) || !session.plus(size).fits(share) {
            return false;
        }
        self.all = self.all.plus(size);
        self.tenants.insert(event.tenant.clone(), tenant.plus(size));
        self.sessions.insert(of_session, session.plus(size));
        true
    }

    fn give_back(&mut self, event: &Waiting) {
        let size = event.size();
        self.all = self.all.minus(size);
        let left = |held: Option<&mut Size>| {
            held.map(|held| {
                *held = held.minus(size);
                *held
            })
        };
        if left(self.tenants.get_mut(&event.tenant)) == Some(Size::default()) {
            self.tenants.remove(&event.tenant);
        }
        let of_session = (event.tenant.clone(), event.session_id.clone());
        if left(self.sessions.get_mut(&of_session)) == Some(Size::default()) {
            self.sessions.remove(&of_session);
        }
    }
}

/// An event on one line: line ends in JSON stand between values only, where a space does as well.
fn one_line(event: &str) -> String {
    event.replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &Queue, tenant: &str, session_id: &str, event: &str) -> bool {
        queue.push(tenant.to_owned(), &Record { session_id: session_id.to_owned(), event: event.to_owned() })
    }

    fn fill(queue: &Queue, tenant: &str, session_id: &str, event: &str) -> usize {
        (0..1_000_000).take_while(|_| push(queue, tenant, session_id, event)).count()
    }

    #[test]
    fn an_event_of_several_lines_is_sent_as_one() {
        assert_eq!(one_line("{\n  \"a\": \"x\\ny\"\r\n}"), "{   \"a\": \"x\\ny\"  }");
    }

    #[test]
    fn neither_a_session_nor_a_tenant_fills_the_queue_for_others() {
        let queue = Queue::default();
        assert_eq!(fill(&queue, "evil", "one", "{}"), EVENTS_MAX / 4);
        assert!(push(&queue, "evil", "another", "{}"), "a session of the same tenant");
        let sessions: Vec<String> = (0..EVENTS_MAX).map(|number| format!("made-up-{number}")).collect();
        let more = sessions.iter().filter(|session| push(&queue, "evil", session, "{}")).count();
        assert!(EVENTS_MAX / 4 + 1 + more <= EVENTS_MAX / 2, "{more}");
        assert_eq!(fill(&queue, "good", "its own", "{}"), (EVENTS_MAX / 2 + 1) / 4);
    }

    #[test]
    fn large_events_count_by_their_bytes() {
        let queue = Queue::default();
        let large = "x".repeat(1 << 20);
        assert_eq!(fill(&queue, "", "one", &large), 7);
        assert!(push(&queue, "", "another", &large) && push(&queue, "acme", "one", &large));
    }

    #[test]
    fn what_was_sent_makes_room_and_leaves_nothing_behind() {
        let queue = Queue::default();
        assert!(fill(&queue, "a", "s", "{}") > 0 && !push(&queue, "a", "s", "{}"));
        let mut sent = Vec::new();
        while let Some(event) = queue.next(Duration::ZERO) {
            sent.push(event);
        }
        assert!(!push(&queue, "a", "s", "{}"), "it is under way");
        queue.done(&sent);
        assert!(push(&queue, "a", "s", "{}"));
        queue.done(&[queue.next(Duration::ZERO).unwrap()]);
        let inner = queue.inner();
        assert!(inner.tenants.is_empty() && inner.sessions.is_empty() && inner.all == Size::default());
    }
}
