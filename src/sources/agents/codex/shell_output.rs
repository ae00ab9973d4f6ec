//! What Codex puts around the output of a shell call. The head reports exit code and duration, or the text is JSON that does: what came back is
//! taken out, so that durations stay out of comparisons.

use serde_json::Value;

use crate::text::number_after;

/// Words before an exit code.
const EXIT_CODE: [&str; 2] = ["Exit code", "Process exited with code"];
/// Beginnings of a shell call's answer whose head is measurements: durations, and ids that are new each time.
const WRAPPED: [&str; 2] = ["Chunk ID:", "Wall time:"];
/// Beginning of the line that reports of a process that still runs.
const RUNNING: &str = "Process running";

/// What came back, without its wrapping, and the exit code that the wrapping reports.
pub(crate) fn unwrapped(said: String) -> (String, Option<i64>) {
    if let Ok(Value::Object(wrapped)) = serde_json::from_str::<Value>(&said)
        && let (Some(Value::String(output)), Some(Value::Object(about))) = (wrapped.get("output"), wrapped.get("metadata"))
    {
        return (output.clone(), about.get("exit_code").and_then(Value::as_i64));
    }
    let is_wrapped = WRAPPED.iter().chain(&EXIT_CODE).any(|beginning| said.starts_with(beginning));
    let parts = said.split_once("\nOutput:\n").or_else(|| Some((said.strip_suffix("\nOutput:")?, "")));
    let Some((head, output)) = parts.filter(|_| is_wrapped) else {
        // Further down the words are the tool's own.
        let exit_code = number_after(said.lines().next().unwrap_or_default(), &EXIT_CODE);
        return (said, exit_code);
    };
    let exit_code = number_after(head, &EXIT_CODE);
    // What still runs says so, and nothing else may.
    let running = head.lines().find(|line| line.starts_with(RUNNING)).map(|line| format!("{line}\n"));
    (running.unwrap_or_default() + output, exit_code)
}

/// How such a call ended, as an event says it: from its text and exit code, and from what the program says of its success.
pub(crate) fn outcome(result: &str, exit_code: Option<i64>, success: Option<bool>) -> &'static str {
    let lower = result.get(..result.len().min(200)).unwrap_or(result).to_lowercase();
    match exit_code {
        // It ran, and well: whatever else the text says is the tool's own.
        Some(0) => "ok",
        _ if lower.contains("rejected by user") => "denied",
        _ if lower.starts_with("aborted") => "cancelled",
        Some(124) => "timeout",
        Some(_) => "error",
        None if success == Some(false) || lower.starts_with("failed ") || lower.starts_with("error") => "error",
        None => "ok",
    }
}
