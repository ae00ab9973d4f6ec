//! Gemini CLI: a line each. The first is about the session, `$set` lines are about the program's state, the others are messages. A message is
//! written again when there is more of it: first what the model said, then its calls with their answers. Older files are one document with all
//! messages in it. What `--output-format stream-json` prints is read by [`PrintedRun`].

use loopwarden_core::event::{EventTime, Reason, Rejected};
use serde_json::Value;

use crate::agents::gemini::stream::{PrintedRun, is_line};
use crate::transcript::draft::{Answer, Draft, Spent, Whose};
use crate::transcript::log::{Log, Reader};
use crate::transcript::sink::{Open, Sink};
use crate::{text, transcript::fields::Sign, transcript::object::Object};

/// `~/.gemini/tmp/*/chats/session-*`.
pub(super) const LOG: Log = Log {
    open: |name| Box::new(Gemini::new(name)),
    knows: |fields| Sign::of(fields.have(&["sessionId", "projectHash"]) || is_line(fields), false),
    begins: |text| text.starts_with(r#"{"sessionId":""#) && text.contains(r#","projectHash":""#),
};

/// Beginnings of texts that the program writes in a person's name.
const NOT_A_PERSON: [&str; 3] = ["<session_context>", "<system-reminder>", "This is the Gemini CLI."];

#[derive(Debug)]
struct Gemini {
    whose: Whose,
    /// Messages and calls that were events already.
    known: Open,
    /// The reply that was seen last, and its number.
    reply: String,
    turn: u64,
    /// What is printed instead of written has lines without an id.
    stream: PrintedRun,
}

impl Reader for Gemini {
    fn piece(&mut self, line: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        if let Some(id) = line.text("sessionId")? {
            id.clone_into(&mut self.whose.session_id);
            return self.messages(line.value("messages"), sink);
        }
        if let Some(state) = line.object("$set")? {
            return self.messages(state.value("messages"), sink);
        }
        if line.0.keys().any(|name| name.starts_with('$')) {
            sink.tally.ignore("state");
            return Ok(());
        }
        match line.text("type")? {
            Some(kind) if !line.has("id") => self.stream.line(kind, line, &mut self.whose, sink),
            _ => self.message(line, sink),
        }
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        self.stream.finish(None, &self.whose, sink)
    }
}

impl Gemini {
    fn new(name: &str) -> Self {
        let whose = Whose { session_id: name.to_owned(), framework: "gemini-cli", ..Whose::default() };
        Self { whose, known: Open::default(), reply: String::new(), turn: 0, stream: PrintedRun::default() }
    }

    /// Messages that are written as a whole: all of them, or those of a history that was made shorter.
    fn messages(&mut self, messages: &Value, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        match messages {
            Value::Null => Ok(()),
            Value::Array(messages) => messages.iter().try_for_each(|message| match message {
                Value::Object(message) => self.message(Object(message), sink),
                _ => Err(Rejected::at(Reason::BadType, "messages")),
            }),
            _ => Err(Rejected::at(Reason::BadType, "messages")),
        }
    }

    fn message(&mut self, message: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let (id, time) = (message.required("id")?, message.time("timestamp")?);
        let said = text::parts(message.value("content"));
        match message.required("type")? {
            "user" if said.is_empty() => sink.tally.ignore("function response"),
            "user" if NOT_A_PERSON.iter().any(|beginning| said.trim_start().starts_with(beginning)) => {
                sink.tally.ignore("instructions");
            }
            "user" => {
                if self.is_new(id) {
                    self.draft(id, time, None).message("user", &said, false, sink)?;
                }
            }
            "gemini" => self.of_model(id, &said, time, message, sink)?,
            other => sink.tally.ignore(other),
        }
        Ok(())
    }

    fn of_model(
        &mut self,
        id: &str,
        said: &str,
        time: Option<EventTime>,
        message: Object<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Rejected> {
        if self.reply != id {
            id.clone_into(&mut self.reply);
            self.turn += 1;
        }
        if let Some(model) = message.text("model")? {
            self.whose.model = Some(model.to_owned());
        }
        let spent = message.object("tokens")?.map(|tokens| Spent {
            input_tokens: tokens.tokens("input"),
            cached_tokens: tokens.tokens("cached"),
            output_tokens: tokens.tokens("output").saturating_add(tokens.tokens("thoughts")),
            cost_usd: 0.0,
        });
        if !said.is_empty() && self.is_new(id) {
            let spent = self.once(id, spent);
            self.draft(id, time, spent).message("assistant", said, false, sink)?;
        }
        let calls = message.value("toolCalls").as_array().map(Vec::as_slice).unwrap_or_default();
        for call in calls.iter().filter_map(Value::as_object).map(Object) {
            let (call_id, tool) = (call.required("id")?, call.required("name")?);
            let status = call.text("status")?.unwrap_or_default();
            // What is still at work is written again.
            if !matches!(status, "success" | "error" | "cancelled") || !self.is_new(call_id) {
                continue;
            }
            let responses = call.value("result").as_array().map(Vec::as_slice).unwrap_or_default();
            let response = responses.iter().find_map(|part| part.get("functionResponse")?.get("response"));
            let answer = Answer::of_function(response.unwrap_or(&Value::Null), tool, status);
            let (spent, time) = (self.once(id, spent), call.time("timestamp")?.or(time));
            let args = text::arguments(call.value("args"));
            let draft = self.draft(&format!("{id}.{call_id}"), time, spent);
            draft.tool(tool, args, answer, sink)?;
        }
        Ok(())
    }

    /// Whether it was not here before.
    fn is_new(&mut self, id: &str) -> bool {
        let is_new = self.known.get(id).is_none();
        self.known.insert(id, "");
        is_new
    }

    /// The usage of a reply, for its first event.
    fn once(&mut self, id: &str, spent: Option<Spent>) -> Option<Spent> {
        spent.filter(|_| self.is_new(&format!("usage of {id}")))
    }

    fn draft(&self, id: &str, time: Option<EventTime>, spent: Option<Spent>) -> Draft<'_> {
        Draft { whose: &self.whose, id: id.to_owned(), time, turn: Some(self.turn), spent }
    }
}
