//! The topics that a process finds when it starts.

use loopwarden_kafka::admin::topics::{Admin, Purpose, Severity, TopicPlan, TopicProblem};
use loopwarden_kafka::client::fate::{E_NOT_AUTHORISED, E_TOPIC_MISSING};
use loopwarden_kafka::{KafkaOptions, admin::topics};
use loopwarden_log::LogError;

use crate::{exit_code, failure::Failure, output::say};

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
    let lines: Vec<String> = topic_problems(&errors).into_iter().map(|(_, line)| line).collect();
    Err(Failure::new(exit_code::of_error(first.code), lines.join("\n")))
}

/// Problems as people read them, each with its code: topics that are missing in the same way are one, with their names below.
pub fn topic_problems(problems: &[&TopicProblem]) -> Vec<(&'static str, String)> {
    let mut groups: Vec<Vec<&TopicProblem>> = Vec::new();
    for problem in problems {
        let is_same = |group: &&mut Vec<&TopicProblem>| {
            problem.code == E_TOPIC_MISSING
                && group.iter().all(|other| {
                    (other.code, other.severity, &other.message) == (problem.code, problem.severity, &problem.message)
                })
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(problem),
            None => groups.push(vec![problem]),
        }
    }
    let line = |group: Vec<&TopicProblem>| match group.as_slice() {
        [] => None,
        [one] => Some((one.code, topic_problem(one))),
        [first, ..] => {
            let names: Vec<&str> = group.iter().map(|problem| problem.topic.as_str()).collect();
            let severity = severity(first);
            Some((
                first.code,
                format!("{severity}[{}]: each of these topics {}\n  {}", first.code, first.message, names.join("\n  ")),
            ))
        }
    };
    groups.into_iter().filter_map(line).collect()
}

/// A problem as people read it.
pub fn topic_problem(problem: &TopicProblem) -> String {
    format!("{}[{}]: topic \"{}\": {}", severity(problem), problem.code, problem.topic, problem.message)
}

const fn severity(problem: &TopicProblem) -> &'static str {
    match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_that_lack_the_same_are_one_problem() {
        let problem = |topic: &str, message: &str| TopicProblem {
            code: "E0102",
            severity: Severity::Error,
            topic: topic.to_owned(),
            message: message.to_owned(),
        };
        let all = [problem("a", "does not exist"), problem("b", "has one copy"), problem("c", "does not exist")];
        let lines: Vec<String> = topic_problems(&all.each_ref()).into_iter().map(|(_, line)| line).collect();
        let expected = ["error[E0102]: each of these topics does not exist\n  a\n  c", "error[E0102]: topic \"b\": has one copy"];
        assert_eq!(lines, expected);
    }
}
