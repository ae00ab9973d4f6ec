//! What texts of foreign programs report, in whatever they come.

use std::borrow::Cow;

use loopwarden_core::event::{EventTime, Reason, Rejected};
use loopwarden_core::native::mark;
use serde_json::Value;

/// The text of content: a text, or the texts of its blocks, one line each. A block without text has a mark, so that two pictures are
/// two answers.
pub(crate) fn content(value: &Value, pointer: &str) -> Result<String, Rejected> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let mut lines: Vec<Cow<'_, str>> = Vec::new();
            for block in blocks {
                let text = match block {
                    Value::String(text) => Some(text.as_str()),
                    Value::Object(block) => block.get("text").or_else(|| block.get("content")).and_then(Value::as_str),
                    _ => return Err(Rejected::at(Reason::BadType, pointer)),
                };
                lines.push(text.map_or_else(|| Cow::Owned(no_text(block)), Cow::Borrowed));
            }
            Ok(lines.join("\n"))
        }
        Value::Object(block) => Ok(block.get("text").and_then(Value::as_str).unwrap_or_default().to_owned()),
        _ => Err(Rejected::at(Reason::BadType, pointer)),
    }
}

fn no_text(block: &Value) -> String {
    let is_image = block.get("type").and_then(Value::as_str).is_some_and(|kind| kind.contains("image"));
    format!("[{} {}]", if is_image { "image" } else { "no text" }, mark(&block.to_string()))
}

/// Milliseconds since 1970, to the year 9999.
pub(crate) fn since_1970(ms: i64) -> Option<EventTime> {
    (0..253_402_300_800_000).contains(&ms).then_some(EventTime(ms))
}

/// Such milliseconds as JSON has them.
pub(crate) fn unix_ms(value: &Value) -> Option<EventTime> {
    value.as_i64().and_then(since_1970)
}

/// The tool of Gemini CLI and Qwen Code that runs a command.
pub(crate) const FUNCTION_SHELL: &str = "run_shell_command";

/// The exit code behind the output of such a call.
pub(crate) fn shell_exit_code(said: &str) -> Option<i64> {
    said.lines().rev().find_map(|line| line.strip_prefix("Exit Code: ")?.trim().parse().ok())
}

/// The answer of a shell call of Gemini CLI or Qwen Code, without the line that names a process group: it is another one at each call. And
/// the exit code, which stands behind the output.
pub(crate) fn of_shell(said: &str) -> (String, Option<i64>) {
    let exit_code = shell_exit_code(said);
    (without_process_group(said.into()).into_owned(), exit_code)
}

/// A text without the line that names a process group: it is another one at each call.
pub(crate) fn without_process_group(said: Cow<'_, str>) -> Cow<'_, str> {
    let is_volatile = |line: &&str| line.starts_with("Process Group PGID: ");
    if !said.lines().any(|line| is_volatile(&line)) {
        return said;
    }
    let kept: Vec<&str> = said.split('\n').filter(|line| !is_volatile(line)).collect();
    Cow::Owned(kept.join("\n"))
}

/// Texts of `parts`, as Google's API has them; what the model only thought is none.
pub(crate) fn parts(value: &Value) -> String {
    let of = |part: &Value| match part {
        Value::String(text) => Some(text.clone()),
        Value::Object(part) if part.get("thought") == Some(&Value::Bool(true)) => None,
        Value::Object(part) => part.get("text").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    match value {
        Value::Array(parts) => parts.iter().filter_map(of).collect::<Vec<_>>().join("\n"),
        other => of(other).unwrap_or_default(),
    }
}

/// What `{"output": …}` or `{"error": …}` of a function's response says, and whether it is an error.
pub(crate) fn response(value: &Value) -> (String, bool) {
    let said = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match (value.get("output"), value.get("error")) {
        (Some(output), _) => (said(output), false),
        (None, Some(error)) => (said(error), true),
        (None, None) if value.is_null() => (String::new(), false),
        (None, None) => (said(value), false),
    }
}

/// Arguments of a call: JSON inside a text is taken out of it.
pub(crate) fn arguments(value: &Value) -> Value {
    let parsed = value.as_str().and_then(|source| serde_json::from_str(source).ok()).filter(Value::is_object);
    parsed.unwrap_or_else(|| value.clone())
}

/// The whole number behind a label, as in `Exit code: 2`; labels are tried in order, in the first lines only.
pub(crate) fn number_after(text: &str, labels: &[&str]) -> Option<i64> {
    let lines = text.lines().take(8);
    let mut found = lines.filter_map(|line| labels.iter().find_map(|label| line.trim().strip_prefix(label)));
    found.find_map(|rest| rest.trim_start_matches([':', ' ']).split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use loopwarden_core::identity::shipped_masks;

    use super::*;

    #[test]
    fn the_process_group_is_left_out_and_nothing_else() {
        let said = "<c>\nOutput: o\nExit Code: 3\nProcess Group PGID: 3911\n</c>";
        assert_eq!(without_process_group(said.into()), "<c>\nOutput: o\nExit Code: 3\n</c>");
        assert!(matches!(without_process_group("a\nb\n".into()), Cow::Borrowed("a\nb\n")));
    }

    #[test]
    fn the_exit_code_of_a_shell_is_the_last_one_and_its_process_group_is_left_out() {
        let said = "Output: Exit Code: 7\nExit Code: 5\nExit Code: 1\nProcess Group PGID: 21319";
        assert_eq!(of_shell(said), ("Output: Exit Code: 7\nExit Code: 5\nExit Code: 1".to_owned(), Some(1)));
        assert_eq!(of_shell("a\nb"), ("a\nb".to_owned(), None));
    }

    #[test]
    fn pictures_that_differ_are_other_answers() {
        let shot = |data: &str| {
            let blocks = serde_json::json!([{ "type": "text", "text": "done" }, { "type": "image", "source": { "data": data } }]);
            let said = content(&blocks, "content").unwrap();
            shipped_masks(&said).into_owned()
        };
        assert_eq!(shot("aGVsbG8="), shot("aGVsbG8="));
        assert_ne!(shot("aGVsbG8="), shot("d29ybGQ="));
        assert!(shot("aGVsbG8=").starts_with("done\n[image "));
    }

    #[test]
    fn exit_codes_are_found_in_the_head_only() {
        assert_eq!(number_after("Exit code: 2\nOutput:", &["Exit code"]), Some(2));
        assert_eq!(number_after("Chunk\nProcess exited with code 101\n", &["Process exited with code"]), Some(101));
        assert_eq!(number_after(&format!("{}Exit code: 2", "x\n".repeat(9)), &["Exit code"]), None);
        assert_eq!(number_after("Exit code: none", &["Exit code"]), None);
    }
}
