//! Bytes to `Event`.

use std::borrow::Cow;

use crate::event::{
    Ack, Call, CallResult, Content, Event, EventKind, EventTime, MAIN_AGENT, Message, Outcome, Reason, Record, RecordMeta,
    Rejected, ResetScope, Role, answer, field, json, part, stop,
};
use crate::event::{field::Cuts, wire::Wire};
use crate::limits::{DESCRIPTION_CHARS_MAX, FUTURE_MS_MAX, STATE_CHARS_MAX, TEXT_CHARS_MAX};
use crate::whom::Kind;

pub(crate) const KINDS: [&str; 12] = [
    "tool_call",
    "tool_result",
    "tool",
    "message",
    "session_start",
    "session_end",
    "progress",
    "reset",
    "ack",
    STOP,
    RELEASE,
    "answer",
];
const STOP: &str = "stop";
const RELEASE: &str = "release";

/// Decodes one record value.
///
/// # Errors
/// [`Rejected`] with a reason and the field concerned.
pub fn decode<'a>(value: Option<&'a [u8]>, record: &RecordMeta<'a>) -> Result<Event<'a>, Rejected> {
    let bytes = value.ok_or_else(|| Rejected::whole(Reason::NullValue))?;
    if bytes.len() > record.value_bytes_max {
        return Err(Rejected::whole(Reason::TooLarge));
    }
    let text = json::text(bytes).ok_or_else(|| Rejected::whole(Reason::NotUtf8))?;
    let mut wire = Wire::default();
    match wire.read(text) {
        Some(Ok(())) => {}
        Some(Err(name)) => return Err(Rejected::at(Reason::DuplicateField, name)),
        None => return Err(why_unreadable(text)),
    }
    check_format(&wire)?;
    event(&wire, record)
}

impl<'a> Record<'a> {
    /// The event in it.
    ///
    /// # Errors
    /// As [`decode`].
    pub fn decode(&self) -> Result<Event<'a>, Rejected> {
        decode(self.value, &self.meta)
    }
}

/// What is wrong with a text that is no sound object.
fn why_unreadable(text: &str) -> Rejected {
    let first = text.as_bytes().get(json::skip_space(text, 0));
    let faults = json::faults(text);
    let reason = match (first, json::is_valid(text)) {
        (Some(b'{' | b'['), _) if faults.is_too_deep => Reason::TooDeep,
        (_, false) => Reason::NotJson,
        (Some(b'{'), true) => return faults.surrogate.map_or(Rejected::whole(Reason::NotJson), |at| surrogate_at(text, at)),
        (Some(b'['), true) => Reason::UnsupportedFormat,
        (_, true) => Reason::NotAnObject,
    };
    Rejected::whole(reason)
}

/// The field at fault for an unpaired surrogate; none is named where the surrogate is in an unknown field's name or value.
fn surrogate_at(text: &str, at: usize) -> Rejected {
    let mut fields = json::fields(text);
    let mut known = None;
    while let Some((key, value)) = fields.next() {
        let end = fields.offset();
        if (end - value.len()..end).contains(&at) {
            known = Wire::known_name(&key);
            break;
        }
    }
    known.map_or_else(|| Rejected::whole(Reason::BadValue), |name| Rejected::at(Reason::BadValue, name))
}

fn check_format(wire: &Wire<'_>) -> Result<(), Rejected> {
    if wire.specversion.is_some() && wire.data.is_some() {
        return Err(Rejected::whole(Reason::UnsupportedFormat));
    }
    match wire.v {
        None => Ok(()),
        Some(version) if field::is_version(version) => Ok(()),
        Some(_) => Err(Rejected::at(Reason::UnsupportedVersion, "v")),
    }
}

