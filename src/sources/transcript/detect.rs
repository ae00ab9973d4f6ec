//! Whose log a file is, by its first bytes. Names and folders say nothing: logs are copied, packed and renamed.

use loopwarden_core::event::json;

use crate::transcript::fields::{Fields, Sign};
use crate::transcript::format::Format;

/// Lines that are looked at until one decides.
const LINES_MAX: usize = 32;
/// How pieces lie in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Lines,
    /// One document: an object, or an array whose elements are the pieces.
    Document,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detected {
    /// Events as they are, or at least a line of JSON that could be one.
    Events,
    /// Events in one document: an array of them, or one over several lines.
    EventDocument,
    Log(Format, Layout),
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
    Format::all().find(|format| (format.log().begins)(&begins))
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
    let fields = Fields::of(object);
    if fields.has("session_id") && fields.has("kind") {
        return Some(None);
    }
    let with = |sign| Format::all().find(|format| (format.log().knows)(&fields) == sign);
    with(Sign::Sure).or_else(|| with(Sign::Likely)).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_says_something_decides() {
        let log = |title: &str, layout| Detected::Log(Format::all().find(|format| format.as_str() == title).unwrap(), layout);
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
            ("{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"u\"}\n", log("Claude Code", Layout::Lines)),
            ("{\"x\":1}\n\n{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{}}", log("Claude Code", Layout::Lines)),
            (r#"{"timestamp":"t","type":"session_meta","payload":{"id":"x"}}"#, log("Codex", Layout::Lines)),
            (r#"{"id":"x","timestamp":"t","instructions":null}"#, log("Codex", Layout::Lines)),
            (r#"{"id":0,"timestamp":"t","source":"user","action":"message","args":{}}"#, log("OpenHands", Layout::Lines)),
            (r#"[{"id":0,"timestamp":"t","source":"user","action":"message"},{"id""#, log("OpenHands", Layout::Document)),
            ("{\n \"kind\": \"ActionEvent\",\n \"source\": \"agent\"\n}", log("OpenHands", Layout::Document)),
            ("{\n  \"info\": {\n    \"id\": \"ses_1\",\n", log("opencode", Layout::Document)),
            ("{\n  \"sessionId\": \"s\",\n  \"projectHash\": \"h\",\n", log("Gemini CLI", Layout::Document)),
            (r#"{"sessionId":"s","projectHash":"h","startTime":"t","kind":"main"}"#, log("Gemini CLI", Layout::Lines)),
            (
                r#"{"uuid":"u","sessionId":"s","type":"user","message":{"role":"user","parts":[]}}"#,
                log("Qwen Code", Layout::Lines),
            ),
            (r#"{"uuid":"u","sessionId":"s","type":"system","provenance":"system"}"#, log("Qwen Code", Layout::Lines)),
            (r#"[{"role":"user","content":[{"type":"text","text":"<task>\nx\n</task>"}]},{"#, log("Cline", Layout::Document)),
            (r#"[{"role":"assistant","content":"x","ts":1}]"#, log("Cline", Layout::Document)),
            (r#"[{"role":"user","content":"x"}]"#, Detected::Unknown),
            ("{\n  \"version\": 1,\n  \"updated_at\": \"t\",\n  \"sessionId\": \"s\",\n", log("Cline", Layout::Document)),
            (r#"{"sessionId":"s","agent":"lead","messages":[]}"#, log("Cline", Layout::Lines)),
            ("{\n  \"id\": \"1\",\n  \"working_dir\": \"/w\",\n", log("goose", Layout::Document)),
            (r#"{"working_dir":"/w","description":"d","message_count":0}"#, log("goose", Layout::Lines)),
            (r#"{"role":"user","created":1,"content":[]}"#, log("goose", Layout::Lines)),
            (r#"{"type":"system","subtype":"init","session_id":"s","uuid":"u"}"#, log("Claude Code", Layout::Lines)),
            (r#"{"type":"init","timestamp":"t","session_id":"s","model":"m"}"#, log("Gemini CLI", Layout::Lines)),
            (r#"{"type":"message","timestamp":"t","role":"user","content":"x"}"#, log("Gemini CLI", Layout::Lines)),
            (r#"{"type":"tool_use","timestamp":"t","tool_name":"n","tool_id":"i"}"#, log("Gemini CLI", Layout::Lines)),
            (r#"{"type":"message","role":"user","content":[]}"#, log("Codex", Layout::Lines)),
            (r#"{"instance_id":"i","history":[]}"#, log("OpenHands", Layout::Lines)),
        ] {
            assert_eq!(detect(head.as_bytes()), expected, "{head}");
        }
    }
}
