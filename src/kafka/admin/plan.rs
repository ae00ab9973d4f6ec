//! Topics as they should be, and how those that are there differ from it.

use loopwarden_core::event::Stage;

use crate::{client::fate, client::settings::KafkaOptions};

/// Partitions of the event topic where nobody said: a power of two hardly helps, many divisors do.
pub const PARTITIONS_DEFAULT: u32 = 24;
/// Copies of each record where nobody said.
pub const REPLICATION_DEFAULT: u16 = 3;

/// What a topic is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Input,
    Commands,
    /// Verdicts in force.
    State,
    /// What could not be an event.
    DeadLetters,
    /// Committed copy of a stage's state.
    Changelog(Stage),
    /// From the session stage to the swarm stage.
    SwarmCounts,
}

impl Purpose {
    /// Whether only this program uses the topic: then `run` may make it for a group without offsets.
    pub const fn is_internal(self) -> bool {
        matches!(self, Self::Changelog(_) | Self::SwarmCounts)
    }
}

/// One topic as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlan {
    pub name: String,
    pub purpose: Purpose,
    pub partitions: u32,
    /// Copies.
    pub replication: u16,
    /// Topic settings, by name.
    pub config: Vec<(&'static str, String)>,
}

/// What the client sends at most as one record, in the words of a topic's setting. Bytes.
const RECORD_BYTES_WRITTEN_MAX: &str = "1000000";

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Every topic of a group (page `operations`). Fewer copies than two cannot insist on two.
pub fn plan(options: &KafkaOptions, partitions: u32, replication: u16) -> Vec<TopicPlan> {
    let deleted = |days: u64| vec![("cleanup.policy", "delete".to_owned()), ("retention.ms", (days * DAY_MS).to_string())];
    let compacted = |delete_retention_ms: u64, dirty: &str| {
        vec![
            ("cleanup.policy", "compact".to_owned()),
            ("delete.retention.ms", delete_retention_ms.to_string()),
            ("segment.ms", HOUR_MS.to_string()),
            ("min.cleanable.dirty.ratio", dirty.to_owned()),
        ]
    };
    let with = |mut config: Vec<(&'static str, String)>, key, value: String| {
        config.push((key, value));
        config
    };
    let topics = &options.topics;
    let mut plans = vec![
        (topics.input.clone(), Purpose::Input, with(deleted(7), "message.timestamp.type", "LogAppendTime".into())),
        (topics.commands.clone(), Purpose::Commands, deleted(7)),
        (topics.state.clone(), Purpose::State, with(compacted(DAY_MS, "0.1"), "max.compaction.lag.ms", HOUR_MS.to_string())),
        (topics.dead_letters.clone(), Purpose::DeadLetters, deleted(14)),
        (options.changelog_topic(Stage::Session), Purpose::Changelog(Stage::Session), compacted(3 * DAY_MS, "0.2")),
    ];
    if options.swarm {
        // A sum's own time is that of its calls, which may be a week old when an input is worked off: brokers would delete it unread.
        let counts = with(deleted(1), "message.timestamp.type", "LogAppendTime".into());
        plans.push((options.input_topic(Stage::Swarm), Purpose::SwarmCounts, counts));
        plans.push((options.changelog_topic(Stage::Swarm), Purpose::Changelog(Stage::Swarm), compacted(3 * DAY_MS, "0.2")));
    }
    plans
        .into_iter()
        .map(|(name, purpose, mut config)| {
            config.push(("min.insync.replicas", if replication >= 2 { "2" } else { "1" }.to_owned()));
            config.push(("unclean.leader.election.enable", "false".to_owned()));
            TopicPlan { name, purpose, partitions, replication, config }
        })
        .collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicFacts {
    pub partitions: u32,
    /// Fewest copies of a partition.
    pub replication: u16,
    /// Settings, by name.
    pub config: Vec<(String, String)>,
    /// Whether the settings may be read; without the permission DescribeConfigs there are none above.
    pub is_config_known: bool,
}

impl TopicFacts {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.config.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// How much a difference matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, but not as promised.
    Warning,
    /// It must not run like this.
    Error,
}

/// One difference between plan and fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicProblem {
    /// Documented code.
    pub code: &'static str,
    pub severity: Severity,
    pub topic: String,
    /// What is wrong and what to do.
    pub message: String,
}

