//! `learn --print`: what people answered to commands, as labels of the stretches that these were about.

use loopwarden_lab::fit::{Answers, Ruling};
use loopwarden_lab::report::counted;
use serde_json::{Value, json};

use crate::cli::args::InspectFormat;
use crate::failure::Outcome;
use crate::output::{Output, say};

/// Prints the labels, and says what became of the other answers.
pub(super) fn labels(answers: &Answers, quorum: usize, format: InspectFormat) -> Outcome {
    notes(answers, quorum).iter().for_each(say);
    let mut out = Output::stdout();
    match format {
        InspectFormat::Table => answers.lines(quorum).try_for_each(|line| out.line(line))?,
        InspectFormat::Json => {
            let labels: Vec<Value> = answers.lines(quorum).filter_map(|line| serde_json::from_str(&line).ok()).collect();
            let document = json!({
                "labels": labels,
                "answers": answers,
                "contradicted": answers.ruled(quorum, Ruling::Contradicted),
                "below_quorum": answers.ruled(quorum, Ruling::TooFew),
            });
            out.line(format!("{document:#}"))?;
        }
    }
    Ok(out.flush()?)
}

/// What became of answers that are no labels, a line for each reason.
pub(super) fn notes(answers: &Answers, quorum: usize) -> Vec<String> {
    let labels = answers.labels(quorum).len() as u64;
    let of = format!("{} of {}", counted(labels, "label"), counted(answers.given, "answer"));
    let ruled = |ruling| answers.ruled(quorum, ruling);
    let counts = [
        (answers.superseded, "answer", "by a later one of the same actor"),
        (answers.allowed, "answer", "that allow a loop, whatever it is"),
        (answers.of_budgets, "answer", "about budgets"),
        (answers.left_out, "answer", "beyond what is kept"),
        (
            answers.unknown,
            "answer",
            "to episodes that this policy does not publish here: give the policy of the live run, and the whole sessions",
        ),
        (ruled(Ruling::Contradicted), "loop", "about which as many actors answered this as that"),
        (ruled(Ruling::TooFew), "loop", "below the quorum"),
    ];
    let no_labels = counts.into_iter().filter(|(count, ..)| *count > 0);
    std::iter::once(of).chain(no_labels.map(|(count, what, why)| format!("no label: {} {why}", counted(count, what)))).collect()
}
