//! Calls without an id: a result is paired with the oldest open call of its agent, tool and arguments.

use loopwarden_core::identity::{Hash128, base32, hash_parts};

use crate::{table::lru::LruMap, table::matching::CallKey};

/// A call that is open for longer has no result any more; as the policy's default of `open_call_ms`. Milliseconds.
pub(crate) const OPEN_MS_MAX: i64 = 600_000;
/// Agents whose open calls are remembered; beyond them those that were silent longest are forgotten.
const AGENTS_MAX: usize = 16_384;
/// Open calls of one agent; the oldest leaves.
const OPEN_MAX: usize = 64;

/// Open calls that came without an id, by agent.
#[derive(Debug)]
pub(crate) struct OpenCalls {
    agents: LruMap<String, Vec<Open>>,
}

#[derive(Debug)]
struct Open {
    tool: String,
    identity: Hash128,
    call_id: String,
    at_ms: i64,
}

impl Default for OpenCalls {
    fn default() -> Self {
        Self { agents: LruMap::new(AGENTS_MAX) }
    }
}

impl OpenCalls {
    /// A call begins. Its made-up id: the same for the same event.
    pub(crate) fn open(&mut self, agent: &str, event_id: &str, call: CallKey<'_>, now_ms: i64) -> String {
        let call_id = format!("lw-{}", base32(&hash_parts(&[agent, "\n", event_id]).hash128().0.to_be_bytes()));
        let open = self.agents.touch(agent, now_ms);
        open.retain(|open| now_ms.saturating_sub(open.at_ms) <= OPEN_MS_MAX);
        if open.iter().any(|open| open.call_id == call_id) {
            return call_id;
        }
        if open.len() >= OPEN_MAX {
            open.remove(0);
        }
        open.push(Open { tool: call.tool.to_owned(), identity: call.identity, call_id: call_id.clone(), at_ms: now_ms });
        call_id
    }

    /// A result came: the id of its call. `identity`: none where the result does not repeat the arguments.
    pub(crate) fn close(&mut self, agent: &str, tool: &str, identity: Option<Hash128>, now_ms: i64) -> Option<String> {
        let open = self.agents.get_mut(agent)?;
        open.retain(|open| now_ms.saturating_sub(open.at_ms) <= OPEN_MS_MAX);
        let is_of = |open: &Open| open.tool == tool && identity.is_none_or(|identity| identity == open.identity);
        let at = open.iter().position(is_of)?;
        Some(open.remove(at).call_id)
    }

    pub(crate) fn sweep(&mut self, now_ms: i64) {
        self.agents.forget_before(now_ms.saturating_sub(OPEN_MS_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Hash128 = Hash128(1);
    const Y: Hash128 = Hash128(2);

    const fn call(identity: Hash128) -> CallKey<'static> {
        CallKey { tool: "t", identity }
    }

    #[test]
    fn equal_calls_are_paired_first_in_first_out() {
        let mut calls = OpenCalls::default();
        let first = calls.open("a", "1", call(X), 0);
        let second = calls.open("a", "2", call(X), 0);
        let other = calls.open("a", "3", call(Y), 0);
        assert_ne!(first, second);
        assert_eq!(calls.open("a", "1", call(X), 0), first, "the same event again");
        assert_eq!(calls.close("a", "t", Some(Y), 1).as_deref(), Some(&*other));
        assert_eq!(calls.close("b", "t", Some(X), 1), None);
        assert_eq!(calls.close("a", "u", Some(X), 1), None);
        assert_eq!(calls.close("a", "t", Some(X), 1).as_deref(), Some(&*first));
        assert_eq!(calls.close("a", "t", None, 1).as_deref(), Some(&*second), "a result without arguments");
        assert_eq!(calls.close("a", "t", None, 1), None);
    }

    #[test]
    fn a_call_that_never_returns_is_forgotten() {
        let mut calls = OpenCalls::default();
        calls.open("a", "1", call(X), 0);
        assert_eq!(calls.close("a", "t", Some(X), OPEN_MS_MAX + 1), None);
        for number in 0..1_000 {
            calls.open("a", &number.to_string(), call(X), 0);
        }
        assert_eq!(calls.agents.get("a").unwrap().len(), OPEN_MAX);
        calls.sweep(OPEN_MS_MAX + 1);
        assert_eq!(calls.agents.len(), 0);
    }
}
