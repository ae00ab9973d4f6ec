//! Events to be.

use loopwarden_core::event::{EventTime, Reason, Rejected, json as source};
use loopwarden_core::limits::{NAME_CHARS_MAX, RECORD_BYTES_MAX_DEFAULT};
use serde_json::{Map, Value, json};

use crate::transcript::sink::{Made, Sink};
use crate::transcript::text;

/// The shell of Gemini CLI and Qwen Code, whose result tells its exit code in the text.
const FUNCTION_SHELL: &str = "run_shell_command";

/// The session and agent of all events of a log.
#[derive(Debug, Clone, Default)]
pub(super) struct Whose {
    pub(super) session_id: String,
    /// `None` is the main agent.
    pub(super) agent_id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) framework: &'static str,
}

/// The result of a call.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) text: Option<Value>,
    /// As in an event; empty = none.
    pub(super) outcome: &'static str,
    pub(super) error: Option<String>,
    pub(super) exit_code: Option<i64>,
    /// The log has only a part of the text.
    pub(super) is_truncated: bool,
}

impl Answer {
    /// The text of a result. That of a failed call is its error, too.
    pub(super) fn of(said: &str, outcome: &'static str, exit_code: Option<i64>) -> Self {
        let error = matches!(outcome, "error" | "timeout").then(|| said.to_owned());
        Self { text: Some(text::shortened(said).into()), outcome, error, exit_code, is_truncated: false }
    }

    /// A function's response as Gemini CLI and Qwen Code write it, with the status of the call; empty = not given.
    pub(super) fn of_function(response: &Value, tool: &str, status: &str) -> Self {
        let (said, is_error) = text::response(response);
        let (said, exit_code) = if tool == FUNCTION_SHELL { text::of_shell(&said) } else { (said, None) };
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
pub(super) struct Spent {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cost_usd: f64,
}

impl Spent {
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_usd: self.cost_usd + other.cost_usd,
        }
    }
}

/// An event without its kind.
pub(super) struct Draft<'a> {
    pub(super) whose: &'a Whose,
    /// Unique in the session.
    pub(super) id: String,
    pub(super) time: Option<EventTime>,
    /// Number of the model's reply.
    pub(super) turn: Option<u64>,
    pub(super) spent: Option<Spent>,
}

impl Draft<'_> {
    /// A call is requested.
    pub(super) fn call(&self, tool: &str, call_id: &str, args: Value, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut fields = known(json!({ "tool": tool, "call_id": call_id }));
        fields.extend((!args.is_null()).then(|| ("args".to_owned(), args)));
        self.send("tool_call", fields, sink)
    }

    /// A call came back.
    pub(super) fn result(&self, tool: Option<&str>, call_id: &str, answer: Answer, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut fields = answer.fields();
        fields.extend(known(json!({ "tool": tool, "call_id": call_id })));
        self.send("tool_result", fields, sink)
    }

    /// A call and its result in one.
    pub(super) fn tool(&self, tool: &str, args: Value, answer: Answer, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut fields = answer.fields();
        fields.extend([("tool".to_owned(), tool.into()), ("args".to_owned(), args)]);
        self.send("tool", fields, sink)
    }

    /// A message. `is_final`: the agent says that it is done.
    pub(super) fn message(&self, role: &str, said: &str, is_final: bool, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let fields = json!({ "role": role, "text": text::shortened(said), "final": is_final.then_some(true) });
        self.send("message", known(fields), sink)
    }

    /// Completes the fields of a kind and hands the event over.
    fn send(&self, kind: &'static str, mut fields: Map<String, Value>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let Whose { session_id, agent_id, model, framework } = self.whose;
        let usage = self.spent.map(|spent| {
            let cost = (spent.cost_usd > 0.0).then(|| (spent.cost_usd * 1e6).round() / 1e6);
            known(json!({ "input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens, "cost_usd": cost }))
        });
        fields.extend(known(json!({
            "id": self.id,
            "kind": kind,
            "session_id": session_id,
            "agent": known(json!({ "framework": framework, "id": agent_id, "model": model })),
            "time": self.time.map(EventTime::to_rfc3339),
            "turn": self.turn,
            "usage": usage,
        })));
        for name in ["id", "session_id", "tool", "call_id"] {
            let value = fields.get(name).and_then(Value::as_str).unwrap_or("-");
            if value.is_empty() || value.chars().count() > NAME_CHARS_MAX || value.chars().any(char::is_control) {
                return Err(Rejected::at(Reason::BadValue, name));
            }
        }
        let json = Value::Object(fields).to_string();
        if json.len() > RECORD_BYTES_MAX_DEFAULT {
            return Err(Rejected::whole(Reason::TooLarge));
        }
        if source::faults(&json).is_too_deep {
            return Err(Rejected::whole(Reason::TooDeep));
        }
        *sink.tally.events.entry(kind).or_default() += 1;
        sink.out.push(Made { json, session_id: session_id.clone(), time: self.time });
        Ok(())
    }
}

impl Answer {
    fn fields(self) -> Map<String, Value> {
        let error = known(json!({ "message": self.error.as_deref().map(text::shortened), "exit_code": self.exit_code }));
        known(json!({
            "result": self.text,
            "truncated": self.is_truncated.then_some(true),
            "outcome": Some(self.outcome).filter(|outcome| !outcome.is_empty()),
            "error": Some(error).filter(|error| !error.is_empty()),
        }))
    }
}

/// The fields of an object that are not null.
fn known(object: Value) -> Map<String, Value> {
    let Value::Object(mut fields) = object else { return Map::new() };
    fields.retain(|_, value| !value.is_null());
    fields
}
