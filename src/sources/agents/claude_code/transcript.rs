//! Claude Code: one JSON object a line; `user` and `assistant` lines hold a message of the model's API, the others are about the program.
//!
//! A model's reply of several blocks is several lines with one `message.id` and a usage in each: it is counted once, at the reply's
//! first call, or at its last text where it ends without one. So a text waits for the line that tells which. Lines with `isMeta` are
//! the program's own words. An agent inside the session has `isSidechain` and, newer, an `agentId`; its lines may stand between those
//! of a reply of another agent. A prompt that is typed while the agent works is an `attachment`. A session that was forked begins with
//! copies of its parent's lines, each with `forkedFrom`: they happened once, and in the parent. What `--output-format stream-json` prints
//! are the same messages: `session_id` names the session, `parent_tool_use_id` the agent inside it.

use std::collections::VecDeque;

use loopwarden_core::event::{EventTime, Reason, Rejected};
use serde_json::Value;

use crate::transcript::draft::{Answer, Draft, Spent, Whose};
use crate::transcript::fields::{Fields, Sign};
use crate::transcript::log::{Log, Reader};
use crate::transcript::sink::{Open, Sink, Tally};
use crate::{text, transcript::object::Object};

/// `~/.claude/projects/*/*.jsonl`.
pub(super) const LOG: Log = Log { open: |name| Box::new(Claude::new(name)), knows, begins: |_| false };

fn knows(fields: &Fields<'_>) -> Sign {
    let is_likely = match fields.text("type").as_deref() {
        Some("user" | "assistant") if fields.has("message") && fields.has("uuid") => true,
        Some("summary") if fields.has("leafUuid") => true,
        Some("file-history-snapshot") if fields.has("snapshot") => true,
        Some(_) => fields.has("sessionId") || fields.have(&["session_id", "uuid"]),
        None => false,
    };
    Sign::of(false, is_likely)
}

/// Beginnings of texts that the program writes in a person's name.
const NOT_A_PERSON: [&str; 8] = [
    "<command-",
    "<local-command-",
    "<system-reminder>",
    "Caveat: The messages below",
    "<task-notification>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<user-prompt-submit-hook>",
];
/// Words of an answer that say a person or a rule refused the call.
const REFUSED: [&str; 3] =
    ["The user doesn't want to proceed with this tool use", "The user doesn't want to take this action", "Permission to use "];

/// Beginning of an answer that was too long for the log: its size, where all of it was saved, a blank line, how it begins.
const PERSISTED: &str = "<persisted-output>";
/// Words before the file, which is another one each time.
const SAVED_TO: &str = "Full output saved to:";

/// Replies that are remembered: those of agents at work at the same time.
const REPLIES_MAX: usize = 16;

#[derive(Debug, Default)]
struct Claude {
    name: String,
    open: Open,
    turn: u64,
    /// The latest replies, the newest last.
    replies: VecDeque<Reply>,
    held: Option<Held>,
}

#[derive(Debug, Clone)]
struct Reply {
    id: String,
    agent: Option<String>,
    turn: u64,
    /// Its usage, until there is an event to carry it.
    spent: Option<Spent>,
    is_counted: bool,
}

/// A text that waits to know whether its reply goes on to a call.
#[derive(Debug, Clone)]
struct Held {
    reply: String,
    whose: Whose,
    id: String,
    time: Option<EventTime>,
    turn: Option<u64>,
    said: String,
}

/// A line as far as all its events share it.
struct Line<'a> {
    whose: Whose,
    uuid: &'a str,
    time: Option<EventTime>,
    turn: Option<u64>,
    spent: Option<Spent>,
    events: usize,
}

impl Line<'_> {
    fn next_id(&mut self) -> String {
        self.events += 1;
        if self.events == 1 { self.uuid.to_owned() } else { format!("{}.{}", self.uuid, self.events) }
    }

    fn draft(&mut self) -> Draft<'_> {
        let id = self.next_id();
        Draft { whose: &self.whose, id, time: self.time, turn: self.turn, spent: self.spent.take() }
    }

    fn held(&mut self, reply: &str, said: &str) -> Held {
        let id = self.next_id();
        Held { reply: reply.to_owned(), whose: self.whose.clone(), id, time: self.time, turn: self.turn, said: said.to_owned() }
    }
}

