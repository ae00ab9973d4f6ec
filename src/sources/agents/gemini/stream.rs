//! Gemini CLI's `--output-format stream-json`: a line for each message, call and result. Lines have no id. A text of the model comes in
//! parts, so it waits for the line behind it; the last line has the tokens of the whole run, which go with the last text.

use loopwarden_core::event::{EventTime, Rejected};

use crate::transcript::PIECE_BYTES_MAX;
use crate::transcript::draft::{Answer, Draft, Spent, Whose};
use crate::transcript::fields::Fields;
use crate::transcript::sink::{Open, Sink};
use crate::{text, transcript::object::Object};

/// Whether an object is such a line.
pub(super) fn is_line(fields: &Fields<'_>) -> bool {
    let names: &[&str] = match fields.text("type").as_deref() {
        Some("init") => &["session_id", "model"],
        Some("message") => &["timestamp", "role", "content"],
        Some("tool_use") => &["tool_id", "tool_name"],
        Some("tool_result") => &["tool_id", "status"],
        _ => return false,
    };
    fields.have(names)
}

/// What is known of the run so far.
#[derive(Debug, Default)]
pub(super) struct PrintedRun {
    /// Tools of the calls whose result is to come.
    open: Open,
    /// Events so far.
    count: u64,
    turn: u64,
    /// The next text or call of the model is another reply.
    is_answered: bool,
    /// Text of the model since the last line of another kind.
    text: Option<(Option<EventTime>, String)>,
}

impl PrintedRun {
    /// Reads a line that is none of a log on disk.
    pub(super) fn line(&mut self, kind: &str, line: Object<'_>, whose: &mut Whose, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let time = line.time("timestamp")?;
        let is_part = kind == "message" && line.text("role")? == Some("assistant");
        if !is_part && kind != "result" {
            self.finish(None, whose, sink)?;
        }
        match kind {
            "init" => {
                line.required("session_id")?.clone_into(&mut whose.session_id);
                whose.model = line.text("model")?.map(str::to_owned);
            }
            "message" if is_part => {
                self.reply();
                let (_, text) = self.text.get_or_insert_with(|| (time, String::new()));
                if text.len() < PIECE_BYTES_MAX {
                    text.push_str(line.text("content")?.unwrap_or_default());
                }
            }
            "message" => {
                self.is_answered = true;
                self.draft(time, whose).message("user", line.text("content")?.unwrap_or_default(), false, sink)?;
            }
            "tool_use" => {
                self.reply();
                let (tool, call_id) = (line.required("tool_name")?, line.required("tool_id")?);
                self.open.insert(call_id, tool);
                self.draft(time, whose).call(tool, call_id, text::arguments(line.value("parameters")), sink)?;
            }
            "tool_result" => {
                self.is_answered = true;
                let call_id = line.required("tool_id")?;
                let failure = line.object("error")?.map(|error| error.text("message")).transpose()?.flatten();
                let outcome = if line.text("status")? == Some("error") { "error" } else { "ok" };
                let answer = Answer::of(line.text("output")?.or(failure).unwrap_or_default(), outcome, None);
                let tool = self.open.get(call_id).map(str::to_owned);
                self.draft(time, whose).result(tool.as_deref(), call_id, answer, sink)?;
            }
            "result" => {
                let spent = line.object("stats")?.map(|stats| Spent {
                    input_tokens: stats.tokens("input_tokens"),
                    cached_tokens: stats.tokens("cached"),
                    output_tokens: stats.tokens("output_tokens"),
                    cost_usd: 0.0,
                });
                self.finish(spent, whose, sink)?;
            }
            other => sink.tally.ignore(other),
        }
        Ok(())
    }

    /// Hands over the text that waits, with the tokens of the run where it has ended.
    pub(super) fn finish(&mut self, run: Option<Spent>, whose: &Whose, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let Some((time, text)) = self.text.take() else { return Ok(()) };
        let draft = Draft { spent: run, ..self.draft(time, whose) };
        draft.message("assistant", &text, run.is_some(), sink)
    }

    /// The model speaks: the reply it belongs to.
    fn reply(&mut self) {
        self.turn += u64::from(std::mem::take(&mut self.is_answered));
    }

    fn draft<'a>(&mut self, time: Option<EventTime>, whose: &'a Whose) -> Draft<'a> {
        self.count += 1;
        Draft { whose, id: format!("line-{}", self.count), time, turn: Some(self.turn), spent: None }
    }
}
