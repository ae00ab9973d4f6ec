//! What is to be said of the input: the same of a running process and of a file.

use loopwarden_lab::report::{counted, grouped};
use serde_json::Value;

use super::finding::Finding;

/// Most: so many of so many calls.
const MOST: (u64, u64) = (9, 10);

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

/// A sender whose calls can be compared, for the most part or about half of them. Of one that tells less there is something to do.
fn good(sender: &Value) -> Option<Finding> {
    if sender.get("compared")? != "all" {
        return None;
    }
    let number = |name: &str| sender.get(name).and_then(Value::as_u64);
    let (who, calls, results) = (sender.get("who")?.as_str()?, number("calls")?, number("results")?);
    let (with_arguments, with_content) = (number("calls_with_arguments")?, number("results_with_content")?);
    let counted = counted(calls, "call");
    if (with_arguments, with_content) == (calls, results) {
        return Some(Finding::good(format!("{who}: {counted}; names, arguments and results can be compared")));
    }
    let share = format!(
        "{} of {} have arguments, {} of {} have a result",
        grouped(with_arguments),
        grouped(calls),
        grouped(with_content),
        grouped(results)
    );
    let is_most = |count: u64, all: u64| count.saturating_mul(MOST.1) >= all.saturating_mul(MOST.0);
    Some(if is_most(with_arguments, calls) && is_most(with_content, results) {
        Finding::good(format!("{who}: {counted}; most can be compared: {share}"))
    } else {
        Finding::note(format!("{who}: {counted}; only a part can be compared: {share}"))
            .help("a loop of calls without arguments and results is not seen; are they switched on at each of its programs?")
    })
}

fn todo(finding: &Value) -> Finding {
    let text = |name: &str| finding.get(name).and_then(Value::as_str).unwrap_or_default();
    let help = finding.get("help").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found = Finding::todo(text("message")).coded(text("code"));
    help.iter().filter_map(Value::as_str).fold(found, Finding::help)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_can_be_compared_where_all_or_most_tell_enough_and_the_share_is_told() {
        let told = |calls: u64, with_arguments: u64, with_content: u64| {
            let sender = json!({ "who": "shop", "calls": calls, "calls_with_arguments": with_arguments, "results": calls,
                "results_with_content": with_content, "compared": "all" });
            good(&sender).expect("a finding").lines().remove(0)
        };
        assert_eq!(told(1, 1, 1), "ok    shop: 1 call; names, arguments and results can be compared");
        assert_eq!(told(10, 9, 10), "ok    shop: 10 calls; most can be compared: 9 of 10 have arguments, 10 of 10 have a result");
        assert_eq!(
            told(10, 5, 5),
            "note  shop: 10 calls; only a part can be compared: 5 of 10 have arguments, 5 of 10 have a result"
        );
        assert!(told(10, 10, 8).starts_with("note  shop: 10 calls; only a part"));
        assert_eq!(good(&json!({ "who": "shop", "calls": 3, "compared": "names only" })), None);
    }
}
