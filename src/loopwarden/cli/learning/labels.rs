//! `labels`: what people answered to commands, as labels of the stretches that these were about.

use std::sync::Arc;

use loopwarden_lab::fit::{Answers, Measuring, Ruling, Steps};
use loopwarden_lab::report::counted;
use serde_json::{Value, json};

use crate::cli::args::{LabelsArgs, LabelsFormat, LogArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, say};
use crate::{cli::inspect::source::Input, cli::shared::setup};

/// Prints them.
///
/// # Errors
/// Policy, files, brokers.
pub fn run(args: &LabelsArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    let input = Input::open(&args.files, &args.range, args.policy.as_deref(), &args.set, log)?;
    let (_, answers) = answered(&input, i64::MIN)?;
    let quorum = args.quorum as usize;
    notes(&answers, quorum).iter().for_each(say);
    let mut out = Output::stdout();
    match args.output {
        LabelsFormat::Ndjson => answers.lines(quorum).try_for_each(|line| out.line(line))?,
        LabelsFormat::Json => {
            let labels: Vec<Value> = answers.lines(quorum).filter_map(|line| serde_json::from_str(&line).ok()).collect();
            let document = json!({
                "labels": labels,
                "answers": &answers,
                "contradicted": answers.ruled(quorum, Ruling::Contradicted),
                "below_quorum": answers.ruled(quorum, Ruling::TooFew),
            });
            out.line(format!("{document:#}"))?;
        }
    }
    Ok(out.flush()?)
}

/// The steps of an input and its answers, of events from a time on. Milliseconds.
pub(super) fn answered(input: &Input, from_ms: i64) -> Result<(Steps, Answers), Failure> {
    let mut measuring = Measuring::new(&input.app, Arc::clone(&input.policy));
    input.events(|event, record| {
        if event.time.0 >= from_ms {
            measuring.visit(record);
        }
    })?;
    let (steps, answered) = measuring.finish_answered()?;
    Ok((steps, Answers::of(&answered)))
}

/// What became of answers that are no labels, a line for each reason.
pub(super) fn notes(answers: &Answers, quorum: usize) -> Vec<String> {
    let labels = answers.labels(quorum).len() as u64;
    let of = format!("{} of {}", counted(labels, "label"), counted(answers.given, "answer"));
    let loops = |ruling| counted(answers.ruled(quorum, ruling), "loop");
    let counts = [
        (answers.superseded, format!("{} by a later one of the same actor", counted(answers.superseded, "answer"))),
        (answers.allowed, format!("{} that allow a loop, whatever it is", counted(answers.allowed, "answer"))),
        (answers.of_budgets, format!("{} about budgets", counted(answers.of_budgets, "answer"))),
        (answers.left_out, format!("{} beyond what is kept", counted(answers.left_out, "answer"))),
        (
            answers.unknown,
            format!(
                "{} to episodes that this policy does not publish here: give the policy of the live run, and the whole sessions",
                counted(answers.unknown, "answer")
            ),
        ),
        (
            answers.ruled(quorum, Ruling::Contradicted),
            format!("{} about which as many actors answered this as that", loops(Ruling::Contradicted)),
        ),
        (answers.ruled(quorum, Ruling::TooFew), format!("{} below the quorum", loops(Ruling::TooFew))),
    ];
    let no_labels = counts.into_iter().filter(|(count, _)| *count > 0).map(|(_, why)| format!("no label: {why}"));
    std::iter::once(of).chain(no_labels).collect()
}
