//! Hooks of coding agents: what an agent reports becomes a native event, and an answer of the guard becomes what the agent reads.
//!
//! An agent hands one JSON object to its hook before and after each call. [`read`] makes an event of it, and finds whether the agent
//! waits for a decision. [`write()`] puts the decision into the words of that agent. What cannot be read is answered with "no opinion":
//! a guard that does not understand stops nobody.

mod contract;
mod message;
mod native;
mod object;
#[cfg(test)]
mod recorded;
pub(crate) mod shape;

pub(crate) use contract::{AFTER, EVENT, Say};
pub use contract::{Hook, HookEvent};
use loopwarden_guard::Answer;
pub(crate) use message::{Call, HookMessage, Outcome, Value, What, message, time};
pub(crate) use object::{Object, text};

use crate::Agent;

/// Longest body of a hook that is read. Bytes. An edit of a large file is a few hundred kilobytes.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What every hook program ends with, whatever happens: some agents refuse the call on any other.
pub const EXIT_CODE: u8 = 0;

/// Reads what an agent told its hook. `hook` names the event for agents whose bodies do not (Copilot's first dialect): their hook is
/// installed per event. `fresh` is a number that was never given before: it tells two equal calls apart where the agent gives neither
/// id nor time.
///
/// Whatever cannot be understood is heard as nothing, and is answered with no opinion.
#[must_use]
pub fn read(agent: &'static Agent, body: &[u8], hook: Option<&str>, fresh: u64) -> HookEvent {
    heard(agent, body, hook, fresh).unwrap_or_else(|| HookEvent::nothing(agent.name))
}

fn heard(agent: &'static Agent, body: &[u8], hook: Option<&str>, fresh: u64) -> Option<HookEvent> {
    let contract = agent.hook.as_ref()?;
    let body = body.get(..body.len().min(BODY_BYTES_MAX + 1)).filter(|body| body.len() <= BODY_BYTES_MAX)?;
    let object = Object::read(loopwarden_core::event::json::text(body)?)?;
    let named = object.text_of(contract.event);
    let is_named = named.is_some();
    let hook = named.as_deref().or(hook).unwrap_or_default();
    let message = (contract.read)(hook, &object)?;
    // Whoever was refused already reads nothing more about it.
    let asks = match &message.what {
        What::Before(_) => true,
        What::After(_, outcome) => outcome.word != "denied",
        _ => false,
    };
    Some(HookEvent {
        agent: agent.name,
        event: Some(native::event(&message, agent.name, fresh)?),
        asks,
        can: contract.can,
        hook: hook.to_owned(),
        is_before: matches!(message.what, What::Before(_)),
        is_nested: is_named,
    })
}

/// The answer as the agent reads it. Empty: no opinion.
#[must_use]
pub fn write(agent: &Agent, heard: &HookEvent, answer: Option<&Answer>) -> Vec<u8> {
    let Some(contract) = &agent.hook else { return Vec::new() };
    let say = answer.filter(|_| heard.asks).and_then(|answer| Say::of(answer, heard.is_before));
    let said = say.and_then(|say| (contract.answer)(heard, &say)).map(|said| said.to_string());
    said.unwrap_or_else(|| contract.no_opinion()).into_bytes()
}
