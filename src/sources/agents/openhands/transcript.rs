//! OpenHands: a trajectory (an array of events, or a line each), or a directory with a file for each event.
//!
//! Two generations. The older has `action` or `observation`, and `cause`, the id of the action that an observation answers. The
//! newer has `kind`, and `tool_call_id` on both. Neither names the session. Times have no zone and are meant as UTC. A line of an
//! evaluation's output holds the events of one instance in `history`.

use loopwarden_core::event::{EventTime, Reason, Rejected};
use serde_json::{Map, Value};

use crate::transcript::draft::{Answer, Draft, Spent, Whose};
use crate::transcript::fields::{Fields, Sign};
use crate::transcript::log::{Log, Reader};
use crate::{text, transcript::object::Object, transcript::sink::Sink};

/// A trajectory, or a directory of events.
pub(super) const LOG: Log = Log { open: |name| Box::new(OpenHands::new(name)), knows, begins: |_| false };

/// Kinds of the newer events that may come first.
const FIRST: [&str; 5] = ["SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "ConversationStateUpdateEvent"];

fn knows(fields: &Fields<'_>) -> Sign {
    let is_older = fields.has("timestamp") && (fields.text("action").or_else(|| fields.text("observation"))).is_some();
    let is_newer = fields.text("kind").is_some_and(|kind| FIRST.contains(&&*kind));
    let is_evaluation = fields.has("instance_id") && fields.is_list("history");
    Sign::of(false, fields.has("source") && (is_older || is_newer) || is_evaluation)
}

/// Actions that are no calls of the agent.
const NO_CALLS: [&str; 8] =
    ["null", "system", "recall", "change_agent_state", "condensation", "condensation_request", "loop_recovery", "stream_chunk"];
/// Fields of an action's arguments that are no arguments of the call.
const NO_ARGUMENTS: [&str; 11] = [
    "thought",
    "hidden",
    "blocking",
    "keep_prompt",
    "confirmation_state",
    "is_static",
    "is_confirmed",
    "security_risk",
    "impl_source",
    "image_urls",
    "kernel_init_code",
];
/// Observations that answer nothing.
const NO_ANSWERS: [&str; 5] = ["null", "agent_state_changed", "recall", "condense", "loop_recovery"];

#[derive(Debug)]
struct OpenHands {
    whose: Whose,
    /// The reply whose usage was counted last.
    reply: String,
    turn: u64,
    /// Cost so far, as the log sums it up.
    cost_usd: f64,
}

impl Reader for OpenHands {
    fn piece(&mut self, event: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        if let Value::Array(history) = event.value("history") {
            if let Some(id) = event.text("instance_id")? {
                id.clone_into(&mut self.whose.session_id);
            }
            return history.iter().try_for_each(|event| self.of_history(event, sink));
        }
        if let Some(kind) = event.text("kind")? {
            return self.newer(kind, event, sink);
        }
        if let Some(action) = event.text("action")? {
            return self.action(action, event, sink);
        }
        match event.text("observation")? {
            Some(observation) => self.observation(observation, event, sink),
            None => Err(Rejected::at(Reason::MissingField, "action")),
        }
    }
}

impl OpenHands {
    fn new(name: &str) -> Self {
        let whose = Whose { session_id: name.to_owned(), framework: "openhands", ..Whose::default() };
        Self { whose, reply: String::new(), turn: 0, cost_usd: 0.0 }
    }

    /// Some outputs pair an action with its observation.
    fn of_history(&mut self, event: &Value, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        match event {
            Value::Object(event) if !event.contains_key("history") => self.piece(Object(event), sink),
            Value::Array(pair) => pair.iter().filter_map(Value::as_object).try_for_each(|event| self.piece(Object(event), sink)),
            _ => Err(Rejected::at(Reason::BadType, "history")),
        }
    }

    fn draft(&self, id: String, time: Option<EventTime>, spent: Option<Spent>) -> Draft<'_> {
        Draft { whose: &self.whose, id, time, turn: Some(self.turn), spent }
    }

    fn action(&mut self, action: &str, event: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let (id, time) = (number(event, "id")?, event.time("timestamp")?);
        let source = event.text("source")?.unwrap_or_default();
        let empty = Map::new();
        let args = event.object("args")?.unwrap_or(Object(&empty));
        let of_args = |name| args.text_if_any(name).unwrap_or_default();
        if action == "message" {
            let role = if source == "user" { "user" } else { "assistant" };
            return self.draft(format!("a{id}"), time, None).message(role, of_args("content"), false, sink);
        }
        if NO_CALLS.contains(&action) || source != "agent" {
            sink.tally.ignore(action);
            return Ok(());
        }
        let about = event.object("tool_call_metadata")?;
        let reply = about.map(|about| about.object("model_response")).transpose()?.flatten();
        let spent = self.spent(event, reply)?;
        if matches!(action, "finish" | "reject") {
            let said = [of_args("final_thought"), of_args("thought")].into_iter().find(|said| !said.is_empty());
            return self.draft(format!("a{id}"), time, spent).message("assistant", said.unwrap_or("done"), true, sink);
        }
        let named = about.map(|about| about.text("function_name")).transpose()?.flatten();
        let said = about.zip(reply).and_then(|(about, reply)| said_arguments(about, reply));
        let args = said.unwrap_or_else(|| args.arguments(&NO_ARGUMENTS));
        self.draft(format!("a{id}"), time, spent).call(named.unwrap_or(action), &format!("c{id}"), args, sink)
    }

    /// Usage of a reply, once; cost as far as its sum has grown. An action of which no reply is known is a turn of its own: what names no
    /// replies asked for one action in each.
    fn spent(&mut self, event: Object<'_>, reply: Option<Object<'_>>) -> Result<Option<Spent>, Rejected> {
        let Some(reply) = reply else {
            self.turn += 1;
            return Ok(None);
        };
        self.whose.model = reply.text("model")?.map(str::to_owned);
        let id = reply.text("id")?.unwrap_or_default();
        if !id.is_empty() && id == self.reply {
            return Ok(None);
        }
        id.clone_into(&mut self.reply);
        self.turn += 1;
        let sum = event.object_if_any("llm_metrics").and_then(|metrics| metrics.value("accumulated_cost").as_f64());
        let cost_usd = sum.map_or(0.0, |sum| (sum - self.cost_usd).max(0.0));
        self.cost_usd = sum.unwrap_or(self.cost_usd);
        Ok(reply.object("usage")?.map(|usage| Spent {
            input_tokens: usage.tokens("prompt_tokens"),
            cached_tokens: 0,
            output_tokens: usage.tokens("completion_tokens"),
            cost_usd,
        }))
    }

    fn observation(&self, observation: &str, event: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let cause = event.value("cause").as_u64();
        let (Some(cause), false) = (cause, NO_ANSWERS.contains(&observation)) else {
            sink.tally.ignore(observation);
            return Ok(());
        };
        let (id, time) = (number(event, "id")?, event.time("timestamp")?);
        let said = text::content(event.value("content"), "content")?;
        let exit_code = event.object_if_any("extras").and_then(|extras| {
            let of_metadata = extras.object_if_any("metadata").and_then(|metadata| metadata.get("exit_code"));
            of_metadata.unwrap_or_else(|| extras.value("exit_code")).as_i64()
        });
        let has_failed = observation == "error" || event.value("success") == &Value::Bool(false) || said.starts_with("ERROR:");
        let outcome = match exit_code {
            _ if observation == "user_rejected" => "denied",
            // The command still runs; what it has said so far is there.
            Some(-1) if said.contains("timed out") => "timeout",
            Some(code) if code > 0 => "error",
            _ if has_failed => "error",
            _ => "ok",
        };
        let answer = Answer::of(&said, outcome, exit_code.filter(|code| *code > 0));
        self.draft(format!("o{id}"), time, None).result(None, &format!("c{cause}"), answer, sink)
    }

    fn newer(&mut self, kind: &str, event: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected> {
        let id = event.text("id")?.unwrap_or_default().to_owned();
        let time = event.time("timestamp")?;
        match kind {
            "MessageEvent" => {
                let message = event.object("llm_message")?;
                let said = text::content(message.map_or(&Value::Null, |message| message.value("content")), "llm_message")?;
                let role = if event.text("source")? == Some("user") { "user" } else { "assistant" };
                self.draft(id, time, None).message(role, &said, false, sink)
            }
            "ActionEvent" => {
                let reply = event.text("llm_response_id")?.unwrap_or_default();
                if reply.is_empty() || reply != self.reply {
                    reply.clone_into(&mut self.reply);
                    self.turn += 1;
                }
                let (tool, call_id) = (event.required("tool_name")?, event.required("tool_call_id")?);
                let said = event.object("tool_call")?.and_then(|call| call.get("arguments"));
                let action = event.object("action")?;
                if tool == "finish" {
                    let said = action.and_then(|action| action.text_if_any("message")).unwrap_or("done");
                    return self.draft(id, time, None).message("assistant", said, true, sink);
                }
                let args = match (said, action) {
                    (Some(said), _) => text::arguments(said),
                    (None, Some(action)) => action.arguments(&["kind"]),
                    (None, None) => Value::Null,
                };
                self.draft(id, time, None).call(tool, call_id, args, sink)
            }
            "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation" => self.answered(kind, id, time, event, sink),
            other => {
                sink.tally.ignore(other);
                Ok(())
            }
        }
    }

    fn answered(
        &self,
        kind: &str,
        id: String,
        time: Option<EventTime>,
        event: Object<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Rejected> {
        let tool = event.text("tool_name")?;
        if tool == Some("finish") {
            sink.tally.ignore("finish");
            return Ok(());
        }
        let call_id = event.required("tool_call_id")?;
        let answer = match kind {
            "AgentErrorEvent" => Answer::of(event.text("error")?.unwrap_or_default(), "error", None),
            "UserRejectObservation" => Answer::of(event.text("rejection_reason")?.unwrap_or_default(), "denied", None),
            _ => {
                let observed = event.object("observation")?.ok_or_else(|| Rejected::at(Reason::MissingField, "observation"))?;
                let said =
                    ["content", "output", "error"].map(|name| observed.value(name)).into_iter().find(|said| !said.is_null());
                let said = text::content(said.unwrap_or(&Value::Null), "observation/content")?;
                let of_metadata = || observed.object_if_any("metadata").and_then(|about| about.get("exit_code"));
                let code = observed.get("exit_code").or_else(of_metadata).and_then(Value::as_i64);
                let has_failed = observed.is_true("is_error") || observed.is_true("error");
                let outcome = match code {
                    _ if observed.is_true("timeout") => "timeout",
                    Some(code) if code > 0 => "error",
                    _ if has_failed => "error",
                    _ => "ok",
                };
                Answer::of(&said, outcome, code.filter(|code| *code > 0))
            }
        };
        self.draft(id, time, None).result(tool, call_id, answer, sink)
    }
}

/// The arguments as the model wrote them.
fn said_arguments(about: Object<'_>, reply: Object<'_>) -> Option<Value> {
    let id = about.get("tool_call_id")?;
    let calls = reply.get("choices")?.get(0)?.get("message")?.get("tool_calls")?.as_array()?;
    let call = calls.iter().find(|call| call.get("id") == Some(id))?;
    Some(text::arguments(call.get("function")?.get("arguments")?))
}

fn number(event: Object<'_>, name: &str) -> Result<u64, Rejected> {
    match event.get(name) {
        Some(value) => value.as_u64().ok_or_else(|| Rejected::at(Reason::BadType, name)),
        None => Err(Rejected::at(Reason::MissingField, name)),
    }
}
