//! Runs a case and compares: what was expected, what came, at which event.

use std::sync::Arc;

use serde_json::Value;

use crate::cli::cases::bench::Answer;
use crate::cli::cases::bench::Bench;
use crate::cli::cases::facts;
use crate::cli::cases::format::Case;
use crate::cli::cases::format::Expectation;
use crate::cli::cases::format::Verdict;
use crate::config::policy::load_with_overrides;
use crate::engine::Action;
use crate::engine::ReasonCode;
use crate::event::EventTime;
use crate::policy::Detector;

/// One thing that did not come as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Index of the event; none for a case that could not run, or a fact.
    pub event: Option<usize>,
    /// What was to come.
    pub expected: String,
    /// What came.
    pub got: String,
}

/// Runs one case; nothing = it passed.
#[must_use]
pub fn run(case: &Case) -> Vec<Mismatch> {
    let overrides = if case.policy.is_null() { Value::Object(serde_json::Map::new()) } else { case.policy.clone() };
    let policy = match load_with_overrides(&case.profile, &overrides) {
        Ok(policy) => Arc::new(policy),
        Err(problems) => {
            return vec![Mismatch { event: None, expected: "a valid policy".to_owned(), got: problems.to_string() }];
        }
    };
    let mut mismatches = facts::check(&policy, case);
    let mut bench = Bench::new(policy);
    let mut answers = Vec::with_capacity(case.events.len());
    let mut timestamp = EventTime(0);
    for (at, event) in case.events.iter().enumerate() {
        if event.get("kind").and_then(Value::as_str) == Some("restart") {
            if let Err(problem) = bench.restart() {
                mismatches.push(Mismatch { event: Some(at), expected: "state that can be read again".to_owned(), got: problem });
            }
            answers.push(Answer::default());
            continue;
        }
        timestamp = event.get("time").and_then(Value::as_str).and_then(EventTime::parse_rfc3339).unwrap_or(timestamp);
        match bench.feed(event.to_string().as_bytes(), timestamp) {
            Ok(answer) => answers.push(answer),
            Err(rejected) => {
                mismatches.push(Mismatch { event: Some(at), expected: "an event".to_owned(), got: rejected.to_string() });
                answers.push(Answer::default());
            }
        }
    }
    for expectation in &case.expect {
        mismatches.extend(compare(expectation, &answers));
    }
    mismatches
}

fn compare(expectation: &Expectation, answers: &[Answer]) -> Option<Mismatch> {
    let Some(answer) = answers.get(expectation.after) else {
        let got = format!("only {} events", answers.len());
        return Some(Mismatch { event: Some(expectation.after), expected: "an event of that index".to_owned(), got });
    };
    if let Some(last) = expectation.at_or_before {
        let fits = answers.iter().take(last + 1).any(|answer| problems(expectation, answer).is_empty());
        return (!fits).then(|| Mismatch {
            event: Some(expectation.after),
            expected: format!("{} at or before event {last}", wanted(expectation)),
            got: "nothing of the kind".to_owned(),
        });
    }
    let problems = problems(expectation, answer);
    (!problems.is_empty()).then(|| Mismatch {
        event: Some(expectation.after),
        expected: format!("{} ({})", wanted(expectation), problems.join("; ")),
        got: describe(answer),
    })
}

fn wanted(expectation: &Expectation) -> String {
    let verdict = match (expectation.verdict, expectation.not_verdict, &expectation.verdict_in) {
        (Some(verdict), ..) => format!("{verdict:?}").to_lowercase(),
        (_, Some(verdict), _) => format!("anything but {verdict:?}").to_lowercase(),
        (.., Some(verdicts)) => format!("one of {verdicts:?}").to_lowercase(),
        _ => "any answer".to_owned(),
    };
    expectation.detector.as_ref().map_or_else(|| verdict.clone(), |detector| format!("{verdict} by {detector}"))
}

/// What was answered, for people.
#[must_use]
pub(super) fn describe(answer: &Answer) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(command) = &answer.command {
        parts.push(format!("{} by {}", command.action.as_str(), command.reason.as_str()));
        parts.push(format!("\"{}\"", command.message.as_deref().unwrap_or_default()));
    }
    if let Some(detector) = answer.block {
        parts.push(format!("under a block of {}", detector.as_str()));
    }
    for finding in &answer.findings {
        parts.push(format!(
            "{} {} of {} (confidence {:.2}{})",
            finding.detector.as_str(),
            finding.count,
            finding.threshold,
            finding.confidence,
            if finding.is_fresh { "" } else { ", not fresh" }
        ));
    }
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

