//! Runs a case and compares: what was expected, what came, at which event.

use std::sync::Arc;

use loopwarden_core::engine::{Action, ReasonCode};
use loopwarden_core::{event::EventTime, policy::Detector};
use loopwarden_settings::policy::load_with_overrides;
use serde_json::Value;

use crate::cases::facts;
use crate::cases::format::{Case, Expectation, Mismatch, Verdict};
use crate::cases::stepped::{Answer, SteppedLane};

/// How a case is run: the answers must not differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Event after event.
    Straight,
    /// With a restart before each event.
    Restarted,
}

/// Runs one case; nothing = it passed.
pub fn run(case: &Case) -> Vec<Mismatch> {
    let case = match case.spelled_out() {
        Ok(case) => case,
        Err(problem) => return vec![Mismatch { event: None, expected: "events".to_owned(), got: problem }],
    };
    let mut mismatches = Vec::new();
    if let Ok(policy) = load_with_overrides(&case.profile, &overrides(&case.policy)) {
        mismatches.extend(facts::check(&policy, &case));
    }
    let (answers, problems) = play(&case, Way::Straight);
    mismatches.extend(problems);
    mismatches.extend(too_many(&case, &answers));
    for expectation in &case.expect {
        mismatches.extend(compare(expectation, &answers));
    }
    mismatches
}

/// The answers to the events of a case.
pub fn answers(case: &Case, way: Way) -> Vec<Answer> {
    case.spelled_out().map(|case| play(&case, way).0).unwrap_or_default()
}

fn overrides(policy: &Value) -> Value {
    if policy.is_null() { Value::Object(serde_json::Map::new()) } else { policy.clone() }
}

/// Feeds the events of a spelled-out case.
fn play(case: &Case, way: Way) -> (Vec<Answer>, Vec<Mismatch>) {
    let load = |settings: &Value| load_with_overrides(&case.profile, &overrides(settings)).map(Arc::new);
    let policy = match load(&case.policy) {
        Ok(policy) => policy,
        Err(problems) => {
            let mismatch = Mismatch { event: None, expected: "a valid policy".to_owned(), got: problems.to_string() };
            return (Vec::new(), vec![mismatch]);
        }
    };
    let mut mismatches = Vec::new();
    let mut lane = SteppedLane::new("loopwarden", policy);
    let mut answers = Vec::with_capacity(case.events.len());
    let mut timestamp = EventTime(0);
    for (at, event) in case.events.iter().enumerate() {
        let is_restart = event.get("kind").and_then(Value::as_str) == Some("restart");
        let mut answer = Answer::default();
        if is_restart || way == Way::Restarted {
            match event.get("policy").filter(|_| is_restart).map(load).transpose() {
                Ok(policy) => answer.marks = lane.restart(policy),
                Err(problems) => {
                    let expected = "state that can be read again".to_owned();
                    mismatches.push(Mismatch { event: Some(at), expected, got: problems.to_string() });
                }
            }
        }
        if !is_restart {
            timestamp = event.get("time").and_then(Value::as_str).and_then(EventTime::parse_rfc3339).unwrap_or(timestamp);
            match lane.feed(event.to_string().as_bytes(), timestamp) {
                Ok(fed) => answer = Answer { marks: [answer.marks, fed.marks.clone()].concat(), ..fed },
                Err(got) => mismatches.push(Mismatch { event: Some(at), expected: "an event".to_owned(), got }),
            }
        }
        answers.push(answer);
    }
    (answers, mismatches)
}

/// Commands of the whole case beyond what it allows.
fn too_many(case: &Case, answers: &[Answer]) -> Vec<Mismatch> {
    let bounds = [(case.nudges_max, Action::Nudge, "nudges"), (case.blocks_max, Action::Block, "blocks")];
    let count = |action| {
        let commands = answers.iter().flat_map(|answer| &answer.commands);
        commands.filter(|command| command.action == action && !command.is_shadow).count()
    };
    let above = bounds.into_iter().filter_map(|(most, action, name)| Some((most?, count(action), name)));
    above
        .filter(|(most, count, _)| count > most)
        .map(|(most, count, name)| Mismatch { event: None, expected: format!("at most {most} {name}"), got: count.to_string() })
        .collect()
}

fn compare(expectation: &Expectation, answers: &[Answer]) -> Option<Mismatch> {
    let Some(answer) = answers.get(expectation.after) else {
        let got = format!("only {} events", answers.len());
        return Some(Mismatch { event: Some(expectation.after), expected: "an event of that index".to_owned(), got });
    };
    if let Some(last) = expectation.at_or_before {
        let fits = answers.iter().take(last + 1).any(|answer| problems(expectation, answer, answers).is_empty());
        return (!fits).then(|| Mismatch {
            event: Some(expectation.after),
            expected: format!("{} at or before event {last}", wanted(expectation)),
            got: "nothing of the kind".to_owned(),
        });
    }
    let problems = problems(expectation, answer, answers);
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
            if finding.is_current { "" } else { ", not fresh" }
        ));
    }
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

