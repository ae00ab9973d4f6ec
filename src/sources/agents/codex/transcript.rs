//! Codex: one JSON object a line, `{timestamp, type, payload}`. What the model said and asked for is in `response_item`; `event_msg` says
//! most of it again, and how many tokens a reply took. Older files have the items themselves as lines, after a line about the session.
//!
//! **Forks.** A fork's file begins with copies of its parent's items, written at once when it is made and stamped with that time. Nothing marks
//! the last of them. So what a fork has within [`COPIED_WITHIN_MS`] of its own beginning is its parent's, and is left out.

use crate::agents::codex::shell_output;
use loopwarden_core::event::{EventTime, Rejected};
use serde_json::Value;

use crate::transcript::draft::{Answer, Draft, Spent, Whose};
use crate::transcript::fields::{Fields, Sign};
use crate::transcript::log::{Log, Reader};
use crate::transcript::sink::{Open, Sink};
use crate::{text, transcript::object::Object};

/// `~/.codex/sessions/**/rollout-*.jsonl`.
pub(super) const LOG: Log = Log { open: |name| Box::new(Codex::new(name)), knows, begins: |_| false };

/// Kinds of its lines.
const LINES: [&str; 5] = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

fn knows(fields: &Fields<'_>) -> Sign {
    let kind = fields.text("type");
    let is_line = kind.as_deref().is_some_and(|kind| LINES.contains(&kind)) && fields.has("payload");
    // Older ones.
    let is_likely = match kind.as_deref() {
        Some("message") => fields.have(&["role", "content"]),
        Some(_) => false,
        None => fields.have(&["id", "timestamp", "instructions"]),
    };
    Sign::of(is_line, is_likely)
}

/// Beginnings of texts that the program writes in a person's name.
const NOT_A_PERSON: [&str; 10] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "<turn_aborted>",
    "<skill>",
    "# AGENTS.md instructions",
    "<subagent_notification>",
    "<user_shell_command>",
    "<codex_internal_context",
    "<recommended_plugins>",
];
/// Numbers of tokens that tell one total from another.
const TOTALS: [&str; 4] = ["input_tokens", "cached_input_tokens", "output_tokens", "total_tokens"];

/// Copies of a fork are written within this time of its first line; a model's first answer comes later. Milliseconds.
const COPIED_WITHIN_MS: i64 = 2_000;

#[derive(Debug)]
struct Codex {
    whose: Whose,
    open: Open,
    /// Events so far: lines have no id.
    count: u64,
    /// Events before the last line about a session. A rollout that was forked has its parent's line behind its own.
    named_at: Option<u64>,
    /// When the session began, by the time of its line.
    began: Option<EventTime>,
    /// It was forked from another one, whose items come first.
    is_fork: bool,
    turn: u64,
    /// Whatever the model says next is another reply: its tokens were counted, or it was answered. Not every version counts tokens.
    is_reply_over: bool,
    spent: Option<Spent>,
    /// What the session took as it was last told: it is told again where nothing was added.
    total: Option<[u64; 4]>,
}

impl Reader for Codex {
    fn piece(&mut self, line: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let time = line.time("timestamp")?;
        let Some(kind) = line.text("type")? else {
            // The first line of older files; and their notes about the program's own state.
            if line.has("record_type") {
                sink.tally.ignore("state");
                return Ok(());
            }
            if self.count > 0 && !line.has("instructions") {
                line.required("type")?;
            }
            return self.session(line, time);
        };
        let Some(payload) = line.object("payload")? else { return self.item(kind, line, time, sink) };
        match kind {
            "session_meta" => self.session(payload, time),
            "turn_context" => {
                self.whose.model = payload.text("model")?.map(str::to_owned);
                Ok(())
            }
            "response_item" if self.is_copy(time) => {
                sink.tally.ignore("forked");
                Ok(())
            }
            "response_item" => self.item(payload.required("type")?, payload, time, sink),
            "event_msg" => {
                let name = payload.required("type")?;
                if name == "token_count" {
                    self.usage(payload)?;
                    if self.is_copy(time) {
                        // The parent's; its total is where the fork's begins.
                        self.spent = None;
                    }
                    Ok(())
                } else {
                    sink.tally.ignore(name);
                    Ok(())
                }
            }
            other => {
                sink.tally.ignore(other);
                Ok(())
            }
        }
    }
}

impl Codex {
    fn new(name: &str) -> Self {
        let whose = Whose { session_id: name.to_owned(), framework: "codex", ..Whose::default() };
        Self {
            whose,
            open: Open::default(),
            count: 0,
            named_at: None,
            began: None,
            is_fork: false,
            turn: 0,
            is_reply_over: true,
            spent: None,
            total: None,
        }
    }