impl Reader for Claude {
    fn piece(&mut self, line: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let before = (self.turn, self.replies.clone(), self.held.clone());
        let read = self.line(line, sink);
        if read.is_err() {
            // Nothing of the line counts, nor what it let go.
            (self.turn, self.replies, self.held) = before;
        }
        read
    }

    /// The log is at its end: nothing is left to wait for.
    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let agent = self.held.as_ref().and_then(|held| held.whose.agent_id.clone());
        self.let_go(agent.as_deref(), sink)
    }
}

impl Claude {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    fn line(&mut self, line: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let kind = line.required("type")?;
        let queued = if kind == "attachment" { queued_prompt(line) } else { None };
        let why_not = match kind {
            "user" | "assistant" | "attachment" if !line.value("forkedFrom").is_null() => Some("forked"),
            "user" if line.is_true("isMeta") => Some("meta"),
            "user" if line.is_true("isCompactSummary") => Some("compact_summary"),
            "assistant" if line.is_true("isApiErrorMessage") => Some("api_error"),
            "user" | "assistant" => None,
            "attachment" if queued.is_some() => None,
            other => Some(other),
        };
        if let Some(why_not) = why_not {
            sink.tally.ignore(why_not);
            return Ok(());
        }
        let message = if queued.is_some() {
            None
        } else {
            Some(line.object("message")?.ok_or_else(|| Rejected::at(Reason::MissingField, "message"))?)
        };
        let mut whose = Whose {
            session_id: line.text("sessionId")?.or(line.text("session_id")?).unwrap_or(&self.name).to_owned(),
            framework: "claude-code",
            ..Whose::default()
        };
        if line.is_true("isSidechain") {
            whose.agent_id = Some(line.text("agentId")?.unwrap_or("sidechain").to_owned());
        } else if let Some(started_by) = line.text("parent_tool_use_id")? {
            whose.agent_id = Some(started_by.to_owned());
        }
        let uuid = line.required("uuid")?;
        let time = line.time("timestamp")?;
        let mut shared = Line { whose, uuid, time, turn: None, spent: None, events: 0 };
        let reply = message.filter(|_| kind == "assistant").and_then(|message| message.text_if_any("id"));
        let is_of_its_reply = |held: &Held| reply == Some(held.reply.as_str());
        if self.held.as_ref().is_some_and(|held| !is_of_its_reply(held)) {
            self.let_go(shared.whose.agent_id.as_deref(), sink)?;
        }
        match message {
            Some(message) if kind == "assistant" => self.assistant(line, message, &mut shared, sink),
            Some(message) => self.user(line, message.value("content"), &mut shared, sink),
            None => self.user(line, queued.unwrap_or(&Value::Null), &mut shared, sink),
        }
    }