fn event<'a>(wire: &Wire<'a>, record: &RecordMeta<'a>) -> Result<Event<'a>, Rejected> {
    let mut cuts = Cuts::default();
    let id = field::required(field::name_or_header(wire.id, "id", record, "ce_id")?, "id")?;
    let kind_name = field::required(field::text(wire.kind, "kind")?, "kind")?;
    if !KINDS.contains(&kind_name.as_ref()) {
        return Err(Rejected::at(Reason::UnknownKind, "kind"));
    }
    let session_id = field::name_or_header(wire.session_id, "session_id", record, "ce_subject")?;
    let tenant = field::name(wire.tenant, "tenant")?;
    let swarm_id = field::name(wire.swarm_id, "swarm_id")?;
    let command_id = field::name(wire.command_id, "command_id")?;
    let agent = part::agent(wire.agent)?;
    let stop_scope = if matches!(kind_name.as_ref(), STOP | RELEASE) { Some(stop::scope(wire)?) } else { None };
    let session_id = match stop_scope {
        Some(scope) => stop::session_id(scope, session_id, &agent, swarm_id.as_ref(), tenant.as_ref())?,
        None => field::required(session_id, "session_id")?,
    };

    let given = field::time(wire.time, "time")?.or_else(|| field::header(record, "ce_time").and_then(EventTime::parse_rfc3339));
    let latest = record.timestamp.plus_ms(FUTURE_MS_MAX);
    let traceparent = field::text(wire.traceparent, "traceparent")?
        .filter(|text| field::is_traceparent(text))
        .or_else(|| field::header(record, "traceparent").filter(|text| field::is_traceparent(text)).map(Into::into));

    // Every known field is held to its type, whatever the kind: an event is valid for all readers or for none.
    let call = Call {
        tool: "".into(),
        call_id: field::name(wire.call_id, "call_id")?,
        description: field::cut_text(wire.description, "description", DESCRIPTION_CHARS_MAX, &mut cuts)?,
        args: field::content(wire.args, wire.args_sha256, "args_sha256")?,
    };
    let tool = field::name(wire.tool, "tool")?;
    let result = call_result(wire, tool.clone(), call.call_id.clone(), &mut cuts)?;
    let role = field::choice(wire.role, "role", role)?;
    let message_text = field::message_text(wire.text, "text", TEXT_CHARS_MAX, &mut cuts)?;
    let text_sha256 = field::sha256(wire.text_sha256, "text_sha256")?;
    let is_final = field::flag(wire.is_final, "final")?;
    let is_synthetic = field::flag(wire.synthetic, "synthetic")?;
    let scope = if stop_scope.is_none() { field::choice(wire.scope, "scope", reset_scope)? } else { None };
    let ack = field::choice(wire.ack, "ack", ack)?;
    field::count(wire.args_bytes, "args_bytes")?;

    let kind = match kind_name.as_ref() {
        STOP => EventKind::Stop(stop::stop(wire, field::required(stop_scope, "scope")?, record)?),
        RELEASE => EventKind::Release(stop::release(wire, field::required(stop_scope, "scope")?)?),
        "answer" => EventKind::Answer(answer::answer(wire, record)?),
        "tool_call" => EventKind::ToolCall(Call { tool: field::required(tool, "tool")?, ..call }),
        "tool_result" if tool.is_none() && call.call_id.is_none() => return Err(Rejected::at(Reason::MissingField, "call_id")),
        "tool_result" => EventKind::ToolResult(result),
        "tool" => EventKind::Tool(Call { tool: field::required(tool, "tool")?, ..call }, result),
        "message" => EventKind::Message(Message {
            role: field::required(role, "role")?,
            text: message_text,
            text_sha256,
            is_final,
            is_synthetic,
        }),
        "session_start" => EventKind::SessionStart,
        "session_end" => EventKind::SessionEnd,
        "progress" => EventKind::Progress,
        "reset" if scope == Some(ResetScope::Swarm) && swarm_id.is_none() => {
            return Err(Rejected::at(Reason::MissingField, "swarm_id"));
        }
        "reset" => EventKind::Reset(scope.unwrap_or(ResetScope::Session)),
        "ack" if command_id.is_none() => return Err(Rejected::at(Reason::MissingField, "command_id")),
        "ack" => EventKind::Ack(field::required(ack, "ack")?),
        _ => return Err(Rejected::at(Reason::UnknownKind, "kind")),
    };

    Ok(Event {
        id,
        tenant,
        session_id,
        has_agent: agent.id.is_some(),
        agent_id: agent.id.unwrap_or(MAIN_AGENT.into()),
        swarm_id,
        parent_id: agent.parent_id,
        root_id: agent.root_id,
        time: given.unwrap_or(record.timestamp).min(latest),
        time_clamped: given.is_some_and(|time| time > latest),
        has_time: given.is_some(),
        record_time: record.timestamp,
        seq: field::count(wire.seq, "seq")?,
        turn: field::count(wire.turn, "turn")?,
        state: field::bounded_text(wire.state, "state", STATE_CHARS_MAX)?,
        command_id,
        traceparent,
        labels: part::labels(wire.labels, &mut cuts)?,
        usage: part::usage(wire.usage)?,
        model: agent.model,
        texts_cut: cuts.0,
        kind,
    })
}

