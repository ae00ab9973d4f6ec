//! `learn`: weights and bounds moved by what people answered, a report of what that changes, and a policy file if it is better.

use std::{path::Path, sync::Arc};

use loopwarden_core::detect::{Fact, Weights, decimal};
use loopwarden_core::policy::Policy;
use loopwarden_kafka::readers::range::Bound;
use loopwarden_lab::fit::{Answers, Learned, Steps, Terms, learn};
use loopwarden_lab::report::{Section, Table, counted, plain};
use loopwarden_lab::{known_sessions::KnownSessions, report::compare::Comparison, report::labels::Ending, report::stats::Retain};
use loopwarden_log::clock;
use serde_json::{Map, Value, json};

use crate::cli::args::{ConfigArgs, InspectFormat, LearnArgs, LogArgs, RangeArgs, ReplayArgs};
use crate::cli::shared::{range, setup};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, say};
use crate::{
    cli::inspect::source::Input, cli::learning::print, cli::replay, cli::replay::input, cli::shared::act::usage, signals,
};

/// Learns.
///
/// # Errors
/// Policy, files, brokers, or [`Failure::answer_is_no`] where nothing better was found.
pub fn run(args: &LearnArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    if !args.print {
        input::must_last(&args.files, "sessions are judged by both policies in turn")?;
    }
    let (extent, from_ms) = extent(args, log)?;
    let input = Input::open(&args.files, &extent, args.policy.as_deref(), &args.set, log)?;
    let quorum = args.quorum as usize;
    if args.print {
        return print::labels(&measured(args, &input, from_ms)?.1, quorum, args.output);
    }
    expect_another_file(args.write.as_deref(), &input.policy_name)?;
    let mut endings: Vec<Ending> = Vec::new();
    for file in &args.outcomes {
        endings.extend(KnownSessions::read(None, Some(file)).map_err(Failure::failed)?.into_rows().1);
    }
    let (steps, answers) = measured(args, &input, from_ms)?;
    print::notes(&answers, quorum).iter().for_each(say);
    let terms = Terms { quorum, spared_percent: u64::from(args.spare) };
    let learned = learn(&input.policy, &steps, answers, terms, &endings);
    let is_better = learned.why_not.is_empty();
    let is_moved = learned.fit.weights != input.policy.score && !learned.is_too_little;
    let comparison = if is_moved { compared(args, &extent, &input, &learned.fit.weights)? } else { None };
    let mut out = Output::stdout();
    match args.output {
        InspectFormat::Json => out.line(format!("{:#}", document(&input, &learned, comparison.as_ref())))?,
        InspectFormat::Table if learned.is_too_little => {}
        InspectFormat::Table => out.sections(&sections(&input.policy, &learned, comparison.as_ref()))?,
    }
    out.flush()?;
    if !is_better {
        learned.why_not.iter().for_each(|why| say(format!("not better: {why}")));
        if args.write.is_some() {
            say("nothing is written");
        }
        return Err(Failure::answer_is_no());
    }
    if let Some(file) = &args.write {
        super::write(file, &policy_file(&input, &learned, file)?)?;
    }
    Ok(())
}

/// Whether names of actors count. Whoever writes to a topic writes these too: no process has asked who they are.
const fn names_count(args: &LearnArgs) -> bool {
    args.trust_names || !args.files.is_empty()
}

/// The steps of the input and its answers.
fn measured(args: &LearnArgs, input: &Input, from_ms: i64) -> Result<(Steps, Answers), Failure> {
    let (steps, mut answered) = super::measured(input, from_ms)?;
    if !names_count(args) {
        say(
            "all answers of the topic count as those of one actor; --trust-names where only loopwarden and operators may write to it",
        );
        answered.forget_names();
    }
    Ok((steps, Answers::of(&answered)))
}

/// The range of a topic, and the time that events of files begin at.
fn extent(args: &LearnArgs, log: &LogArgs) -> Result<(RangeArgs, i64), Failure> {
    let mut extent = args.range.clone();
    let Some(since) = &args.since else { return Ok((extent, i64::MIN)) };
    if !args.files.is_empty() {
        return match range::bound("--since", since, clock::now_ms())? {
            Bound::Time(time_ms) => Ok((extent, time_ms)),
            _ => Err(usage(&format!("--since {since:?} is no time of events; as in: 7d, 90m (ago), 2026-11-21"))),
        };
    }
    if extent.topic.is_none() {
        let (settings, _) = range::split_sets(&args.set);
        let config = ConfigArgs { config: extent.config.clone(), set: settings, ..ConfigArgs::default() };
        let Some(kafka) = setup::load(&config, log)?.config.kafka else {
            let from = "curl -s http://127.0.0.1:9464/v1/events > events.ndjson";
            return Err(usage(&format!("the configuration has no Kafka; save the events of the process first: {from}")));
        };
        extent.topic = Some(kafka.input);
    }
    extent.from = Some(since.clone());
    Ok((extent, i64::MIN))
}

/// Refuses to write over the policy that is learned from: nothing is put in force by learning.
fn expect_another_file(write: Option<&Path>, policy: &str) -> Outcome {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let is_same = write.is_some_and(|write| real(write).is_some_and(|write| real(Path::new(policy)) == Some(write)));
    if is_same {
        return Err(usage("--write names the policy that is learned from; give it another file, and compare them first"));
    }
    Ok(())
}

