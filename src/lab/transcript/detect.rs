//! Whose log a file is, by its first bytes. Names and folders say nothing: logs are copied, packed and renamed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use loopwarden_core::event::json;

use crate::transcript::format::Format;

/// Lines that are looked at until one decides.
const LINES_MAX: usize = 32;
/// Lines of Codex.
const CODEX: [&str; 5] = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];
/// Kinds of OpenHands' newer events that may come first.
const OPENHANDS: [&str; 5] =
    ["SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "ConversationStateUpdateEvent"];

/// Tags that Cline's first message has, which is a person's.
const CLINE: [&str; 2] = ["<task>", "<environment_details>"];

/// Fields that tell whose an object is. All else is passed over and not kept: the file may be anybody's, and of any size.
const TELLING: [&str; 29] = [
    "session_id",
    "kind",
    "type",
    "payload",
    "message",
    "uuid",
    "sessionId",
    "leafUuid",
    "snapshot",
    "role",
    "content",
    "id",
    "timestamp",
    "instructions",
    "source",
    "action",
    "observation",
    "instance_id",
    "history",
    "info",
    "messages",
    "projectHash",
    "provenance",
    "agent",
    "ts",
    "created",
    "working_dir",
    "message_count",
    "conversation",
];

/// How pieces lie in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A line each.
    Lines,
    /// One document: an object, or an array whose elements are the pieces.
    Document,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detected {
    /// Events as they are, or at least a line of JSON that could be one.
    Events,
    /// Events in one document: an array of them, or one over several lines.
    EventDocument,
    /// Somebody's log.
    Log(Format, Layout),
    /// Nothing that is known.
    Unknown,
}

/// Tells by the first bytes of a file, plain.
pub fn detect(head: &[u8]) -> Detected {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    // The elements of an array may stand in a line each, and the last of them without a comma: it is still no file of lines.
    let is_array = head.first() == Some(&b'[');
    let by_lines = head.split(|byte| *byte == b'\n').take(LINES_MAX).find_map(|line| whose(line.trim_ascii()));
    if let Some(found) = by_lines.filter(|_| !is_array) {
        return found.map_or(Detected::Events, |format| Detected::Log(format, Layout::Lines));
    }
    let document = head.strip_prefix(b"[").unwrap_or(head);
    if is_array && document.trim_ascii_start().first() == Some(&b']') {
        return Detected::EventDocument;
    }
    let text = beginning(document);
    if let Some(format) = long_document(text).filter(|_| !is_array) {
        return Detected::Log(format, Layout::Document);
    }
    let at = json::skip_space(text, 0);
    match text.get(at..json::value_end(text, at)).and_then(decide) {
        Some(Some(format)) => Detected::Log(format, Layout::Document),
        Some(None) => Detected::EventDocument,
        None => Detected::Unknown,
    }
}

/// Characters of a document that are looked at where the rest of it is not there yet.
const BEGINNING_CHARS: usize = 512;

/// Whose a document over many lines is, by how it begins: its end may be far away.
fn long_document(text: &str) -> Option<Format> {
    let begins: String = text.chars().take(BEGINNING_CHARS).filter(|letter| !letter.is_whitespace()).collect();
    if begins.starts_with(r#"{"info":{"id":"ses_"#) {
        Some(Format::Opencode)
    } else if begins.starts_with(r#"{"sessionId":""#) && begins.contains(r#","projectHash":""#) {
        Some(Format::Gemini)
    } else if begins.starts_with(r#"{"version":"#)
        && begins.contains(r#","updated_at":""#)
        && begins.contains(r#","sessionId":""#)
    {
        Some(Format::Cline)
    } else if begins.starts_with(r#"{"id":""#) && begins.contains(r#","working_dir":""#) {
        Some(Format::Goose)
    } else {
        None
    }
}

/// Whether these first bytes say nothing, and more of them might: of a file whose lines are long, they may end within the first.
pub fn is_undecided(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').nth(LINES_MAX).is_none() && detect(head) == Detected::Unknown
}

/// What a line says: nothing yet, an event, or somebody's log.
#[expect(clippy::option_option, reason = "undecided, decided for events, decided for a log")]
fn whose(line: &[u8]) -> Option<Option<Format>> {
    json::text(line).and_then(decide)
}

/// As much of the bytes as is text: a head may end within a character.
fn beginning(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

#[expect(clippy::option_option, reason = "as above")]
fn decide(object: &str) -> Option<Option<Format>> {
    // The first is cheap, and keeps an array that stands in one line out.
    if !object.starts_with('{') || !json::is_valid(object) {
        return None;
    }
    let fields: BTreeMap<Cow<'_, str>, &str> = json::fields(object).filter(|(name, _)| TELLING.contains(&&**name)).collect();
    let text = |name: &str| fields.get(name).filter(|source| json::is_string(source)).map(|source| json::unquote(source));
    let has = |name: &str| fields.contains_key(name);
    let kind = text("kind").unwrap_or_default();
    // A message of the model's API, or what stands in its place.
    let has_parts = || fields.get("message").is_some_and(|message| json::fields(message).any(|(name, _)| name == "parts"));
    if has("session_id") && has("kind") {
        return Some(None);
    }
    if has("sessionId") && has("projectHash") {
        return Some(Some(Format::Gemini));
    }
    if has("info") && fields.get("messages").is_some_and(|source| source.starts_with('[')) {
        return Some(Some(Format::Opencode));
    }
    let is_list = |name: &str| fields.get(name).is_some_and(|source| source.starts_with('['));
    if has("sessionId") && has("agent") && is_list("messages") {
        return Some(Some(Format::Cline));
    }
    if has("working_dir") && (has("message_count") || has("conversation")) {
        return Some(Some(Format::Goose));
    }
    if has("uuid") && has("sessionId") && (has("provenance") || has_parts()) {
        return Some(Some(Format::Qwen));
    }
    match text("type").as_deref() {
        Some(kind) if CODEX.contains(&kind) && has("payload") => return Some(Some(Format::Codex)),
        Some("user" | "assistant") if has("message") && (has("uuid") || has("sessionId")) => {
            return Some(Some(Format::ClaudeCode));
        }
        Some("summary") if has("leafUuid") => return Some(Some(Format::ClaudeCode)),
        Some("file-history-snapshot") if has("snapshot") => return Some(Some(Format::ClaudeCode)),
        Some(_) if has("sessionId") => return Some(Some(Format::ClaudeCode)),
        Some("message") if has("role") && has("content") => return Some(Some(Format::Codex)),
        None if has("role") && has("created") && is_list("content") => return Some(Some(Format::Goose)),
        None if has("role") && has("content") && (has("ts") || is_of_cline(object)) => return Some(Some(Format::Cline)),
        None if has("id") && has("timestamp") && has("instructions") => return Some(Some(Format::Codex)),
        _ => {}
    }
    let is_openhands = (has("source") && has("timestamp") && (text("action").or_else(|| text("observation"))).is_some())
        || (has("source") && OPENHANDS.contains(&&*kind))
        || (has("instance_id") && fields.get("history").is_some_and(|source| source.starts_with('[')));
    is_openhands.then_some(Some(Format::OpenHands))
}

/// Whether a message of the model's API is one that Cline wrote, before it noted times.
fn is_of_cline(message: &str) -> bool {
    CLINE.iter().any(|tag| message.contains(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_says_something_decides() {
        let log = |format, layout| Detected::Log(format, layout);
        for (head, expected) in [
            (r#"{"id":"1","kind":"tool","session_id":"s","tool":"t"}"#, Detected::Events),
            (r#"[{"id":"1","kind":"tool","session_id":"s","tool":"t"},"#, Detected::EventDocument),
            (
                "[\n{\"kind\":\"tool\",\"session_id\":\"s\"},\n{\"kind\":\"tool\",\"session_id\":\"s\"}\n]",
                Detected::EventDocument,
            ),
            ("{\n \"kind\": \"tool\",\n \"session_id\": \"s\"\n}\n", Detected::EventDocument),
            ("[\n]\n", Detected::EventDocument),
            ("", Detected::Unknown),
            ("no json\n", Detected::Unknown),
            (r#"{"a":1}"#, Detected::Unknown),
            ("{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"u\"}\n", log(Format::ClaudeCode, Layout::Lines)),
            ("{\"x\":1}\n\n{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{}}", log(Format::ClaudeCode, Layout::Lines)),
            (r#"{"timestamp":"t","type":"session_meta","payload":{"id":"x"}}"#, log(Format::Codex, Layout::Lines)),
            (r#"{"id":"x","timestamp":"t","instructions":null}"#, log(Format::Codex, Layout::Lines)),
            (r#"{"id":0,"timestamp":"t","source":"user","action":"message","args":{}}"#, log(Format::OpenHands, Layout::Lines)),
            (r#"[{"id":0,"timestamp":"t","source":"user","action":"message"},{"id""#, log(Format::OpenHands, Layout::Document)),
            ("{\n \"kind\": \"ActionEvent\",\n \"source\": \"agent\"\n}", log(Format::OpenHands, Layout::Document)),
            ("{\n  \"info\": {\n    \"id\": \"ses_1\",\n", log(Format::Opencode, Layout::Document)),
            ("{\n  \"sessionId\": \"s\",\n  \"projectHash\": \"h\",\n", log(Format::Gemini, Layout::Document)),
            (r#"{"sessionId":"s","projectHash":"h","startTime":"t","kind":"main"}"#, log(Format::Gemini, Layout::Lines)),
            (
                r#"{"uuid":"u","sessionId":"s","type":"user","message":{"role":"user","parts":[]}}"#,
                log(Format::Qwen, Layout::Lines),
            ),
            (r#"{"uuid":"u","sessionId":"s","type":"system","provenance":"system"}"#, log(Format::Qwen, Layout::Lines)),
            (
                r#"[{"role":"user","content":[{"type":"text","text":"<task>\nx\n</task>"}]},{"#,
                log(Format::Cline, Layout::Document),
            ),
            (r#"[{"role":"assistant","content":"x","ts":1}]"#, log(Format::Cline, Layout::Document)),
            (r#"[{"role":"user","content":"x"}]"#, Detected::Unknown),
            ("{\n  \"version\": 1,\n  \"updated_at\": \"t\",\n  \"sessionId\": \"s\",\n", log(Format::Cline, Layout::Document)),
            (r#"{"sessionId":"s","agent":"lead","messages":[]}"#, log(Format::Cline, Layout::Lines)),
            ("{\n  \"id\": \"1\",\n  \"working_dir\": \"/w\",\n", log(Format::Goose, Layout::Document)),
            (r#"{"working_dir":"/w","description":"d","message_count":0}"#, log(Format::Goose, Layout::Lines)),
            (r#"{"role":"user","created":1,"content":[]}"#, log(Format::Goose, Layout::Lines)),
            (r#"{"instance_id":"i","history":[]}"#, log(Format::OpenHands, Layout::Lines)),
        ] {
            assert_eq!(detect(head.as_bytes()), expected, "{head}");
        }
    }
}
