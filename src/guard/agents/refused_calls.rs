//! Calls that were refused: an agent may report its own failure of such a call, which is no second one.

use loopwarden_core::identity::Hash128;

use crate::{table::lru::LruMap, table::matching::CallKey};

/// How long an echo is expected. Milliseconds.
pub(crate) const ECHO_MS: i64 = 60_000;
/// Agents whose refused calls are remembered; beyond them those that were silent longest are forgotten.
const AGENTS_MAX: usize = 16_384;
/// Refused calls of one agent; the oldest leaves.
const REFUSED_MAX: usize = 64;

/// Refused calls of the last minute, by agent.
#[derive(Debug)]
pub(crate) struct RefusedCalls {
    agents: LruMap<String, Vec<Refused>>,
}

/// A call that has ended, as its result names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedCall<'a> {
    pub(crate) call_id: Option<&'a str>,
    pub(crate) tool: Option<&'a str>,
    /// None where arguments were not repeated.
    pub(crate) identity: Option<Hash128>,
}

#[derive(Debug)]
struct Refused {
    call_id: Option<String>,
    tool: String,
    identity: Hash128,
    at_ms: i64,
}

impl Default for RefusedCalls {
    fn default() -> Self {
        Self { agents: LruMap::new(AGENTS_MAX) }
    }
}

impl RefusedCalls {
    /// Notes a call that was refused now.
    pub(crate) fn add(&mut self, agent: &str, call_id: Option<&str>, call: CallKey<'_>, now_ms: i64) {
        let refused = self.agents.touch(agent, now_ms);
        refused.retain(|refused| now_ms.saturating_sub(refused.at_ms) <= ECHO_MS);
        if refused.len() >= REFUSED_MAX {
            refused.remove(0);
        }
        refused.push(Refused {
            call_id: call_id.map(str::to_owned),
            tool: call.tool.to_owned(),
            identity: call.identity,
            at_ms: now_ms,
        });
    }

    /// Whether a result is that of a refused call; each is taken once.
    pub(crate) fn take(&mut self, agent: &str, ended: EndedCall<'_>, now_ms: i64) -> bool {
        let Some(refused) = self.agents.get_mut(agent) else { return false };
        refused.retain(|refused| now_ms.saturating_sub(refused.at_ms) <= ECHO_MS);
        let is_of = |refused: &Refused| match (ended.call_id, refused.call_id.as_deref()) {
            (Some(call_id), Some(own)) => call_id == own,
            // One of the two has no id: tool and arguments decide, where both are there.
            _ => ended.tool == Some(&refused.tool) && ended.identity == Some(refused.identity),
        };
        let at = refused.iter().position(is_of);
        at.map(|at| refused.remove(at)).is_some()
    }

    pub(crate) fn sweep(&mut self, now_ms: i64) {
        self.agents.forget_before(now_ms.saturating_sub(ECHO_MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Hash128 = Hash128(1);

    fn ended<'a>(call_id: Option<&'a str>, tool: Option<&'a str>, identity: Option<Hash128>) -> EndedCall<'a> {
        EndedCall { call_id, tool, identity }
    }

    #[test]
    fn the_echo_of_a_refused_call_is_taken_once() {
        let mut calls = RefusedCalls::default();
        calls.add("a", Some("1"), CallKey { tool: "t", identity: X }, 0);
        calls.add("a", None, CallKey { tool: "t", identity: X }, 0);
        assert!(!calls.take("b", ended(Some("1"), None, None), 1));
        assert!(calls.take("a", ended(Some("1"), None, None), 1));
        assert!(!calls.take("a", ended(Some("1"), None, None), 1));
        assert!(!calls.take("a", ended(None, Some("t"), None), 1), "without arguments nobody knows");
        assert!(calls.take("a", ended(Some("9"), Some("t"), Some(X)), 1));
        assert!(!calls.take("a", ended(None, Some("t"), Some(X)), 1));
    }

    #[test]
    fn after_a_minute_a_result_is_one_again() {
        let mut calls = RefusedCalls::default();
        calls.add("a", Some("1"), CallKey { tool: "t", identity: X }, 0);
        assert!(!calls.take("a", ended(Some("1"), None, None), ECHO_MS + 1));
        calls.sweep(ECHO_MS + 1);
        assert_eq!(calls.agents.len(), 0);
    }
}
