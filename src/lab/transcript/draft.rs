//! An event in the making.

use loopwarden_core::event::{EventTime, Reason, Rejected, json as source};
use loopwarden_core::limits::{NAME_CHARS_MAX, RECORD_BYTES_MAX_DEFAULT};
use serde_json::{Map, Value};

use crate::transcript::{Made, Sink, text};

/// What all events of a log share.
#[derive(Debug, Clone, Default)]
pub(super) struct Whose {
    pub(super) session_id: String,
    /// The agent, where it is not the main one.
    pub(super) agent_id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) framework: &'static str,
}

/// How a call came back.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) text: Option<Value>,
    /// A word of the wire.
    pub(super) outcome: &'static str,
    pub(super) error: Option<String>,
    pub(super) exit_code: Option<i64>,
    /// The log has only a part of the text.
    pub(super) is_cut: bool,
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
    fn fields(&self, kind: &str) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        set("id", self.id.as_str().into());
        set("kind", kind.into());
        set("session_id", self.whose.session_id.as_str().into());
        let agent = [
            Some(("framework", self.whose.framework)),
            self.whose.agent_id.as_deref().map(|id| ("id", id)),
            self.whose.model.as_deref().map(|model| ("model", model)),
        ];
        set("agent", object(agent.into_iter().flatten().map(|(name, value)| (name, Value::from(value)))));
        if let Some(time) = self.time {
            set("time", time.to_rfc3339().into());
        }
        if let Some(turn) = self.turn {
            set("turn", turn.into());
        }
        if let Some(spent) = self.spent {
            let cost = (spent.cost_usd > 0.0).then(|| ("cost_usd", Value::from((spent.cost_usd * 1e6).round() / 1e6)));
            let tokens = [("input_tokens", spent.input_tokens.into()), ("output_tokens", spent.output_tokens.into())];
            set("usage", object(tokens.into_iter().chain(cost)));
        }
        fields
    }

    /// A call is requested.
    pub(super) fn call(&self, tool: &str, call_id: &str, args: Value, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut fields = self.fields("tool_call");
        fields.insert("tool".to_owned(), tool.into());
        fields.insert("call_id".to_owned(), call_id.into());
        if !args.is_null() {
            fields.insert("args".to_owned(), args);
        }
        self.made("tool_call", fields, sink)
    }

    /// A call came back.
    pub(super) fn result(&self, tool: Option<&str>, call_id: &str, answer: Answer, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut fields = self.fields("tool_result");
        if let Some(tool) = tool {
            fields.insert("tool".to_owned(), tool.into());
        }
        fields.insert("call_id".to_owned(), call_id.into());
        answer.set(&mut fields);
        self.made("tool_result", fields, sink)
    }

    /// A call and its answer in one.
    pub(super) fn tool(&self, tool: &str, args: Value, answer: Answer, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut fields = self.fields("tool");
        fields.insert("tool".to_owned(), tool.into());
        fields.insert("args".to_owned(), args);
        answer.set(&mut fields);
        self.made("tool", fields, sink)
    }

    /// A message. `is_final`: the agent says that it is done.
    pub(super) fn message(&self, role: &str, text: &str, is_final: bool, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let mut fields = self.fields("message");
        fields.insert("role".to_owned(), role.into());
        fields.insert("text".to_owned(), text::shortened(text).into());
        if is_final {
            fields.insert("final".to_owned(), true.into());
        }
        self.made("message", fields, sink)
    }

    fn made(&self, kind: &'static str, fields: Map<String, Value>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
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
        sink.out.push(Made { json, session_id: self.whose.session_id.clone(), time: self.time });
        Ok(())
    }
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, Value)>) -> Value {
    Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect())
}

impl Answer {
    fn set(self, fields: &mut Map<String, Value>) {
        if let Some(text) = self.text {
            fields.insert("result".to_owned(), text);
        }
        if self.is_cut {
            fields.insert("truncated".to_owned(), true.into());
        }
        if !self.outcome.is_empty() {
            fields.insert("outcome".to_owned(), self.outcome.into());
        }
        let mut error = Map::new();
        if let Some(message) = self.error {
            error.insert("message".to_owned(), text::shortened(&message).into());
        }
        if let Some(code) = self.exit_code {
            error.insert("exit_code".to_owned(), code.into());
        }
        if !error.is_empty() {
            fields.insert("error".to_owned(), Value::Object(error));
        }
    }
}
