//! goose: the document that `goose session export --format json` writes of a session (schema 9, `crates/goose/src/session/session_manager.rs`),
//! and the files of older versions: a line about the session, then a line for each message (`crates/goose/src/session/storage.rs`). The store
//! of newer versions is a database.
//!
//! A message holds parts by type (`crates/goose/src/conversation/message.rs`). A call, like its answer, is `{status, value}` or `{status,
//! error}`: one that the model wrote wrongly is an error of its own. The value of an answer is a list of contents in older sessions, and
//! an MCP result with such a list in it in newer ones.

use loopwarden_core::event::{EventTime, Reason, Rejected};
use loopwarden_core::native::mark;
use serde_json::Value;

use crate::transcript::draft::{Answer, Draft, Whose};
use crate::transcript::fields::{Fields, Sign};
use crate::transcript::log::{Log, Reader};
use crate::transcript::sink::{Open, Sink};
use crate::{text, transcript::object::Object};

/// What `goose session export --format json` writes, or `~/.local/share/goose/sessions/*.jsonl`.
pub(super) const LOG: Log = Log {
    open: |name| Box::new(Goose::new(name)),
    knows,
    begins: |text| text.starts_with(r#"{"id":""#) && text.contains(r#","working_dir":""#),
};

fn knows(fields: &Fields<'_>) -> Sign {
    let is_session = fields.has("working_dir") && (fields.has("message_count") || fields.has("conversation"));
    let is_message = fields.text("type").is_none() && fields.have(&["role", "created"]) && fields.is_list("content");
    Sign::of(is_session, is_message)
}

/// What stands for a call whose name the model did not write well enough.
const NO_TOOL: &str = "invalid_tool_call";
/// Beginning of the answer of a call that a person or a rule refused.
const DECLINED: &str = "The user has declined to run this tool";

#[derive(Debug)]
struct Goose {
    whose: Whose,
    /// Tools of calls that wait for their answers.
    open: Open,
    messages: u64,
    turn: u64,
}

impl Reader for Goose {
    fn piece(&mut self, piece: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        if piece.has("role") {
            return self.message(piece, sink);
        }
        if !piece.has("conversation") {
            // The first line of a file. Its numbers are sums, and the name of the session is that of the file.
            return piece.text("working_dir").map(drop);
        }
        piece.required("id")?.clone_into(&mut self.whose.session_id);
        let model = piece.object_if_any("model_config").and_then(|model| model.text_if_any("model_name"));
        self.whose.model = model.map(str::to_owned);
        let messages = match piece.value("conversation") {
            // A session without messages.
            Value::Null => return Ok(()),
            Value::Array(messages) => messages,
            _ => return Err(Rejected::at(Reason::BadType, "conversation")),
        };
        messages.iter().try_for_each(|message| match message {
            Value::Object(message) => self.message(Object(message), sink),
            _ => Err(Rejected::at(Reason::BadType, "conversation")),
        })
    }
}

impl Goose {
    fn new(name: &str) -> Self {
        let whose = Whose { session_id: name.to_owned(), framework: "goose", ..Whose::default() };
        Self { whose, open: Open::default(), messages: 0, turn: 0 }
    }

    fn message(&mut self, message: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let role = message.required("role")?;
        let is_model = role == "assistant";
        self.messages += 1;
        self.turn += u64::from(is_model);
        let created_ms = message.value("created").as_i64().and_then(|seconds| seconds.checked_mul(1000));
        let time = text::unix_ms(&created_ms.into());
        let parts = message.value("content").as_array().ok_or_else(|| Rejected::at(Reason::BadType, "content"))?;
        // What an agent gets to read and a person does not is the program's own: a summary, a reminder.
        let is_own = message.object_if_any("metadata").is_some_and(|about| about.value("userVisible") == &Value::Bool(false));
        let has_calls = parts.iter().any(|part| part.get("type").and_then(Value::as_str) == Some("toolRequest"));
        for (at, part) in parts.iter().enumerate() {
            let part = part.as_object().map(Object).ok_or_else(|| Rejected::at(Reason::BadType, "content"))?;
            match part.required("type")? {
                "text" if is_own && !is_model => sink.tally.ignore("instructions"),
                "text" => {
                    let said = part.text("text")?.unwrap_or_default();
                    if !said.is_empty() {
                        let id = format!("{}.{at}-{}", self.messages, mark(said));
                        let draft = self.draft(&id, time);
                        draft.message(if is_model { "assistant" } else { "user" }, said, is_model && !has_calls, sink)?;
                    }
                }
                "toolRequest" | "frontendToolRequest" => self.call(part, time, sink)?,
                "toolResponse" => self.answer(part, time, sink)?,
                other => sink.tally.ignore(other),
            }
        }
        Ok(())
    }

    fn call(&mut self, part: Object<'_>, time: Option<EventTime>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let call_id = part.required("id")?;
        let call = part.object("toolCall")?.ok_or_else(|| Rejected::at(Reason::MissingField, "toolCall"))?;
        let (tool, args) = match call.object("value")? {
            Some(value) => (value.required("name")?, text::arguments(value.value("arguments"))),
            None => (NO_TOOL, text::arguments(call.value("error"))),
        };
        self.open.insert(call_id, tool);
        self.draft(&format!("{}.{call_id}", self.messages), time).call(tool, call_id, args, sink)
    }

    fn answer(&self, part: Object<'_>, time: Option<EventTime>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let call_id = part.required("id")?;
        let result = part.object("toolResult")?.ok_or_else(|| Rejected::at(Reason::MissingField, "toolResult"))?;
        let (said, is_error) = match (result.text("error")?, result.value("value")) {
            (Some(error), _) => (error.to_owned(), true),
            (None, Value::Object(value)) => {
                let value = Object(value);
                (contents(value.value("content"))?, value.is_true("isError"))
            }
            (None, list) => (contents(list)?, false),
        };
        let outcome = match () {
            () if said.starts_with(DECLINED) => "denied",
            () if is_error => "error",
            () => "ok",
        };
        let tool = self.open.get(call_id).map(str::to_owned);
        let draft = self.draft(&format!("{}.{call_id}.result", self.messages), time);
        draft.result(tool.as_deref(), call_id, Answer::of(&said, outcome, None), sink)
    }

    fn draft(&self, id: &str, time: Option<EventTime>) -> Draft<'_> {
        Draft { whose: &self.whose, id: id.to_owned(), time, turn: Some(self.turn), spent: None }
    }
}

/// The text of an answer's contents. Some stand twice, for the model and for a person; what is not for the model is left out.
fn contents(list: &Value) -> Result<String, Rejected> {
    let audience = |content: &Value| content.get("annotations")?.get("audience")?.as_array().cloned();
    let is_for_model = |content: &Value| audience(content).is_none_or(|audience| audience.iter().any(|who| who == "assistant"));
    match list {
        Value::Array(all) => {
            let kept: Vec<Value> = all.iter().filter(|content| is_for_model(content)).cloned().collect();
            text::content(&kept.into(), "toolResult")
        }
        other => text::content(other, "toolResult"),
    }
}
