//! Events of many agents that wait to be sent, in the order in which they came. The room is shared: a tenant may have half of what the
//! others leave, and a session half of what the others leave of that.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwarden_core::shares::Shares;
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
    /// Tenant and session.
    whose: (String, String),
    pub(super) line: String,
}

impl Waiting {
    const fn bytes(&self) -> usize {
        self.line.len() + EVENT_BYTES
    }
}

/// The room of one measure. Events that are being sent still take theirs.
#[derive(Debug)]
struct Allotment {
    max: usize,
    tenants: Shares<String>,
    /// By tenant and session.
    sessions: Shares<(String, String)>,
}

impl Allotment {
    fn of(max: usize) -> Self {
        Self { max, tenants: Shares::default(), sessions: Shares::default() }
    }

    fn has(&self, whose: &(String, String), amount: usize) -> bool {
        let (tenant, session) = (self.tenants.of(&whose.0), self.sessions.of(whose));
        let of_tenant = self.tenants.left_to(&whose.0, self.max) / 2;
        let of_session = of_tenant.saturating_sub(tenant - session) / 2;
        tenant + amount <= of_tenant && session + amount <= of_session
    }

    fn take(&mut self, whose: &(String, String), amount: usize) {
        self.tenants.take(&whose.0, amount);
        self.sessions.take(whose, amount);
    }

    fn give_back(&mut self, whose: &(String, String), amount: usize) {
        self.tenants.give_back(&whose.0, amount);
        self.sessions.give_back(whose, amount);
    }
}

#[derive(Debug)]
struct Inner {
    waiting: VecDeque<Waiting>,
    events: Allotment,
    bytes: Allotment,
}

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

impl Default for Queue {
    fn default() -> Self {
        let inner = Inner { waiting: VecDeque::new(), events: Allotment::of(EVENTS_MAX), bytes: Allotment::of(BYTES_MAX) };
        Self { inner: Mutex::new(inner), arrived: Condvar::new() }
    }
}

impl Queue {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event of a tenant; false: its share is used up.
    pub(super) fn push(&self, tenant: String, record: &Record) -> bool {
        let event = Waiting { whose: (tenant, record.session_id.clone()), line: one_line(&record.event) };
        let bytes = event.bytes();
        let mut inner = self.inner();
        let is_taken = inner.events.has(&event.whose, 1) && inner.bytes.has(&event.whose, bytes);
        if is_taken {
            inner.events.take(&event.whose, 1);
            inner.bytes.take(&event.whose, bytes);
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
            inner.events.give_back(&event.whose, 1);
            inner.bytes.give_back(&event.whose, event.bytes());
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
        for room in [&inner.events, &inner.bytes] {
            assert!(room.tenants.by_most().next().is_none() && room.sessions.by_most().next().is_none());
        }
    }
}
