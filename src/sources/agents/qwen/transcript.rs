//! Qwen Code: a line each, with the messages of Google's API. What the program notes of itself is in `system` lines.

use loopwarden_core::event::{EventTime, Reason, Rejected};

use crate::transcript::draft::{Answer, Draft, Spent, Whose};
use crate::transcript::fields::{Fields, Sign};
use crate::transcript::log::{Log, Reader};
use crate::transcript::sink::{Open, Sink};
use crate::{text, transcript::object::Object};

/// `~/.qwen/projects/*/chats/*.jsonl`.
pub(super) const LOG: Log = Log { open: |name| Box::new(Qwen::new(name)), knows, begins: |_| false };

fn knows(fields: &Fields<'_>) -> Sign {
    // A message of the model's API, or what stands in its place.
    let is_sure = fields.have(&["uuid", "sessionId"]) && (fields.has("provenance") || fields.has_inner("message", "parts"));
    Sign::of(is_sure, false)
}

/// Beginnings of texts that the program writes in a person's name.
const NOT_A_PERSON: [&str; 2] = ["<system-reminder>", "This is the Qwen Code."];

#[derive(Debug)]
struct Qwen {
    name: String,
    open: Open,
    turn: u64,
}

/// A line as far as all its events share it.
struct Line<'a> {
    whose: Whose,
    uuid: &'a str,
    time: Option<EventTime>,
    turn: u64,
    spent: Option<Spent>,
    events: usize,
}

impl Line<'_> {
    fn draft(&mut self) -> Draft<'_> {
        self.events += 1;
        let id = if self.events == 1 { self.uuid.to_owned() } else { format!("{}.{}", self.uuid, self.events) };
        Draft { whose: &self.whose, id, time: self.time, turn: Some(self.turn), spent: self.spent.take() }
    }
}

impl Reader for Qwen {
    fn piece(&mut self, line: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let kind = line.required("type")?;
        if !matches!(kind, "user" | "assistant" | "tool_result") {
            sink.tally.ignore(line.text("subtype")?.unwrap_or(kind));
            return Ok(());
        }
        let message = line.object("message")?.ok_or_else(|| Rejected::at(Reason::MissingField, "message"))?;
        let mut whose = Whose {
            session_id: line.text("sessionId")?.unwrap_or(&self.name).to_owned(),
            framework: "qwen-code",
            model: line.text("model")?.map(str::to_owned),
            ..Whose::default()
        };
        if line.is_true("isSidechain") {
            whose.agent_id = Some(line.text("agentId")?.unwrap_or("sidechain").to_owned());
        }
        self.turn += u64::from(kind == "assistant");
        let (uuid, time) = (line.required("uuid")?, line.time("timestamp")?);
        let mut shared = Line { whose, uuid, time, turn: self.turn, spent: None, events: 0 };
        match kind {
            "user" => person(line, message, &mut shared, sink),
            "assistant" => {
                shared.spent = line.object("usageMetadata")?.map(|usage| Spent {
                    input_tokens: usage.tokens("promptTokenCount"),
                    cached_tokens: usage.tokens("cachedContentTokenCount"),
                    output_tokens: usage.tokens("candidatesTokenCount").saturating_add(usage.tokens("thoughtsTokenCount")),
                    cost_usd: 0.0,
                });
                self.of_model(message, &mut shared, sink)
            }
            _ => self.results(line, message, &mut shared, sink),
        }
    }
}

impl Qwen {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), open: Open::default(), turn: 0 }
    }

    fn of_model(&mut self, message: Object<'_>, shared: &mut Line<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let said = text::parts(message.value("parts"));
        if !said.is_empty() {
            shared.draft().message("assistant", &said, false, sink)?;
        }
        for call in of_parts(message, "functionCall") {
            let (call_id, tool) = (call.required("id")?, call.required("name")?);
            self.open.insert(call_id, tool);
            shared.draft().call(tool, call_id, text::arguments(call.value("args")), sink)?;
        }
        Ok(())
    }

    fn results(&self, line: Object<'_>, message: Object<'_>, shared: &mut Line<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let about = line.object_if_any("toolCallResult");
        let status = about.and_then(|about| about.text_if_any("status")).unwrap_or_default();
        for answered in of_parts(message, "functionResponse") {
            let call_id = answered.required("id")?;
            let tool = answered.text("name")?.or_else(|| self.open.get(call_id));
            let answer = Answer::of_function(answered.value("response"), tool.unwrap_or_default(), status);
            shared.draft().result(tool, call_id, answer, sink)?;
        }
        Ok(())
    }
}

/// What a person wrote. Hooks and the program write in a person's name too, and say so.
fn person(line: Object<'_>, message: Object<'_>, shared: &mut Line<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
    let said = text::parts(message.value("parts"));
    let is_typed = matches!(line.text("provenance")?, None | Some("real_user"));
    if !is_typed || said.is_empty() || NOT_A_PERSON.iter().any(|beginning| said.trim_start().starts_with(beginning)) {
        sink.tally.ignore("instructions");
        return Ok(());
    }
    shared.draft().message("user", &said, false, sink)
}

/// The objects of a name among the parts of a message.
fn of_parts<'a>(message: Object<'a>, name: &'static str) -> impl Iterator<Item = Object<'a>> {
    let parts = message.value("parts").as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(move |part| part.get(name)?.as_object().map(Object))
}
