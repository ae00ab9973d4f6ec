//! opencode: the document that `opencode export` writes of a session. Its own store is a database.

use loopwarden_core::event::{EventTime, Reason, Rejected};
use serde_json::Value;

use crate::transcript::draft::{Answer, Draft, Spent, Whose};
use crate::transcript::log::{Log, Reader};
use crate::{text, transcript::fields::Sign, transcript::object::Object, transcript::sink::Sink};

/// What `opencode export` writes.
pub(super) const LOG: Log = Log {
    open: |name| Box::new(Opencode::new(name)),
    knows: |fields| Sign::of(fields.has("info") && fields.is_list("messages"), false),
    begins: |text| text.starts_with(r#"{"info":{"id":"ses_"#),
};

#[derive(Debug)]
struct Opencode {
    whose: Whose,
    turn: u64,
}

impl Reader for Opencode {
    fn piece(&mut self, document: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let info = document.object("info")?.ok_or_else(|| Rejected::at(Reason::MissingField, "info"))?;
        info.required("id")?.clone_into(&mut self.whose.session_id);
        let messages = document.value("messages").as_array().ok_or_else(|| Rejected::at(Reason::BadType, "messages"))?;
        messages.iter().try_for_each(|message| match message {
            Value::Object(message) => self.message(Object(message), sink),
            _ => Err(Rejected::at(Reason::BadType, "messages")),
        })
    }
}

impl Opencode {
    fn new(name: &str) -> Self {
        Self { whose: Whose { session_id: name.to_owned(), framework: "opencode", ..Whose::default() }, turn: 0 }
    }

    fn message(&mut self, message: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let info = message.object("info")?.ok_or_else(|| Rejected::at(Reason::MissingField, "messages/info"))?;
        let role = info.required("role")?;
        let is_model = role == "assistant";
        self.turn += u64::from(is_model);
        if is_model {
            self.whose.model = info.text("modelID")?.map(str::to_owned);
        }
        let mut spent = info.object("tokens")?.filter(|_| is_model).map(|tokens| {
            let cache = tokens.object_if_any("cache");
            let cached = |name: &str| cache.map_or(0, |cache| cache.tokens(name));
            Spent {
                input_tokens: [tokens.tokens("input"), cached("read"), cached("write")]
                    .iter()
                    .copied()
                    .fold(0, u64::saturating_add),
                cached_tokens: cached("read"),
                output_tokens: tokens.tokens("output").saturating_add(tokens.tokens("reasoning")),
                cost_usd: info.value("cost").as_f64().unwrap_or(0.0).max(0.0),
            }
        });
        let is_final = is_model && info.text("finish")? == Some("stop");
        let created = time(info, "created");
        for part in message.value("parts").as_array().into_iter().flatten() {
            let part = part.as_object().map(Object).ok_or_else(|| Rejected::at(Reason::BadType, "parts"))?;
            match part.required("type")? {
                "text" if !part.is_true("synthetic") && !part.is_true("ignored") => {
                    let said = part.text("text")?.unwrap_or_default();
                    if !said.is_empty() {
                        let draft = self.draft(part.required("id")?, time(part, "end").or(created), spent.take());
                        draft.message(if is_model { "assistant" } else { "user" }, said, is_final, sink)?;
                    }
                }
                "tool" => self.call(part, &mut spent, created, sink)?,
                other => sink.tally.ignore(other),
            }
        }
        Ok(())
    }

    fn call(
        &self,
        part: Object<'_>,
        spent: &mut Option<Spent>,
        created: Option<EventTime>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Rejected> {
        let state = part.object("state")?.ok_or_else(|| Rejected::at(Reason::MissingField, "state"))?;
        let metadata = state.object_if_any("metadata");
        let exit_code = metadata.and_then(|about| about.value("exit").as_i64()).filter(|code| *code != 0);
        let (said, outcome) = match state.required("status")? {
            "completed" => (state.text("output")?, if exit_code.is_some() { "error" } else { "ok" }),
            "error" => (state.text("error")?, "error"),
            // It was at work when the session was written.
            other => {
                sink.tally.ignore(other);
                return Ok(());
            }
        };
        let is_truncated = metadata.is_some_and(|about| about.is_true("truncated"));
        let answer = Answer { is_truncated, ..Answer::of(said.unwrap_or_default(), outcome, exit_code) };
        let draft = self.draft(part.required("id")?, time(state, "end").or(created), spent.take());
        draft.tool(part.required("tool")?, text::arguments(state.value("input")), answer, sink)
    }

    fn draft(&self, id: &str, time: Option<EventTime>, spent: Option<Spent>) -> Draft<'_> {
        Draft { whose: &self.whose, id: id.to_owned(), time, turn: Some(self.turn), spent }
    }
}

/// Milliseconds since 1970 in an object's `time`.
fn time(object: Object<'_>, name: &str) -> Option<EventTime> {
    text::unix_ms(object.object_if_any("time")?.get(name)?)
}