pub(crate) fn missing(plan: &TopicPlan, group_has_offsets: bool, similar: &[String]) -> TopicProblem {
    let vanished = plan.purpose.is_internal() && group_has_offsets;
    let mut message = if vanished {
        "an internal topic of a group that has worked before is gone; see `loopwarden explain E0105` before making it anew"
            .to_owned()
    } else {
        "does not exist; create it with: loopwarden topics create".to_owned()
    };
    if !similar.is_empty() {
        message.push_str("\n  topics that look similar: ");
        message.push_str(&similar.join(", "));
    }
    let code = if vanished { fate::E_INTERNAL_VANISHED } else { fate::E_TOPIC_MISSING };
    TopicProblem { code, severity: Severity::Error, topic: plan.name.clone(), message }
}

/// Differences of one topic, judged by what they break.
pub fn compare(plan: &TopicPlan, facts: &TopicFacts) -> Vec<TopicProblem> {
    let mut problems = Vec::new();
    let mut say = |severity, message: String| {
        problems.push(TopicProblem { code: fate::E_TOPIC_SHAPE, severity, topic: plan.name.clone(), message });
    };
    if !facts.is_config_known {
        return vec![TopicProblem {
            code: fate::E_NOT_AUTHORISED,
            severity: Severity::Warning,
            topic: plan.name.clone(),
            message: "its settings cannot be compared; the missing permission is DescribeConfigs on the topic".to_owned(),
        }];
    }
    for (key, wanted) in &plan.config {
        let Some(found) = facts.get(key) else { continue };
        if found == wanted {
            continue;
        }
        let severity = match (*key, plan.purpose) {
            // Anything but compact alone loses Positions of idle partitions (rule I6), or never shrinks.
            ("cleanup.policy", Purpose::Changelog(_) | Purpose::State) => Severity::Error,
            // Rule R2 counts on tombstones of this age.
            ("delete.retention.ms", Purpose::Changelog(_)) if less(found, wanted) => Severity::Error,
            ("message.timestamp.type" | "min.insync.replicas" | "unclean.leader.election.enable" | "cleanup.policy", _) => {
                Severity::Warning
            }
            ("retention.ms", _) if less(found, wanted) => Severity::Warning,
            // Longer retention and other paces of compaction are a matter of taste.
            _ => continue,
        };
        say(severity, format!("{key} is {found}, should be {wanted}"));
    }
    let is_written = !matches!(plan.purpose, Purpose::Input);
    if let Some(found) = facts.get("max.message.bytes").filter(|found| is_written && less(found, RECORD_BYTES_WRITTEN_MAX)) {
        say(Severity::Warning, format!("max.message.bytes is {found}, should be at least {RECORD_BYTES_WRITTEN_MAX}"));
    }
    problems
}

/// Whether `found` is a smaller number; -1 is for ever.
fn less(found: &str, wanted: &str) -> bool {
    matches!((found.parse::<i64>(), wanted.parse::<i64>()), (Ok(found), Ok(wanted)) if found >= 0 && found < wanted)
}

