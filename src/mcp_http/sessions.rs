//! The calls of each session. Two sessions never share theirs: what one of them does is not counted for another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use loopwarden_mcp::Calls;

/// Sessions that are remembered. Beyond them the one that has been idle for longest is forgotten, and begins anew should it come back.
const SESSIONS_MAX: usize = 1_000;
/// Longest id that is remembered. Bytes.
const ID_BYTES_MAX: usize = 1_024;

/// Sessions by their ids.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Held>);

#[derive(Default)]
struct Held {
    sessions: BTreeMap<Vec<u8>, Session>,
    uses: u64,
    forgotten: u64,
}

struct Session {
    calls: Arc<Calls>,
    /// Number of its last use.
    used: u64,
}

impl Sessions {
    /// The calls of a session; new ones where it is not known, which [`Self::keep`] keeps.
    pub(crate) fn of(&self, id: &[u8], new: impl FnOnce() -> Calls) -> Arc<Calls> {
        let mut held = self.held();
        held.uses += 1;
        let uses = held.uses;
        match held.sessions.get_mut(id) {
            Some(session) => {
                session.used = uses;
                Arc::clone(&session.calls)
            }
            None => Arc::new(new()),
        }
    }

    /// Remembers a session that its server knows: ids that somebody made up push out nobody's. How many were ever forgotten for lack of
    /// room, where this made one more.
    pub(crate) fn keep(&self, id: &[u8], calls: &Arc<Calls>) -> Option<u64> {
        let mut held = self.held();
        if id.len() > ID_BYTES_MAX || held.sessions.contains_key(id) {
            return None;
        }
        let used = held.uses;
        held.sessions.insert(id.to_vec(), Session { calls: Arc::clone(calls), used });
        if held.sessions.len() <= SESSIONS_MAX {
            return None;
        }
        // One whose request is under way is not idle.
        let idle = held.sessions.iter().filter(|(_, session)| Arc::strong_count(&session.calls) == 1);
        let oldest = idle.min_by_key(|(_, session)| session.used).map(|(id, _)| id.clone())?;
        held.sessions.remove(&oldest);
        held.forgotten += 1;
        Some(held.forgotten)
    }

    /// Forgets a session that has ended.
    pub(crate) fn end(&self, id: &[u8]) {
        self.held().sessions.remove(id);
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loopwarden_mcp::Options;

    use super::*;

    fn new() -> Calls {
        loopwarden_mcp::calls(&Options { address: Some("127.0.0.1:1".to_owned()), ..Options::default() }, Duration::ZERO)
    }

    #[test]
    fn beyond_the_bound_the_one_that_is_idle_for_longest_leaves_and_none_shares() {
        let sessions = Sessions::default();
        let id = |number: usize| number.to_string().into_bytes();
        let used = |number: usize| {
            let calls = sessions.of(&id(number), new);
            let forgotten = sessions.keep(&id(number), &calls);
            (calls, forgotten)
        };
        let (first, none) = used(0);
        assert_eq!(none, None);
        let second = Arc::downgrade(&used(1).0);
        (2..SESSIONS_MAX).for_each(|number| assert_eq!(used(number).1, None));
        // The first is in use, the second has been idle for longest.
        let (another, forgotten) = used(SESSIONS_MAX);
        assert_eq!((forgotten, second.upgrade().is_none()), (Some(1), true));
        assert!(Arc::ptr_eq(&used(0).0, &first) && !Arc::ptr_eq(&another, &first));
        assert!(!Arc::ptr_eq(&used(1).0, &first), "it begins anew");
        assert_eq!(sessions.held().sessions.len(), SESSIONS_MAX);
        sessions.end(&id(0));
        assert!(!Arc::ptr_eq(&used(0).0, &first));
    }
}
