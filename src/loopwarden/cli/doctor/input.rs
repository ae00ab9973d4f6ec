//! What is to be said of the input: the same of a running process and of a file.

use loopwarden_lab::report::{counted, grouped};

use super::finding::Finding;
use crate::operate::api::{Input, InputFinding, Sender};

/// Most: so many of so many calls.
const MOST: (u64, u64) = (9, 10);

/// Of what `/overview` has of it.
pub(super) fn findings(input: &Input) -> Vec<Finding> {
    let mut findings: Vec<Finding> = input.senders.iter().filter_map(good).collect();
    if input.others_records > 0 {
        findings
            .push(Finding::note(format!("from more senders than are told apart: {}", counted(input.others_records, "record"))));
    }
    findings.extend(input.findings.iter().map(todo));
    findings
}

/// A sender whose calls can be compared, for the most part or about half of them. Of one that tells less there is something to do.
fn good(sender: &Sender) -> Option<Finding> {
    if sender.compared.as_deref() != Some("all") {
        return None;
    }
    let Sender { who, calls, results, calls_with_arguments: with_arguments, results_with_content: with_content, .. } = sender;
    let (calls, results, with_arguments, with_content) = (*calls, *results, *with_arguments, *with_content);
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

fn todo(finding: &InputFinding) -> Finding {
    let found = Finding::todo(finding.message.clone()).coded(finding.code.clone());
    finding.help.iter().fold(found, Finding::help)
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
            good(&serde_json::from_value(sender).unwrap()).expect("a finding").lines().remove(0)
        };
        assert_eq!(told(1, 1, 1), "ok    shop: 1 call; names, arguments and results can be compared");
        assert_eq!(told(10, 9, 10), "ok    shop: 10 calls; most can be compared: 9 of 10 have arguments, 10 of 10 have a result");
        assert_eq!(
            told(10, 5, 5),
            "note  shop: 10 calls; only a part can be compared: 5 of 10 have arguments, 5 of 10 have a result"
        );
        assert!(told(10, 10, 8).starts_with("note  shop: 10 calls; only a part"));
        assert_eq!(good(&Sender { compared: Some("names only".to_owned()), calls: 3, ..Sender::default() }), None);
    }
}