/// Inputs and their changelogs must have equal counts (rule B8).
pub(crate) fn uneven(facts: &[(&TopicPlan, TopicFacts)]) -> Vec<TopicProblem> {
    let of = |purpose| facts.iter().find(|(plan, _)| plan.purpose == purpose);
    let mut problems = Vec::new();
    for (input, changelog) in
        [(Purpose::Input, Purpose::Changelog(Stage::Session)), (Purpose::SwarmCounts, Purpose::Changelog(Stage::Swarm))]
    {
        if let (Some((input, input_facts)), Some((changelog, changelog_facts))) = (of(input), of(changelog))
            && input_facts.partitions != changelog_facts.partitions
        {
            problems.push(TopicProblem {
                code: fate::E_TOPIC_SHAPE,
                severity: Severity::Error,
                topic: changelog.name.clone(),
                message: format!(
                    "has {} partitions, its input \"{}\" has {}: both must be equal",
                    changelog_facts.partitions, input.name, input_facts.partitions
                ),
            });
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::settings::tests::options;

    fn facts(plan: &TopicPlan) -> TopicFacts {
        TopicFacts {
            partitions: plan.partitions,
            replication: plan.replication,
            is_config_known: true,
            config: plan.config.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        }
    }

    fn plan_of(purpose: Purpose) -> TopicPlan {
        plan(&options(), 24, 3).into_iter().find(|plan| plan.purpose == purpose).expect("planned")
    }

    fn changed(plan: &TopicPlan, key: &str, value: &str) -> TopicFacts {
        let mut facts = facts(plan);
        facts.config.iter_mut().find(|(name, _)| name == key).expect("planned").1 = value.to_owned();
        facts
    }

    #[test]
    fn a_topic_made_as_planned_has_no_problem() {
        for plan in plan(&options(), 24, 3) {
            assert_eq!(compare(&plan, &facts(&plan)), vec![], "{}", plan.name);
        }
    }

    #[test]
    fn a_changelog_that_deletes_is_refused() {
        let plan = plan_of(Purpose::Changelog(Stage::Session));
        let problems = compare(&plan, &changed(&plan, "cleanup.policy", "compact,delete"));
        assert_eq!(problems.len(), 1);
        assert_eq!((problems[0].severity, problems[0].code), (Severity::Error, "E0104"));
    }

    #[test]
    fn shorter_retention_warns_and_longer_does_not() {
        let plan = plan_of(Purpose::Input);
        assert_eq!(compare(&plan, &changed(&plan, "retention.ms", "3600000")).len(), 1);
        assert_eq!(compare(&plan, &changed(&plan, "retention.ms", "-1")), vec![]);
    }

    #[test]
    fn an_input_on_the_producers_clock_warns() {
        let plan = plan_of(Purpose::Input);
        let problems = compare(&plan, &changed(&plan, "message.timestamp.type", "CreateTime"));
        assert_eq!(problems.iter().map(|problem| problem.severity).collect::<Vec<_>>(), vec![Severity::Warning]);
    }

    #[test]
    fn sums_are_kept_by_the_time_of_their_writing_however_old_their_calls_are() {
        let plan = plan_of(Purpose::SwarmCounts);
        assert!(plan.config.contains(&("message.timestamp.type", "LogAppendTime".to_owned())), "{:?}", plan.config);
        let problems = compare(&plan, &changed(&plan, "message.timestamp.type", "CreateTime"));
        assert_eq!(problems.iter().map(|problem| problem.severity).collect::<Vec<_>>(), vec![Severity::Warning]);
    }

    #[test]
    fn a_topic_that_takes_smaller_records_than_are_written_warns() {
        let with = |purpose, bytes: &str| {
            let plan = plan_of(purpose);
            let mut facts = facts(&plan);
            facts.config.push(("max.message.bytes".to_owned(), bytes.to_owned()));
            compare(&plan, &facts).into_iter().map(|problem| problem.severity).collect::<Vec<_>>()
        };
        assert_eq!(with(Purpose::Changelog(Stage::Swarm), "999999"), vec![Severity::Warning]);
        assert_eq!(with(Purpose::Changelog(Stage::Swarm), "1048588"), vec![]);
        assert_eq!(with(Purpose::Input, "1000"), vec![]);
    }

    #[test]
    fn a_vanished_internal_topic_is_no_fresh_start() {
        let plan = plan_of(Purpose::Changelog(Stage::Swarm));
        assert_eq!(missing(&plan, true, &[]).code, "E0105");
        assert_eq!(missing(&plan, false, &[]).code, "E0102");
    }

    #[test]
    fn no_topic_name_has_an_underscore() {
        assert!(plan(&options(), 24, 3).iter().all(|plan| !plan.name.contains('_')));
    }
}
