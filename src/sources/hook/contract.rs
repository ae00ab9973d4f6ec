//! What an agent reports to its hooks, and what it reads of their answers.

use loopwarden_guard::Capabilities;
use serde_json::Value as Json;

use crate::{hook::event::HookEvent, hook::message::HookMessage, hook::object::Object, hook::say::Say};

/// What one agent reports to its hooks, and what it reads.
#[derive(Debug)]
pub struct Hook {
    /// What it can do with an answer.
    pub can: Capabilities,
    /// What its hooks cannot do, for people. One sentence each.
    pub lacks: &'static [&'static str],
    /// Names of the field that has the name of the event.
    pub(crate) event: &'static [&'static str],
    pub(crate) read: for<'a> fn(&str, &Object<'a>) -> Option<HookMessage<'a>>,
    pub(crate) answer: fn(&HookEvent, &Say) -> Option<Json>,
    /// The answer without an opinion; absent where that is an empty body.
    pub(crate) nothing: Option<fn() -> Json>,
}

/// Most agents name the event so.
pub(crate) const EVENT: &[&str] = &["hook_event_name"];
/// What an agent can do that reads a text behind a result.
pub(crate) const AFTER: Capabilities = Capabilities { context_after: true, ..Capabilities::DENY };

impl Hook {
    /// The answer without an opinion; empty where that is an empty body.
    #[must_use]
    pub fn no_opinion(&self) -> String {
        self.nothing.map(|nothing| nothing().to_string()).unwrap_or_default()
    }
}
