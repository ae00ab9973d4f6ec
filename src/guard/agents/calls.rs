//! Calls of which something is to come. To one that is open and came without an id, a result belongs: the oldest of its tool and arguments.
//! Of one that was refused, the agent may report a failure of its own, which is no second one.

use loopwarden_core::identity::{Hash128, base32, hash_parts};

use crate::{table::lru::LruMap, table::matching::CallKey};

/// A call that is open for longer has no result any more; as the policy's default of `open_call_ms`. Milliseconds.
pub(crate) const OPEN_MS_MAX: i64 = 600_000;
/// How long the echo of a refused call is expected. Milliseconds.
pub(crate) const ECHO_MS: i64 = 60_000;
/// Agents whose calls are remembered; beyond them those that were silent longest are forgotten.
const AGENTS_MAX: usize = 16_384;
/// Calls of one agent; the oldest leaves.
const CALLS_MAX: usize = 64;

/// Calls by agent, each remembered for so long.
#[derive(Debug)]
pub(crate) struct Calls {
    agents: LruMap<String, Vec<Remembered>>,
    ms_max: i64,
}

#[derive(Debug)]
struct Remembered {
    call_id: Option<String>,
    tool: String,
    identity: Hash128,
    at_ms: i64,
}

/// A call that has ended, as its result names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedCall<'a> {
    pub(crate) call_id: Option<&'a str>,
    pub(crate) tool: Option<&'a str>,
    /// None where arguments were not repeated.
    pub(crate) identity: Option<Hash128>,
}

impl Calls {
    pub(crate) fn remembered_for(ms_max: i64) -> Self {
        Self { agents: LruMap::new(AGENTS_MAX), ms_max }
    }

    /// A call begins that came without an id. Its made-up id: the same for the same event.
    pub(crate) fn open(&mut self, agent: &str, event_id: &str, call: CallKey<'_>, now_ms: i64) -> String {
        let call_id = format!("lw-{}", base32(&hash_parts(&[agent, "\n", event_id]).hash128().0.to_be_bytes()));
        if !self.of(agent, now_ms).iter().any(|known| known.call_id.as_ref() == Some(&call_id)) {
            self.add(agent, Some(&call_id), call, now_ms);
        }
        call_id
    }

    /// Remembers a call of now.
    pub(crate) fn add(&mut self, agent: &str, call_id: Option<&str>, call: CallKey<'_>, now_ms: i64) {
        let known = self.of(agent, now_ms);
        if known.len() >= CALLS_MAX {
            known.remove(0);
        }
        let (call_id, tool) = (call_id.map(str::to_owned), call.tool.to_owned());
        known.push(Remembered { call_id, tool, identity: call.identity, at_ms: now_ms });
    }

    /// A result came without an id: that of its call. `identity`: none where the result does not repeat the arguments.
    pub(crate) fn close(&mut self, agent: &str, tool: &str, identity: Option<Hash128>, now_ms: i64) -> Option<String> {
        let is_of = |known: &Remembered| known.tool == tool && identity.is_none_or(|identity| identity == known.identity);
        self.take(agent, is_of, now_ms)?.call_id
    }

    /// Whether a result is that of a refused call; each is taken once.
    pub(crate) fn take_echoed(&mut self, agent: &str, ended: EndedCall<'_>, now_ms: i64) -> bool {
        let is_of = |known: &Remembered| match (ended.call_id, known.call_id.as_deref()) {
            (Some(call_id), Some(own)) => call_id == own,
            // One of the two has no id: tool and arguments decide, where both are there.
            _ => ended.tool == Some(&known.tool) && ended.identity == Some(known.identity),
        };
        self.take(agent, is_of, now_ms).is_some()
    }

    pub(crate) fn sweep(&mut self, now_ms: i64) {
        self.agents.forget_before(now_ms.saturating_sub(self.ms_max));
    }

    fn of(&mut self, agent: &str, now_ms: i64) -> &mut Vec<Remembered> {
        let known = self.agents.touch(agent, now_ms);
        known.retain(|known| now_ms.saturating_sub(known.at_ms) <= self.ms_max);
        known
    }

    fn take(&mut self, agent: &str, is_meant: impl Fn(&Remembered) -> bool, now_ms: i64) -> Option<Remembered> {
        let known = self.agents.get_mut(agent)?;
        known.retain(|known| now_ms.saturating_sub(known.at_ms) <= self.ms_max);
        let at = known.iter().position(is_meant)?;
        Some(known.remove(at))
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
        let mut calls = Calls::remembered_for(OPEN_MS_MAX);
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
        let mut calls = Calls::remembered_for(OPEN_MS_MAX);
        calls.open("a", "1", call(X), 0);
        assert_eq!(calls.close("a", "t", Some(X), OPEN_MS_MAX + 1), None);
        for number in 0..1_000 {
            calls.open("a", &number.to_string(), call(X), 0);
        }
        assert_eq!(calls.agents.get("a").unwrap().len(), CALLS_MAX);
        calls.sweep(OPEN_MS_MAX + 1);
        assert_eq!(calls.agents.len(), 0);
    }

    fn ended<'a>(call_id: Option<&'a str>, tool: Option<&'a str>, identity: Option<Hash128>) -> EndedCall<'a> {
        EndedCall { call_id, tool, identity }
    }

    #[test]
    fn the_echo_of_a_refused_call_is_taken_once() {
        let mut calls = Calls::remembered_for(ECHO_MS);
        calls.add("a", Some("1"), CallKey { tool: "t", identity: X }, 0);
        calls.add("a", None, CallKey { tool: "t", identity: X }, 0);
        assert!(!calls.take_echoed("b", ended(Some("1"), None, None), 1));
        assert!(calls.take_echoed("a", ended(Some("1"), None, None), 1));
        assert!(!calls.take_echoed("a", ended(Some("1"), None, None), 1));
        assert!(!calls.take_echoed("a", ended(None, Some("t"), None), 1), "without arguments nobody knows");
        assert!(calls.take_echoed("a", ended(Some("9"), Some("t"), Some(X)), 1));
        assert!(!calls.take_echoed("a", ended(None, Some("t"), Some(X)), 1));
    }

    #[test]
    fn after_a_minute_a_result_is_one_again() {
        let mut calls = Calls::remembered_for(ECHO_MS);
        calls.add("a", Some("1"), CallKey { tool: "t", identity: X }, 0);
        assert!(!calls.take_echoed("a", ended(Some("1"), None, None), ECHO_MS + 1));
        calls.sweep(ECHO_MS + 1);
        assert_eq!(calls.agents.len(), 0);
    }
}
