//! Cline: messages of Anthropic's API. As of version 4 they stand in the document of a session (4.1.13, `sdk/packages/core/src/services/session-data.ts`);
//! before, a task has an array of them, `api_conversation_history.json` (3.89.2, `apps/vscode/src/shared/messages/content.ts`).
//!
//! A model without native calls writes them as tags of its text. Their answers are texts, too: behind a head that names the tool (3.89.2,
//! `core/task/tools/utils/ToolResultUtils.ts`), or in the block behind such a head (3.0.0, `src/core/Cline.ts`). Both files are written anew
//! as a whole. Messages may move in them and get other ids, so an event is named by its call, or by its place and its text.

use std::collections::VecDeque;

use loopwarden_core::event::{EventTime, Reason, Rejected};
use loopwarden_core::native::mark;
use serde_json::Value;

use crate::agents::cline::tags::{answered_tool, tagged};
use crate::transcript::draft::{Answer, Draft, Spent, Whose};
use crate::transcript::fields::{Fields, Sign};
use crate::transcript::log::{Log, Reader};
use crate::transcript::sink::{Open, Sink};
use crate::{text, transcript::object::Object};

/// `…/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json`, `~/.cline/data/sessions/*/*.messages.json`.
pub(super) const LOG: Log = Log {
    open: |name| Box::new(Cline::new(name)),
    knows,
    begins: |text| {
        text.starts_with(r#"{"version":"#) && text.contains(r#","updated_at":""#) && text.contains(r#","sessionId":""#)
    },
};

/// Tags that the first message has, which is a person's.
const TAGS: [&str; 2] = ["<task>", "<environment_details>"];

fn knows(fields: &Fields<'_>) -> Sign {
    let is_message = fields.text("type").is_none() && fields.have(&["role", "content"]);
    // Before it noted times.
    let has_tag = || TAGS.iter().any(|tag| fields.source.contains(tag));
    let is_session = fields.have(&["sessionId", "agent"]) && fields.is_list("messages");
    Sign::of(is_session, is_message && (fields.has("ts") || has_tag()))
}

/// Beginnings of texts that the program writes in a person's name.
const NOT_A_PERSON: [&str; 6] =
    ["<environment_details>", "[ERROR]", "[TASK RESUMPTION]", "[Continue assisting", "<explicit_instructions", "<mode_notice"];
/// Words before the exit code of a shell, where its answer begins with them.
const EXIT_CODE: [&str; 2] = ["Command failed with exit code ", "[Command exited with code "];
/// Calls in the text whose answers are still to come. A reply has one, or a few.
const TAGGED_MAX: usize = 64;

/// One task, or one session.
#[derive(Debug)]
struct Cline {
    whose: Whose,
    /// Tools of calls that wait for their answers.
    open: Open,
    /// How often a call's id came: not every provider makes new ones.
    seen: Open,
    /// Tools and ids of the calls in the last reply's text.
    tagged: VecDeque<(String, String)>,
    messages: u64,
    turn: u64,
}

/// A message as far as all its events share it.
struct Message {
    number: u64,
    time: Option<EventTime>,
    spent: Option<Spent>,
    events: u64,
}

impl Reader for Cline {
    fn piece(&mut self, piece: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        if !piece.has("messages") {
            return self.message(piece, sink);
        }
        piece.required("sessionId")?.clone_into(&mut self.whose.session_id);
        let messages = piece.value("messages").as_array().ok_or_else(|| Rejected::at(Reason::BadType, "messages"))?;
        messages.iter().try_for_each(|message| match message {
            Value::Object(message) => self.message(Object(message), sink),
            _ => Err(Rejected::at(Reason::BadType, "messages")),
        })
    }
}

impl Cline {
    fn new(name: &str) -> Self {
        let whose = Whose { session_id: name.to_owned(), framework: "cline", ..Whose::default() };
        Self { whose, open: Open::default(), seen: Open::default(), tagged: VecDeque::new(), messages: 0, turn: 0 }
    }

    fn message(&mut self, from: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let role = from.required("role")?;
        self.messages += 1;
        let mut message = Message { number: self.messages, time: time(from)?, spent: None, events: 0 };
        let whole;
        let blocks = match from.value("content") {
            Value::String(said) => {
                whole = [serde_json::json!({ "type": "text", "text": said })];
                whole.as_slice()
            }
            Value::Array(blocks) => blocks.as_slice(),
            _ => return Err(Rejected::at(Reason::BadType, "content")),
        };
        let blocks: Vec<(&str, Object<'_>)> = blocks.iter().map(block).collect::<Result<_, _>>()?;
        match role {
            "assistant" => {
                self.turn += 1;
                if let Some(model) = from.object_if_any("modelInfo") {
                    let id = model.text("modelId")?.or(model.text("id")?);
                    self.whose.model = id.map(str::to_owned);
                }
                message.spent = from.object_if_any("metrics").map(spent);
                self.of_model(&blocks, &mut message, sink)
            }
            "user" => self.of_user(&blocks, &mut message, sink),
            other => {
                sink.tally.ignore(other);
                Ok(())
            }
        }
    }

    fn of_model(&mut self, blocks: &[(&str, Object<'_>)], message: &mut Message, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let is_native = blocks.iter().any(|(kind, _)| *kind == "tool_use");
        self.tagged.clear();
        for (kind, block) in blocks {
            match *kind {
                "text" if is_native => self.says(block.text("text")?.unwrap_or_default(), false, message, sink)?,
                "text" => {
                    let (said, calls) = tagged(block.text("text")?.unwrap_or_default());
                    self.says(&said, calls.is_empty(), message, sink)?;
                    for (tool, args) in calls {
                        let call_id = message.next_id(&args.to_string());
                        self.draft(&call_id, message).call(tool, &call_id, args, sink)?;
                        if self.tagged.len() < TAGGED_MAX {
                            self.tagged.push_back((tool.to_owned(), call_id));
                        }
                    }
                }
                "tool_use" => {
                    let (tool, call_id) = (block.required("name")?, block.required("id")?);
                    self.open.insert(call_id, tool);
                    let id = self.times(call_id, call_id);
                    let input = block.value("input");
                    // The list of what is to be done stands beside the arguments, and changes all the time.
                    let args = input
                        .as_object()
                        .map_or_else(|| text::arguments(input), |input| Object(input).arguments(&["task_progress"]));
                    self.draft(&id, message).call(tool, call_id, args, sink)?;
                }
                other => sink.tally.ignore(other),
            }
        }
        Ok(())
    }

    /// A text of the model. Without a call it is the last one until a person speaks.
    fn says(&self, said: &str, is_final: bool, message: &mut Message, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        if said.trim().is_empty() {
            return Ok(());
        }
        let id = message.next_id(said);
        self.draft(&id, message).message("assistant", said, is_final, sink)
    }

    fn of_user(&mut self, blocks: &[(&str, Object<'_>)], message: &mut Message, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        // The head of an answer that stands in the next block.
        let mut head: Option<&str> = None;
        for (kind, block) in blocks {
            match *kind {
                "text" => {
                    let said = block.text("text")?.unwrap_or_default();
                    if let Some((tool, result)) = answered_tool(said) {
                        if let Some(before) = head.replace(tool) {
                            self.answer(before, "", message, sink)?;
                        }
                        if !result.is_empty() {
                            head = None;
                            self.answer(tool, result, message, sink)?;
                        }
                    } else if NOT_A_PERSON.iter().any(|beginning| said.trim_start().starts_with(beginning)) {
                        sink.tally.ignore("instructions");
                    } else if let Some(tool) = head.take() {
                        self.answer(tool, said, message, sink)?;
                    } else if !said.trim().is_empty() {
                        let id = message.next_id(said);
                        self.draft(&id, message).message("user", said, false, sink)?;
                    }
                }
                "tool_result" => self.result(*block, message, sink)?,
                other => sink.tally.ignore(other),
            }
        }
        head.map_or(Ok(()), |tool| self.answer(tool, "", message, sink))
    }

    /// The answer of a call that was a tag.
    fn answer(&mut self, tool: &str, said: &str, message: &mut Message, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let at = self.tagged.iter().position(|(asked, _)| asked == tool);
        let call_id = at.and_then(|at| self.tagged.remove(at)).map(|(_, call_id)| call_id);
        let id = message.next_id(said);
        let call_id = call_id.unwrap_or_else(|| id.clone());
        self.draft(&id, message).result(Some(tool), &call_id, answer(said, false), sink)
    }

    fn result(&mut self, block: Object<'_>, message: &mut Message, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let call_id = block.required("tool_use_id")?;
        let tool = block.text("name")?.or_else(|| self.open.get(call_id)).map(str::to_owned);
        let (said, has_failed) = operations(block.value("content"))?;
        // The head repeats the arguments; what came back is behind it.
        let said = answered_tool(&said).map_or(said.as_str(), |(_, result)| result);
        let answer = answer(said, has_failed || block.is_true("is_error"));
        let id = self.times(&format!("{call_id}.result"), call_id);
        self.draft(&id, message).result(tool.as_deref(), call_id, answer, sink)
    }

    /// An id that says how often this came.
    fn times(&mut self, what: &str, id: &str) -> String {
        let times = self.seen.get(what).and_then(|times| times.parse::<u64>().ok()).unwrap_or(0).saturating_add(1);
        self.seen.insert(what, &times.to_string());
        let end = what.strip_prefix(id).unwrap_or_default();
        if times == 1 { format!("{id}{end}") } else { format!("{id}{end}.{times}") }
    }

    fn draft(&self, id: &str, message: &mut Message) -> Draft<'_> {
        Draft { whose: &self.whose, id: id.to_owned(), time: message.time, turn: Some(self.turn), spent: message.spent.take() }
    }
}

impl Message {
    /// The id of an event that has none of its own: its place, and what it says.
    fn next_id(&mut self, said: &str) -> String {
        self.events += 1;
        format!("{}.{}-{}", self.number, self.events, mark(said))
    }
}

fn block(block: &Value) -> Result<(&str, Object<'_>), Rejected> {
    let block = block.as_object().map(Object).ok_or_else(|| Rejected::at(Reason::BadType, "content"))?;
    Ok((block.required("type")?, block))
}

/// Milliseconds since 1970.
fn time(message: Object<'_>) -> Result<Option<EventTime>, Rejected> {
    match message.value("ts") {
        Value::Null => Ok(None),
        ts => text::unix_ms(ts).map(Some).ok_or_else(|| Rejected::at(Reason::BadValue, "ts")),
    }
}

/// `{tokens: {prompt, completion}, cost}` of version 3, or the flat numbers of version 4. Both count what was cached as input.
fn spent(metrics: Object<'_>) -> Spent {
    let tokens = metrics.object_if_any("tokens");
    let count = |older: &str, newer: &str| tokens.map_or_else(|| metrics.tokens(newer), |tokens| tokens.tokens(older));
    Spent {
        input_tokens: count("prompt", "inputTokens"),
        cached_tokens: 0,
        output_tokens: count("completion", "outputTokens"),
        cost_usd: metrics.value("cost").as_f64().unwrap_or(0.0).max(0.0),
    }
}

/// The text of a result, and whether a part of it failed. Tools of version 4 answer `{query, result, success}` for each thing they did.
fn operations(content: &Value) -> Result<(String, bool), Rejected> {
    let parsed = content.as_str().filter(|said| said.starts_with('{')).and_then(|said| serde_json::from_str::<Value>(said).ok());
    let whole = parsed.as_ref().filter(|value| value.get("success").is_some()).unwrap_or(content);
    let one = std::slice::from_ref(whole);
    let parts = match whole {
        Value::Array(parts) => parts.as_slice(),
        Value::Object(_) => one,
        _ => &[],
    };
    let done: Vec<&Value> = parts.iter().filter(|part| part.get("success").is_some_and(Value::is_boolean)).collect();
    if done.is_empty() || done.len() < parts.len() {
        return Ok((text::content(content, "content")?, false));
    }
    let has_failed = done.iter().any(|part| part.get("success") == Some(&Value::Bool(false)));
    let mut lines = Vec::new();
    for part in done {
        let results = [part.get("result"), part.get("error")];
        for result in results.into_iter().flatten().filter(|result| !result.is_null()) {
            lines.push(match result {
                Value::Bool(_) | Value::Number(_) => result.to_string(),
                other => text::content(other, "content")?,
            });
        }
    }
    lines.retain(|line| !line.is_empty());
    Ok((lines.join("\n"), has_failed))
}

/// How a call ended: its text says so, as far as the program wrote it.
fn answer(said: &str, is_error: bool) -> Answer {
    let first = said.lines().next().unwrap_or_default();
    let exit_code = EXIT_CODE.iter().find_map(|words| number(first.strip_prefix(words)?)).filter(|code| *code != 0);
    let outcome = match () {
        () if said.starts_with("The user denied this operation") => "denied",
        () if first.starts_with("Command cancelled") => "cancelled",
        () if first.starts_with("Command timed out after") || first.starts_with("Command execution timed out") => "timeout",
        () if is_error || exit_code.is_some() || first.starts_with("The tool execution failed") => "error",
        () => "ok",
    };
    Answer::of(said, outcome, exit_code)
}

/// The number that a text begins with.
fn number(text: &str) -> Option<i64> {
    text.split(|letter: char| !letter.is_ascii_digit() && letter != '-').next()?.parse().ok()
}