fn problems(expectation: &Expectation, answer: &Answer) -> Vec<String> {
    let mut problems = Vec::new();
    let meant = expectation.detector.as_deref().and_then(Detector::from_name);
    let is_named = expectation.detector.is_some();
    if is_named && meant.is_none() {
        problems.push(format!("there is no detector {}", expectation.detector.as_deref().unwrap_or_default()));
    }
    if let Some(verdict) = expectation.verdict
        && !holds(verdict, meant, answer)
    {
        problems.push(format!("verdict is not {verdict:?}").to_lowercase());
    }
    if let Some(verdict) = expectation.not_verdict
        && holds(verdict, None, answer)
    {
        problems.push(format!("verdict is {verdict:?}").to_lowercase());
    }
    if let Some(verdicts) = &expectation.verdict_in
        && !verdicts.iter().any(|verdict| holds(*verdict, meant, answer))
    {
        problems.push("verdict is none of them".to_owned());
    }
    let counted = match (expectation.verdict, meant) {
        (Some(Verdict::None), Some(Detector::ShellFailures)) => Some(answer.shell_failures),
        (Some(Verdict::None), Some(Detector::TestFix)) => Some(answer.test_failures),
        (Some(Verdict::None), Some(Detector::TextOnly)) => Some(answer.text_turns),
        (_, Some(Detector::SwarmRepeat)) => answer.swarm.map(|(calls, _)| calls),
        (_, detector) => answer
            .findings
            .iter()
            .find(|finding| detector.is_none_or(|detector| finding.detector == detector))
            .map(|finding| finding.count),
    };
    differs(&mut problems, "count", expectation.count, counted);
    differs(&mut problems, "workers", expectation.workers, answer.swarm.map(|(_, workers)| workers));
    let confidence = answer
        .findings
        .iter()
        .find(|finding| meant.is_none_or(|detector| finding.detector == detector))
        .map(|finding| finding.confidence);
    close(&mut problems, "confidence", expectation.confidence, confidence);
    close(&mut problems, "combined confidence", expectation.combined_confidence, answer.fused.map(|fused| fused.combined));
    differs(&mut problems, "primary", expectation.primary.clone(), answer.fused.map(|fused| fused.primary.as_str().to_owned()));
    differs(
        &mut problems,
        "recommended",
        expectation.recommended.clone(),
        answer.fused.map(|fused| fused.recommended.as_str().to_owned()),
    );
    differs(&mut problems, "category", expectation.category.clone(), Some(answer.category.as_str().to_owned()));
    spoken(&mut problems, expectation, answer);
    problems
}

fn spoken(problems: &mut Vec<String>, expectation: &Expectation, answer: &Answer) {
    let message = answer.command.as_ref().and_then(|command| command.message.as_deref()).unwrap_or_default();
    for phrase in &expectation.message_contains {
        if !message.contains(phrase.as_str()) {
            problems.push(format!("the text lacks {phrase:?}"));
        }
    }
    for phrase in &expectation.message_not_contains {
        if message.contains(phrase.as_str()) {
            problems.push(format!("the text has {phrase:?}"));
        }
    }
    if let Some(tool) = &expectation.tool {
        let named = answer.command.as_ref().and_then(|command| command.scope.tool.as_deref());
        differs(problems, "tool", Some(tool.as_str()), named);
    }
    if let Some(agent) = &expectation.agent {
        let addressed = answer.command.as_ref().and_then(|command| match &command.subject {
            crate::engine::SubjectKey::Agent { agent_id, .. } => Some(agent_id.as_str()),
            _ => command.scope.only.first().map(|(_, agent)| agent.as_str()),
        });
        differs(problems, "agent", Some(agent.as_str()), addressed);
    }
}

/// Whether a verdict was given, by that detector where one is meant.
fn holds(verdict: Verdict, detector: Option<Detector>, answer: &Answer) -> bool {
    let spoke = |action| {
        answer.command.as_ref().is_some_and(|command| {
            command.action == action && detector.is_none_or(|detector| command.reason == ReasonCode::Detector(detector))
        })
    };
    match verdict {
        Verdict::None => answer.command.is_none() && answer.block.is_none() && answer.findings.is_empty(),
        Verdict::Loop => {
            let found = answer.findings.iter().any(|finding| detector.is_none_or(|detector| finding.detector == detector));
            found || spoke(Action::Nudge) || spoke(Action::Block)
        }
        Verdict::Nudge => spoke(Action::Nudge),
        Verdict::Block => spoke(Action::Block) || answer.block.is_some_and(|by| detector.is_none_or(|detector| by == detector)),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "called with values made for it")]
fn differs<T: PartialEq + std::fmt::Debug>(problems: &mut Vec<String>, what: &str, expected: Option<T>, got: Option<T>) {
    if let Some(expected) = expected
        && got.as_ref() != Some(&expected)
    {
        problems.push(format!("{what} is {got:?}, not {expected:?}"));
    }
}

fn close(problems: &mut Vec<String>, what: &str, expected: Option<f64>, got: Option<f64>) {
    if let Some(expected) = expected
        && !got.is_some_and(|got| (got - expected).abs() < 1e-9)
    {
        problems.push(format!("{what} is {got:?}, not {expected}"));
    }
}