    fn user(&self, line: Object<'_>, content: &Value, shared: &mut Line<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        match content {
            Value::String(said) => person(said, shared, sink),
            Value::Array(blocks) => {
                for block in blocks_of(blocks) {
                    let (kind, block) = block?;
                    match kind {
                        "text" => person(block.text("text")?.unwrap_or_default(), shared, sink)?,
                        "tool_result" => self.result(line, block, shared, sink)?,
                        other => sink.tally.ignore(other),
                    }
                }
                Ok(())
            }
            _ => Err(Rejected::at(Reason::BadType, "message/content")),
        }
    }

    fn result(&self, line: Object<'_>, block: Object<'_>, shared: &mut Line<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let call_id = block.required("tool_use_id")?;
        let said = text::content(block.value("content"), "message/content")?;
        let (said, is_truncated) = without_file(said);
        let is_error = block.is_true("is_error");
        let details = line.object_if_any("toolUseResult").or_else(|| line.object_if_any("tool_use_result"));
        let was_interrupted = details.is_some_and(|details| details.is_true("interrupted"));
        let outcome = match () {
            () if is_error && REFUSED.iter().any(|words| said.starts_with(words)) => "denied",
            () if was_interrupted => "cancelled",
            () if is_error && said.contains("timed out after") => "timeout",
            () if is_error => "error",
            () => "ok",
        };
        let exit_code = if is_error { text::number_after(&said, &["Exit code"]) } else { None };
        let answer = Answer { is_truncated, ..Answer::of(&said, outcome, exit_code) };
        let tool = self.open.get(call_id).map(str::to_owned);
        shared.draft().result(tool.as_deref(), call_id, answer, sink)
    }

    fn assistant(
        &mut self,
        line: Object<'_>,
        message: Object<'_>,
        shared: &mut Line<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Rejected> {
        shared.whose.model = message.text("model")?.map(str::to_owned);
        let reply = message.text("id")?.unwrap_or(shared.uuid).to_owned();
        let usage = message.object("usage")?.map(|usage| Spent {
            input_tokens: ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]
                .iter()
                .map(|name| usage.tokens(name))
                .fold(0, u64::saturating_add),
            cached_tokens: usage.tokens("cache_read_input_tokens"),
            output_tokens: usage.tokens("output_tokens"),
            cost_usd: line.value("costUSD").as_f64().unwrap_or(0.0).max(0.0),
        });
        shared.turn = Some(self.note_reply(&reply, shared.whose.agent_id.as_deref(), usage));
        let is_final = message.text("stop_reason")? == Some("end_turn");
        let is_over = is_final || matches!(message.text("stop_reason")?, Some("stop_sequence" | "max_tokens" | "refusal"));
        let blocks = match message.value("content") {
            Value::Array(blocks) => blocks.as_slice(),
            Value::String(said) => {
                shared.spent = self.take_spent(&reply);
                return shared.draft().message("assistant", said, is_final, sink);
            }
            _ => return Err(Rejected::at(Reason::BadType, "message/content")),
        };
        for (at, block) in blocks_of(blocks).enumerate() {
            let (kind, block) = block?;
            match kind {
                "text" => {
                    let said = block.text("text")?.unwrap_or_default();
                    self.release(sink)?;
                    let is_last = !blocks.iter().skip(at + 1).any(is_event);
                    if is_last && is_over {
                        shared.spent = self.take_spent(&reply);
                    }
                    if is_last && !is_over && self.has_spent(&reply) {
                        let held = shared.held(&reply, said);
                        held.check()?;
                        self.held = Some(held);
                    } else {
                        shared.draft().message("assistant", said, is_final, sink)?;
                    }
                }
                "tool_use" | "server_tool_use" => {
                    let (tool, call_id) = (block.required("name")?, block.required("id")?);
                    self.open.insert(call_id, tool);
                    let args = text::arguments(block.value("input"));
                    self.release(sink)?;
                    shared.spent = self.take_spent(&reply);
                    shared.draft().call(tool, call_id, args, sink)?;
                }
                "web_search_tool_result" | "web_fetch_tool_result" => self.result(line, block, shared, sink)?,
                other => sink.tally.ignore(other),
            }
        }
        Ok(())
    }

    /// Notes a line of a reply; the reply's number. What the agent's reply before could not give to any event goes to this one.
    fn note_reply(&mut self, id: &str, agent: Option<&str>, usage: Option<Spent>) -> u64 {
        if let Some(reply) = self.replies.iter_mut().rev().find(|reply| reply.id == id) {
            // A later line of it may know more.
            if let (false, Some(usage)) = (reply.is_counted, usage) {
                reply.spent = Some(usage);
            }
            return reply.turn;
        }
        let mut spent = usage;
        for before in self.replies.iter_mut().filter(|reply| reply.agent.as_deref() == agent) {
            if let Some(left) = before.spent.take() {
                before.is_counted = true;
                spent = Some(spent.map_or(left, |spent| spent.plus(left)));
            }
        }
        self.turn += 1;
        if self.replies.len() >= REPLIES_MAX {
            self.replies.pop_front();
        }
        let (id, agent) = (id.to_owned(), agent.map(str::to_owned));
        self.replies.push_back(Reply { id, agent, turn: self.turn, spent, is_counted: false });
        self.turn
    }

    fn has_spent(&self, id: &str) -> bool {
        self.replies.iter().any(|reply| reply.id == id && reply.spent.is_some())
    }

    fn take_spent(&mut self, id: &str) -> Option<Spent> {
        let reply = self.replies.iter_mut().rev().find(|reply| reply.id == id)?;
        reply.is_counted |= reply.spent.is_some();
        reply.spent.take()
    }

    /// Lets the text go, whose reply goes on: a call may still come.
    fn release(&mut self, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        self.held.take().map_or(Ok(()), |held| held.send(None, sink))
    }

    /// Lets the text go before a line of an agent. Only a line of its own says that its reply is over.
    fn let_go(&mut self, agent: Option<&str>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let spent = if agent == held.whose.agent_id.as_deref() { self.take_spent(&held.reply) } else { None };
        held.send(spent, sink)
    }
}