    fn session(&mut self, about: Object<'_>, time: Option<EventTime>) -> Result<(), Rejected> {
        let id = match about.text("id")? {
            Some(id) => id,
            None => about.required("session_id")?,
        };
        if self.named_at.replace(self.count) == Some(self.count) {
            // Older versions name the parent by its own line only.
            self.is_fork |= id != self.whose.session_id;
        } else {
            id.clone_into(&mut self.whose.session_id);
            (self.began, self.is_fork) = (time, about.text("forked_from_id")?.is_some());
        }
        Ok(())
    }

    /// Whether what was written then is a copy of the parent's.
    fn is_copy(&self, time: Option<EventTime>) -> bool {
        let (Some(time), Some(began)) = (time, self.began.filter(|_| self.is_fork)) else { return false };
        time.0.saturating_sub(began.0) <= COPIED_WITHIN_MS
    }

    /// Comes after a reply: its usage goes with the next event.
    fn usage(&mut self, payload: Object<'_>) -> Result<(), Rejected> {
        let Some(info) = payload.object("info")? else { return Ok(()) };
        let Some(last) = info.object("last_token_usage")? else { return Ok(()) };
        let total = info.object_if_any("total_token_usage").map(|total| TOTALS.map(|name| total.tokens(name)));
        if total.is_none() || total != self.total {
            self.total = total;
            self.is_reply_over = true;
            self.spent = Some(Spent {
                input_tokens: last.tokens("input_tokens"),
                cached_tokens: last.tokens("cached_input_tokens"),
                output_tokens: last.tokens("output_tokens"),
                cost_usd: 0.0,
            });
        }
        Ok(())
    }

    /// The model says something: the reply it belongs to.
    fn reply(&mut self) {
        self.turn += u64::from(std::mem::take(&mut self.is_reply_over));
    }

    fn draft(&mut self, time: Option<EventTime>) -> Draft<'_> {
        self.count += 1;
        let id = format!("{}#{}", time.map(EventTime::to_rfc3339).unwrap_or_default(), self.count);
        Draft { whose: &self.whose, id, time, turn: Some(self.turn), spent: self.spent.take() }
    }

    fn item(&mut self, kind: &str, item: Object<'_>, time: Option<EventTime>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        match kind {
            "message" => self.message(item, time, sink),
            "function_call" | "custom_tool_call" | "tool_search_call" => {
                let name = item.text("name")?.unwrap_or(if kind == "tool_search_call" { "tool_search" } else { "" });
                let tool = match item.text("namespace")? {
                    Some(namespace) if !namespace.is_empty() => format!("{namespace}__{name}"),
                    _ => name.to_owned(),
                };
                let args = item.get("arguments").unwrap_or_else(|| item.value("input"));
                self.call(item, &tool, text::arguments(args), time, sink)
            }
            "local_shell_call" => {
                let args = item.value("action").clone();
                self.call(item, "local_shell", args, time, sink)
            }
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => self.output(item, time, sink),
            "web_search_call" => {
                let args = item.value("action").clone();
                let outcome = match item.text("status")? {
                    Some("completed") => "ok",
                    Some("failed") => "error",
                    _ => "unknown",
                };
                self.reply();
                self.draft(time).tool("web_search", args, Answer { outcome, ..Answer::default() }, sink)
            }
            other => {
                sink.tally.ignore(other);
                Ok(())
            }
        }
    }

    fn message(&mut self, item: Object<'_>, time: Option<EventTime>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let said = text::content(item.value("content"), "payload/content")?;
        let role = item.required("role")?;
        match role {
            "assistant" => {
                let is_final = item.text("phase")? == Some("final_answer");
                self.reply();
                self.draft(time).message("assistant", &said, is_final, sink)
            }
            "user" if !NOT_A_PERSON.iter().any(|beginning| said.trim_start().starts_with(beginning)) => {
                self.is_reply_over = true;
                self.draft(time).message("user", &said, false, sink)
            }
            _ => {
                sink.tally.ignore("instructions");
                Ok(())
            }
        }
    }

    fn call(
        &mut self,
        item: Object<'_>,
        tool: &str,
        args: Value,
        time: Option<EventTime>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Rejected> {
        let call_id = match item.text("call_id")? {
            Some(id) => id,
            None => item.required("id")?,
        };
        self.open.insert(call_id, tool);
        self.reply();
        self.draft(time).call(tool, call_id, args, sink)
    }

    fn output(&mut self, item: Object<'_>, time: Option<EventTime>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let call_id = item.required("call_id")?;
        self.is_reply_over = true;
        let output = item.value("output");
        // `{content, success}` in some versions.
        let (said, success) = match output {
            Value::Object(fields) => {
                let fields = Object(fields);
                (text::content(fields.value("content"), "payload/output")?, fields.value("success").as_bool())
            }
            other => (text::content(other, "payload/output")?, None),
        };
        let (result, exit_code) = shell_output::unwrapped(said);
        let outcome = shell_output::outcome(&result, exit_code, success);
        let answer = Answer::of(&result, outcome, exit_code.filter(|code| *code != 0));
        let tool = self.open.get(call_id).map(str::to_owned);
        self.draft(time).result(tool.as_deref(), call_id, answer, sink)
    }
}