fn problems(expectation: &Expectation, answer: &Answer, answers: &[Answer]) -> Vec<String> {
    let mut problems = Vec::new();
    let meant = expectation.detector.as_deref().and_then(Detector::from_name);
    let is_named = expectation.detector.is_some();
    if is_named && meant.is_none() {
        problems.push(format!("there is no detector {}", expectation.detector.as_deref().unwrap_or_default()));
    }
    if expectation.shadow {
        shadowed(&mut problems, expectation, meant, answer);
        return problems;
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
    let running = meant.filter(|_| expectation.verdict == Some(Verdict::None)).and_then(|meant| answer.streaks.count(meant));
    let counted = match (running, meant) {
        (Some(running), _) => Some(running),
        (None, Some(Detector::SwarmRepeat)) => answer.counted.last().map(|(_, (calls, _))| *calls),
        (_, detector) => answer
            .findings
            .iter()
            .find(|finding| detector.is_none_or(|detector| finding.detector == detector))
            .map(|finding| finding.count),
    };
    differs(&mut problems, "count", expectation.count, counted);
    differs(&mut problems, "workers", expectation.workers, answer.counted.last().map(|(_, (_, workers))| *workers));
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
    sent(&mut problems, expectation, answer, answers);
    problems
}

/// A shadow detector's word.
fn shadowed(problems: &mut Vec<String>, expectation: &Expectation, meant: Option<Detector>, answer: &Answer) {
    let action = match expectation.verdict {
        Some(Verdict::Block) => Some(Action::Block),
        Some(Verdict::Nudge) => Some(Action::Nudge),
        _ => None,
    };
    let command = answer
        .commands
        .iter()
        .find(|command| command.is_shadow && meant.is_none_or(|detector| command.reason == ReasonCode::Detector(detector)));
    if command.map(|command| command.action) != action {
        problems.push(format!("the shadow's word is {}", command.map_or("none", |command| command.action.as_str())));
    }
}

/// The published command beside its text.
fn sent(problems: &mut Vec<String>, expectation: &Expectation, answer: &Answer, answers: &[Answer]) {
    let lifted = answer.commands.iter().find(|command| command.action == Action::Unblock);
    let command = if expectation.verdict == Some(Verdict::Unblock) { lifted } else { answer.command.as_ref() };
    differs(problems, "level", expectation.level, command.map(|command| command.level));
    differs(problems, "reason", expectation.reason.as_deref(), command.map(|command| command.reason.as_str()));
    let lifetime = command.map(|command| command.expires_at.0 - command.issued_at.0);
    differs(problems, "lifetime", expectation.expires_ms, lifetime);
    let scope = command.map(|command| match (&command.scope.fingerprint, &command.scope.tool) {
        (Some(_), _) => "fingerprint",
        (None, Some(_)) => "tool",
        (None, None) => "agent",
    });
    differs(problems, "scope", expectation.scope.as_deref(), scope);
    if let Some(first) = expectation.episode_same_as {
        let begun = answers.get(first).and_then(|answer| answer.command.as_ref()).map(|command| command.episode);
        if begun.is_none() || command.map(|command| command.episode) != begun {
            problems.push(format!("its loop is not that of event {first}"));
        }
    }
    if let Some(also) = &expectation.also {
        let mut named: Vec<&str> =
            command.map(|command| command.also.iter().map(|detector| detector.as_str()).collect()).unwrap_or_default();
        let mut wanted: Vec<&str> = also.iter().map(String::as_str).collect();
        named.sort_unstable();
        wanted.sort_unstable();
        differs(problems, "support", Some(wanted), Some(named));
    }
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
            loopwarden_core::engine::SubjectKey::Agent { agent_id, .. } => Some(agent_id.as_str()),
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
        Verdict::Unblock => answer.commands.iter().any(|command| command.action == Action::Unblock),
        Verdict::Block => spoke(Action::Block) || answer.block.is_some_and(|by| detector.is_none_or(|detector| by == detector)),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "callers build what they compare")]
fn differs<T: PartialEq + std::fmt::Debug>(problems: &mut Vec<String>, what: &str, expected: Option<T>, got: Option<T>) {
    if expected.is_some() && got != expected {
        problems.push(format!("{what} is {}, not {}", shown(got.as_ref()), shown(expected.as_ref())));
    }
}

fn shown<T: std::fmt::Debug>(value: Option<&T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| format!("{value:?}"))
}

fn close(problems: &mut Vec<String>, what: &str, expected: Option<f64>, got: Option<f64>) {
    if let Some(expected) = expected
        && !got.is_some_and(|got| (got - expected).abs() < 1e-9)
    {
        problems.push(format!("{what} is {}, not {}", shown(got.as_ref()), shown(Some(&expected))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_as_people_write_it() {
        let mut told = Vec::new();
        differs(&mut told, "count", Some(4), Some(3));
        differs(&mut told, "count", Some(4), None);
        differs(&mut told, "scope", Some("tool"), Some("agent"));
        close(&mut told, "confidence", Some(0.5), Some(0.25));
        close(&mut told, "confidence", Some(0.5), None);
        shadowed(&mut told, &Expectation { verdict: Some(Verdict::Block), ..Expectation::default() }, None, &Answer::default());
        assert_eq!(
            told,
            [
                "count is 3, not 4",
                "count is none, not 4",
                "scope is \"agent\", not \"tool\"",
                "confidence is 0.25, not 0.5",
                "confidence is none, not 0.5",
                "the shadow's word is none",
            ]
        );
    }
}