fn call_result<'a>(
    wire: &Wire<'a>,
    tool: Option<Cow<'a, str>>,
    call_id: Option<Cow<'a, str>>,
    cuts: &mut Cuts,
) -> Result<CallResult<'a>, Rejected> {
    let error = part::error(wire.error, cuts)?;
    let result = field::content(wire.result, wire.result_sha256, "result_sha256")?;
    let truncated = field::flag(wire.truncated, "truncated")?;
    let stable_result = match (wire.stable_result, field::sha256(wire.result_sha256, "result_sha256")?) {
        (Some(stable), _) => Content::Raw(stable),
        // A cut result proves nothing, the hash of the whole one does: it is what comparisons are made with.
        (None, Some(hash)) if truncated => Content::Sha256(hash),
        (None, _) => Content::Absent,
    };
    let silent = if error.is_error() {
        Outcome::Error
    } else if result.is_absent() && stable_result.is_absent() {
        Outcome::Unknown
    } else {
        Outcome::Ok
    };
    Ok(CallResult {
        tool,
        call_id,
        result,
        stable_result,
        truncated,
        result_bytes: field::count(wire.result_bytes, "result_bytes")?,
        outcome: field::choice(wire.outcome, "outcome", outcome)?.unwrap_or(silent),
        // Many producers always send the field; an empty text is none.
        error_type: error.kind.filter(|text| !text.is_empty()),
        error_message: error.message.filter(|text| !text.is_empty()),
        exit_code: error.exit_code,
        // A cast from floating point saturates.
        duration_ms: field::number(wire.duration_ms, "duration_ms")?.map(|duration_ms| duration_ms as u64),
    })
}

/// The value that a word stands for.
fn meaning<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    words.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

fn names<T>(words: &[(&'static str, T)]) -> Vec<&'static str> {
    words.iter().map(|(name, _)| *name).collect()
}

const OUTCOMES: [(&str, Outcome); 6] = [
    ("ok", Outcome::Ok),
    ("error", Outcome::Error),
    ("denied", Outcome::Denied),
    ("timeout", Outcome::Timeout),
    ("cancelled", Outcome::Cancelled),
    ("unknown", Outcome::Unknown),
];

fn outcome(word: &str) -> Option<Outcome> {
    meaning(&OUTCOMES, word)
}

/// What the field at fault may hold, where that is one of some words, or an object that producers take for its name.
#[must_use]
pub fn allowed(rejected: &Rejected) -> Option<String> {
    let words = match (rejected.reason, rejected.field.as_str()) {
        (Reason::UnknownKind, _) => KINDS.to_vec(),
        (Reason::BadValue, "/outcome") => names(&OUTCOMES),
        (Reason::BadValue, "/role") => names(&ROLES),
        (Reason::BadValue, "/scope") => {
            return Some(format!("one of {}; of a stop or release also tree, tenant or all", names(&SCOPES).join(", ")));
        }
        (Reason::MissingField, "/scope") => Kind::stopped().map(Kind::as_str).collect(),
        (Reason::BadValue, "/fail") => vec!["open", "closed"],
        (Reason::BadValue, "/reach") => vec!["tenant", "all"],
        (Reason::BadValue, "/until") => {
            return Some("a time of RFC 3339, at most seven days ahead; of an answer thirty".to_owned());
        }
        (Reason::BadValue, "/answer") => vec!["right", "false_alarm", "allow"],
        (Reason::BadValue, "/ack") => names(&ACKS),
        (Reason::BadType, "/agent") => return Some("an object, as {\"id\": \"…\"}".to_owned()),
        _ => return None,
    };
    Some(format!("one of {}", words.join(", ")))
}

const ROLES: [(&str, Role); 3] = [("user", Role::User), ("assistant", Role::Assistant), ("system", Role::System)];

fn role(word: &str) -> Option<Role> {
    meaning(&ROLES, word)
}

const SCOPES: [(&str, ResetScope); 3] =
    [("agent", ResetScope::Agent), ("session", ResetScope::Session), ("swarm", ResetScope::Swarm)];

fn reset_scope(word: &str) -> Option<ResetScope> {
    meaning(&SCOPES, word)
}

const ACKS: [(&str, Ack); 6] = [
    ("received", Ack::Received),
    ("applied", Ack::Applied),
    ("ignored_expired", Ack::IgnoredExpired),
    ("ignored_stale", Ack::IgnoredStale),
    ("ignored_shadow", Ack::IgnoredShadow),
    ("failed", Ack::Failed),
];

fn ack(word: &str) -> Option<Ack> {
    meaning(&ACKS, word)
}
