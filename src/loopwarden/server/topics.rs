//! The topics that a process finds when it starts.

use loopwarden_kafka::KafkaOptions;
use loopwarden_kafka::admin::topics;
use loopwarden_kafka::admin::topics::{Admin, Purpose, Severity, TopicPlan, TopicProblem};
use loopwarden_kafka::client::fate::E_NOT_AUTHORISED;
use loopwarden_log::LogError;

use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;

/// Makes the internal topics of a group that has never worked; those that vanished are an error, and no fresh start. Refuses topics that
/// would lose state, and says what else is not as it should be.
pub(super) fn prepare_topics(admin: &Admin, options: &KafkaOptions) -> Result<(), Failure> {
    let Some(input) = admin.describe(&options.topics.input)? else {
        let mut message = format!("topic \"{}\" does not exist on {}", options.topics.input, options.bootstrap_servers);
        let similar = admin.similar_to(&options.topics.input)?;
        if !similar.is_empty() {
            message.push_str("\n  topics that look similar: ");
            message.push_str(&similar.join(", "));
        }
        message.push_str("\n  create it with: loopwarden topics create");
        return Err(Failure::coded("E0102", message));
    };
    let plans = topics::plan(options, input.partitions, input.replication.max(1));
    let (mut missing, mut problems) = (Vec::new(), Vec::new());
    for plan in plans {
        let found = if plan.purpose == Purpose::Input { Ok(Some(input.clone())) } else { admin.describe(&plan.name) };
        match found {
            Ok(Some(found)) => problems.extend(topics::compare(&plan, &found)),
            Ok(None) if plan.purpose.is_internal() => missing.push(plan),
            // What is for others is theirs to make, and need not be described by this identity.
            Ok(None) => {}
            Err(LogError::Fatal { code: E_NOT_AUTHORISED, .. }) if !plan.purpose.is_internal() => {}
            Err(error) => return Err(error.into()),
        }
    }
    make_internal(admin, options, &missing)?;
    refuse(&problems)
}

fn make_internal(admin: &Admin, options: &KafkaOptions, missing: &[TopicPlan]) -> Result<(), Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    if admin.group_has_offsets(options)? {
        let names: Vec<&str> = missing.iter().map(|plan| plan.name.as_str()).collect();
        return Err(Failure::coded(
            "E0105",
            format!(
                "group \"{}\" has worked before, but {} is gone; see `loopwarden explain E0105` before making it anew",
                options.app,
                names.join(", ")
            ),
        ));
    }
    admin.create(missing)?;
    Ok(())
}

/// Refuses what would lose state (rules I6 and R2), and tells the rest.
fn refuse(problems: &[TopicProblem]) -> Result<(), Failure> {
    let (errors, warnings): (Vec<_>, Vec<_>) = problems.iter().partition(|problem| problem.severity == Severity::Error);
    warnings.into_iter().map(topic_problem).for_each(say);
    let Some(first) = errors.first() else { return Ok(()) };
    let told: Vec<String> = errors.iter().map(|problem| topic_problem(problem)).collect();
    Err(Failure::new(exit_code::of_error(first.code), told.join("\n")))
}

/// A problem as people read it.
pub fn topic_problem(problem: &TopicProblem) -> String {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    format!("{severity}[{}]: topic \"{}\": {}", problem.code, problem.topic, problem.message)
}