/// Both policies over the whole input; none where somebody stopped it.
fn compared(args: &LearnArgs, extent: &RangeArgs, input: &Input, weights: &Weights) -> Result<Option<Comparison>, Failure> {
    let retain = Arc::new(Retain { only_commands: true, ..KnownSessions::default().retain(true) });
    let stop = signals::stop_flag()?;
    let once = ReplayArgs { files: args.files.clone(), range: extent.clone(), ..ReplayArgs::default() };
    let after = Arc::new(Policy { score: weights.clone(), ..(*input.policy).clone() });
    let mut outcomes = Vec::new();
    for policy in [&input.policy, &after] {
        let found = replay::once::replay(&once, &input.source, policy, &retain, &stop, None)?;
        if found.is_partial {
            return Ok(None);
        }
        outcomes.push(found.replay.outcomes);
    }
    Ok(outcomes.pop().zip(outcomes.pop()).map(|(now, before)| Comparison::of(&before, &now)))
}

fn sections(before: &Policy, learned: &Learned, comparison: Option<&Comparison>) -> Vec<Section> {
    let weights = &learned.fit.weights;
    let (loops, false_alarms) = learned.labels;
    let left_out = learned.actors.iter().filter_map(|actor| {
        let name = if actor.actor.is_empty() { "(without an actor)" } else { &actor.actor };
        Some(format!("\nleft out: {}: {}", plain(name), actor.left_out?))
    });
    let head = format!("learned from {} and {}", counted(loops, "loop"), counted(false_alarms, "false alarm"));
    let head = head + &left_out.collect::<String>();
    let bounds =
        |weights: &Weights| format!("nudge_at {:.2}, block_at {:.2}", decimal(weights.nudge_at), decimal(weights.block_at));
    let is_better = learned.why_not.is_empty();
    let verdict = if is_better { "better than the present policy" } else { "not better than the present policy" };
    let changes = comparison.into_iter().flat_map(|comparison| comparison.sections("what would change in this input"));
    let first = [
        Section::text(head),
        Section::rows("", Table::of(learned.actors.clone())),
        Section::rows("sessions judged by weights that were not fitted on them", Table::of(learned.held_out.clone())),
        Section::rows("", learned.fit.moved(&before.score)),
        Section::text(format!("{}; before: {}", bounds(weights), bounds(&before.score))),
    ];
    first.into_iter().chain(changes).chain([Section::text(verdict)]).collect()
}

fn document(input: &Input, learned: &Learned, comparison: Option<&Comparison>) -> Value {
    let (before, weights) = (&input.policy.score, &learned.fit.weights);
    let pair = |of: fn(&Weights) -> i32| json!({ "before": decimal(of(before)), "after": decimal(of(weights)) });
    json!({
        "policy": { "profile": &input.policy.profile, "sha256": input.policy.hash.to_string() },
        "is_better": learned.why_not.is_empty(),
        "why_not": learned.why_not,
        "answers": learned.answers,
        "actors": learned.actors,
        "labels": { "loops": learned.labels.0, "false_alarms": learned.labels.1 },
        "held_out": learned.held_out,
        "agents": { "before": learned.agents.0, "after": learned.agents.1 },
        "nudge_at": pair(|weights| weights.nudge_at),
        "block_at": pair(|weights| weights.block_at),
        "bias": pair(|weights| weights.bias),
        "weights": learned.fit.moved(before).to_objects(),
        "changes": comparison.map(Comparison::rows),
        "examples": comparison.map(|comparison| &comparison.examples),
    })
}

/// The policy as a file: of a shipped profile what differs from it, of any other one the whole of it.
fn policy_file(input: &Input, learned: &Learned, file: &Path) -> Result<String, Failure> {
    let (loops, false_alarms) = learned.labels;
    let actors = learned.actors.iter().filter(|actor| actor.left_out.is_none()).count() as u64;
    let fit = format!(
        "loopwarden learn: {} and {} answered by {}",
        counted(loops, "loop"),
        counted(false_alarms, "false alarm"),
        counted(actors, "actor")
    );
    let name = super::name_of(file, "learned");
    let mut tree = input.overrides.as_object().cloned().unwrap_or_default();
    if tree.is_empty() && input.policy_name == input.policy.profile {
        return Ok(learned.fit.policy_file(&name, &input.policy.profile, &fit));
    }
    let weights = &learned.fit.weights;
    let points = Fact::ALL.into_iter().map(|fact| (fact.as_str(), weights.of(fact))).chain([("bias", weights.bias)]);
    let points: Map<String, Value> = points.map(|(name, points)| (name.to_owned(), json!(decimal(points)))).collect();
    let mut score = tree.get("score").and_then(Value::as_object).cloned().unwrap_or_default();
    let bounds = [("nudge_at", weights.nudge_at), ("block_at", weights.block_at), ("most", weights.most)];
    score.extend(bounds.map(|(key, bound)| (key.to_owned(), json!(decimal(bound)))));
    score.extend([("fit".to_owned(), json!(fit)), ("weights".to_owned(), Value::Object(points))]);
    tree.extend([("score".to_owned(), Value::Object(score)), ("profile".to_owned(), json!(name))]);
    Ok(loopwarden_settings::policy::load_with(&input.policy_name, &tree)?.to_toml())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: LearnArgs,
    }

    #[test]
    fn names_in_a_topic_count_only_where_that_is_asked_for() {
        let count = |words: &[&str]| Line::try_parse_from([&["learn"], words].concat()).map(|line| names_count(&line.args)).ok();
        let topic = ["--topic", "events"];
        assert_eq!([count(&topic), count(&["file"])], [Some(false), Some(true)]);
        assert_eq!(count(&[&topic[..], &["--trust-names"]].concat()), Some(true));
        assert_eq!(count(&["--trust-names", "file"]), None, "in files they always count");
    }
}
