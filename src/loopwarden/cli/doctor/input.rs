//! What is to be said of the input: the same of a running process and of a file.

use loopwarden_lab::report::counted;
use serde_json::Value;

use super::finding::Finding;

/// Of the object `input` that `/overview` has.
pub(super) fn findings(input: &Value) -> Vec<Finding> {
    let list = |name: &str| input.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut findings: Vec<Finding> = list("senders").iter().filter_map(good).collect();
    let others = input.get("others_records").and_then(Value::as_u64).unwrap_or_default();
    if others > 0 {
        findings.push(Finding::note(format!("from more senders than are told apart: {}", counted(others, "record"))));
    }
    findings.extend(list("findings").iter().map(todo));
    findings
}

/// A sender whose calls can be compared in full.
fn good(sender: &Value) -> Option<Finding> {
    let is_all = sender.get("compared")? == "all";
    let (who, calls) = (sender.get("who")?.as_str()?, sender.get("calls")?.as_u64()?);
    is_all.then(|| Finding::good(format!("{who}: {}; names, arguments and results can be compared", counted(calls, "call"))))
}

fn todo(finding: &Value) -> Finding {
    let text = |name: &str| finding.get(name).and_then(Value::as_str).unwrap_or_default();
    let help = finding.get("help").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found = Finding::todo(text("message")).coded(text("code"));
    help.iter().filter_map(Value::as_str).fold(found, Finding::help)
}