impl Held {
    /// Whether it can be sent once its time has come: the line that it comes from is refused now or never.
    fn check(&self) -> Result<(), Rejected> {
        let most = Spent { input_tokens: u64::MAX, cached_tokens: u64::MAX, output_tokens: u64::MAX, cost_usd: 1e9 };
        let (mut made, mut tally) = (Vec::new(), Tally::default());
        self.send(Some(most), &mut Sink { out: &mut made, tally: &mut tally })
    }

    fn send(&self, spent: Option<Spent>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let draft = Draft { whose: &self.whose, id: self.id.clone(), time: self.time, turn: self.turn, spent };
        draft.message("assistant", &self.said, false, sink)
    }
}

/// Whether a block of a reply makes an event.
fn is_event(block: &Value) -> bool {
    matches!(block.get("type").and_then(Value::as_str), Some("text" | "tool_use" | "server_tool_use"))
}

/// The blocks of a message with their types; an error where one is no object or has none.
fn blocks_of(blocks: &[Value]) -> impl Iterator<Item = Result<(&str, Object<'_>), Rejected>> {
    blocks.iter().map(|block| {
        let block = block.as_object().map(Object).ok_or_else(|| Rejected::at(Reason::BadType, "message/content"))?;
        Ok((block.required("type")?, block))
    })
}

/// A prompt that a person typed while the agent was at work. What the program queues itself has another mode, or says where it is from.
fn queued_prompt(line: Object<'_>) -> Option<&Value> {
    let attachment = line.object_if_any("attachment")?;
    let origin = attachment.object_if_any("origin").and_then(|origin| origin.text_if_any("kind"));
    let is_typed = attachment.text_if_any("type") == Some("queued_command")
        && matches!(attachment.text_if_any("commandMode"), None | Some("prompt"))
        && matches!(origin, None | Some("human"))
        && !attachment.is_true("isMeta");
    attachment.get("prompt").filter(|prompt| is_typed && (prompt.is_string() || prompt.is_array()))
}

/// An answer without the name of the file that all of it was saved to, and whether it is only its beginning. Equal beginnings stay
/// equal so, and as they are marked as cut they still count as calls again, but prove no equal outcome: what follows may differ.
fn without_file(said: String) -> (String, bool) {
    let parts = if said.starts_with(PERSISTED) { said.split_once(SAVED_TO) } else { None };
    // Behind the blank line is the tool's own text, where the words mean nothing.
    let Some((head, rest)) = parts.filter(|(head, _)| !head.contains("\n\n")) else { return (said, false) };
    let preview = rest.find('\n').and_then(|end| rest.get(end..)).unwrap_or_default();
    (format!("{head}{SAVED_TO}{preview}"), true)
}

fn person(said: &str, shared: &mut Line<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
    if NOT_A_PERSON.iter().any(|beginning| said.trim_start().starts_with(beginning)) {
        sink.tally.ignore("local command");
        return Ok(());
    }
    shared.draft().message("user", said, false, sink)
}
