//! Calls that stand as tags in a text of Cline's model: `<tool><parameter>value</parameter></tool>`, with the tools of 3.89.2
//! (`apps/vscode/src/shared/tools.ts`); and the heads of their answers, `[tool …] Result:`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Tools that a tag may name.
const TOOLS: [&str; 27] = [
    "access_mcp_resource",
    "act_mode_respond",
    "apply_patch",
    "ask_followup_question",
    "attempt_completion",
    "browser_action",
    "condense",
    "execute_command",
    "focus_chain",
    "generate_explanation",
    "list_code_definition_names",
    "list_files",
    "load_mcp_documentation",
    "new_rule",
    "new_task",
    "plan_mode_respond",
    "read_file",
    "replace_in_file",
    "report_bug",
    "search_files",
    "summarize_task",
    "use_mcp_tool",
    "use_skill",
    "use_subagents",
    "web_fetch",
    "web_search",
    "write_to_file",
];
/// Parameters that may hold their own closing tag: the last one counts.
const ANYTHING: [&str; 2] = ["content", "diff"];
/// Not an argument: the list of what is to be done, which changes all the time.
const BESIDE: &str = "task_progress";
/// Characters of a parameter's name.
const NAME_CHARS_MAX: usize = 32;
/// Between the tool's name and the end of its head.
const RESULT: &str = "] Result:";

/// A text without the calls in it, and the calls, with their arguments.
pub(crate) fn tagged(text: &str) -> (String, Vec<(&'static str, Value)>) {
    let (mut said, mut calls, mut rest) = (String::new(), Vec::new(), text);
    // Tools whose tag is not closed any more: looked for once.
    let mut unclosed = BTreeSet::new();
    while let Some((before, after)) = rest.split_once('<') {
        let tool = TOOLS.into_iter().find(|tool| after.strip_prefix(tool).is_some_and(|after| after.starts_with('>')));
        let body = tool.filter(|tool| !unclosed.contains(tool)).and_then(|tool| {
            let inner = after.get(tool.len() + 1..)?;
            let found = inner.split_once(&format!("</{tool}>"));
            if found.is_none() {
                unclosed.insert(tool);
            }
            found.map(|(inner, after)| (tool, inner, after))
        });
        said.push_str(before);
        if let Some((tool, inner, after)) = body {
            calls.push((tool, parameters(inner)));
            rest = after;
        } else {
            said.push('<');
            rest = after;
        }
    }
    said.push_str(rest);
    (said.trim().to_owned(), calls)
}

fn parameters(inner: &str) -> Value {
    let (mut found, mut rest) = (Map::new(), inner);
    while let Some((name, after)) = rest.trim_start().strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_name) {
            break;
        }
        let close = format!("</{name}>");
        let parts = if ANYTHING.contains(&name) { after.rsplit_once(&close) } else { after.split_once(&close) };
        // One that is cut holds all that is left.
        let (value, after) = parts.unwrap_or((after, ""));
        if name != BESIDE {
            found.insert(name.to_owned(), value.trim().into());
        }
        rest = after;
    }
    Value::Object(found)
}

/// The tool whose answer a text is, and the answer; empty, if it is in the next block.
pub(crate) fn answered_tool(said: &str) -> Option<(&str, &str)> {
    let inner = said.strip_prefix('[')?;
    let (head, result) = inner.split_once(RESULT)?;
    let tool = head.split([' ', '\n']).next()?;
    TOOLS.contains(&tool).then(|| (tool, result.strip_prefix('\n').unwrap_or(result)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_taken_out_of_a_text_and_other_tags_stay() {
        let text = "I <b>look</b>.\n<read_file>\n<path>src/a.rs</path>\n<task_progress>- [x] a</task_progress>\n</read_file>\n<thinking>so</thinking>";
        let (said, calls) = tagged(text);
        assert_eq!(said, "I <b>look</b>.\n\n<thinking>so</thinking>");
        assert_eq!(calls, [("read_file", json!({ "path": "src/a.rs" }))]);
    }

    #[test]
    fn a_file_may_hold_the_tags_of_its_call() {
        let (said, calls) = tagged(
            "<write_to_file><path>a.md</path><content>\n<content>x</content>\n</content></write_to_file><list_files><path>.</path></list_files>",
        );
        assert_eq!(said, "");
        let expected = json!({ "path": "a.md", "content": "<content>x</content>" });
        assert_eq!(calls, [("write_to_file", expected), ("list_files", json!({ "path": "." }))]);
    }

    #[test]
    fn a_call_that_is_cut_is_a_text() {
        let text = "<read_file><path>a".repeat(3);
        assert_eq!(tagged(&text), (text.clone(), Vec::new()));
    }

    #[test]
    fn answers_are_told_by_their_heads() {
        assert_eq!(answered_tool("[execute_command for 'a\nb'] Result:\nok"), Some(("execute_command", "ok")));
        assert_eq!(answered_tool("[attempt_completion] Result:"), Some(("attempt_completion", "")));
        assert_eq!(answered_tool("[note] Result:\nx"), None);
        assert_eq!(answered_tool("read_file Result:"), None);
    }
}
