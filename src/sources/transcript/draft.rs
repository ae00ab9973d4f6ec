//! What a log has of a call or a message, as a native event.

use loopwarden_core::event::{EventTime, Rejected};
use loopwarden_core::native::{EventAgent, EventError, NativeEvent};
use serde::Serialize;
use serde_json::Value;

use crate::text;
use crate::transcript::sink::{Made, Sink};

/// The session and agent of all events of a log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Whose {
    pub(crate) session_id: String,
    /// `None` is the main agent.
    pub(crate) agent_id: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) framework: &'static str,
}

/// The result of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) text: Option<String>,
    /// As in an event; empty = none.
    pub(crate) outcome: &'static str,
    pub(crate) error: Option<String>,
    pub(crate) exit_code: Option<i64>,
    /// The log has only a part of the text.
    pub(crate) is_truncated: bool,
}

impl Answer {
    /// The text of a result. That of a failed call is its error, too.
    pub(crate) fn of(said: &str, outcome: &'static str, exit_code: Option<i64>) -> Self {
        let error = matches!(outcome, "error" | "timeout").then(|| said.to_owned());
        Self { text: Some(said.to_owned()), outcome, error, exit_code, is_truncated: false }
    }

    /// A function's response as Gemini CLI and Qwen Code write it, with the status of the call; empty = not given.
    pub(crate) fn of_function(response: &Value, tool: &str, status: &str) -> Self {
        let (said, is_error) = text::response(response);
        let (said, exit_code) = if tool == text::FUNCTION_SHELL { text::of_shell(&said) } else { (said, None) };
        let exit_code = exit_code.filter(|code| *code != 0);
        let outcome = match status {
            "cancelled" => "cancelled",
            "error" => "error",
            _ if is_error || exit_code.is_some() => "error",
            _ => "ok",
        };
        Self::of(&said, outcome, exit_code)
    }
}

/// Tokens and cost of a model's reply.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spent {
    /// Those of a cache among them.
    pub(crate) input_tokens: u64,
    /// Input tokens that were read from a cache.
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cost_usd: f64,
}

/// The same as a member of an event.
#[derive(Serialize)]
struct Usage {
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    input_tokens: u64,
    output_tokens: u64,
}

impl Spent {
    fn usage(self) -> Usage {
        let Self { input_tokens, cached_tokens, output_tokens, cost_usd } = self;
        Usage {
            cached_tokens: Some(cached_tokens).filter(|tokens| *tokens > 0),
            cost_usd: (cost_usd > 0.0).then(|| (cost_usd * 1e6).round() / 1e6),
            input_tokens,
            output_tokens,
        }
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_usd: self.cost_usd + other.cost_usd,
        }
    }
}

/// An event without its kind.
pub(crate) struct Draft<'a> {
    pub(crate) whose: &'a Whose,
    /// Unique in the session.
    pub(crate) id: String,
    pub(crate) time: Option<EventTime>,
    /// Number of the model's reply.
    pub(crate) turn: Option<u64>,
    pub(crate) spent: Option<Spent>,
}

impl Draft<'_> {
    pub(crate) fn call(&self, tool: &str, call_id: &str, args: Value, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut event = NativeEvent::default();
        event.put("tool", tool);
        event.put("call_id", call_id);
        event.content("args", args);
        self.send("tool_call", event, sink)
    }

    pub(crate) fn result(&self, tool: Option<&str>, call_id: &str, answer: Answer, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut event = answer.into_event();
        event.put("tool", tool);
        event.put("call_id", call_id);
        self.send("tool_result", event, sink)
    }

    /// A call and its result in one.
    pub(crate) fn tool(&self, tool: &str, args: Value, answer: Answer, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut event = answer.into_event();
        event.put("tool", tool);
        event.content("args", args);
        self.send("tool", event, sink)
    }

    /// A message. `is_final`: the agent says that it is done.
    pub(crate) fn message(&self, role: &str, said: &str, is_final: bool, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut event = NativeEvent::default();
        event.put("role", role);
        event.text(said);
        event.put("final", is_final.then_some(true));
        self.send("message", event, sink)
    }

    /// Completes the members of a kind and hands the event over.
    fn send(&self, kind: &'static str, mut event: NativeEvent<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let Whose { session_id, agent_id, model, framework } = self.whose;
        let (id, model) = (agent_id.as_deref(), model.as_deref());
        let root_id = id.map(|_| session_id.as_str());
        event.put("agent", EventAgent { framework: Some(framework), id, model, root_id, kind: None });
        event.put("time", self.time.map(EventTime::to_rfc3339));
        event.put("turn", self.turn);
        event.put("usage", self.spent.map(Spent::usage));
        let json = event.json(kind, &self.id, session_id)?;
        *sink.tally.events.entry(kind).or_default() += 1;
        sink.out.push(Made { json, session_id: session_id.clone(), time: self.time });
        Ok(())
    }
}

impl Answer {
    fn into_event(self) -> NativeEvent<'static> {
        let mut event = NativeEvent::default();
        event.content("result", self.text);
        event.put("truncated", self.is_truncated.then_some(true));
        event.put("outcome", Some(self.outcome).filter(|outcome| !outcome.is_empty()));
        event.error(&EventError { exit_code: self.exit_code, message: self.error.as_deref(), kind: None });
        event
    }
}
