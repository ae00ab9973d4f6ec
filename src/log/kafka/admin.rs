//! Topics as they should be, as they are, and the way from one to the other.

use std::pin::pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::task::Wake;
use std::task::Waker;
use std::thread;
use std::thread::Thread;
use std::time::Duration;

use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::admin::AdminClient;
use rdkafka::admin::AdminOptions;
use rdkafka::admin::NewTopic;
use rdkafka::admin::ResourceSpecifier;
use rdkafka::admin::TopicReplication;
use rdkafka::consumer::BaseConsumer;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaRespErr;

use crate::clock::Deadline;
use crate::event::Stage;
use crate::limits;
use crate::log::LogError;
use crate::log::kafka::context::PlainContext;
use crate::log::kafka::fate;
use crate::log::kafka::settings;
use crate::log::kafka::settings::KafkaOptions;
use crate::log::kafka::topics::similar;

/// Partitions of the event topic where nobody said: a power of two hardly helps, many divisors do.
pub const PARTITIONS_DEFAULT: u32 = 24;
/// Copies of each record where nobody said.
pub const REPLICATION_DEFAULT: u16 = 3;

/// What a topic is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Events from agents.
    Input,
    /// Commands to agents.
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
    #[must_use]
    pub const fn is_internal(self) -> bool {
        matches!(self, Self::Changelog(_) | Self::SwarmCounts)
    }
}

/// One topic as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlan {
    /// Name.
    pub name: String,
    /// What it is for.
    pub purpose: Purpose,
    /// Partitions.
    pub partitions: u32,
    /// Copies.
    pub replication: u16,
    /// Topic settings, by name.
    pub config: Vec<(&'static str, String)>,
}

/// Between two questions whether a new topic is known.
const ASK_AGAIN: Duration = Duration::from_millis(20);

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Every topic of a group (`wire.md` section 5). Fewer copies than two cannot insist on two.
#[must_use]
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
        plans.push((options.input_topic(Stage::Swarm), Purpose::SwarmCounts, deleted(1)));
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

/// One topic as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicFacts {
    /// Partitions.
    pub partitions: u32,
    /// Fewest copies of a partition.
    pub replication: u16,
    /// Settings, by name, as far as they may be read.
    pub config: Vec<(String, String)>,
}

impl TopicFacts {
    /// A setting's value.
    #[must_use]
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
    /// How much it matters.
    pub severity: Severity,
    /// Topic.
    pub topic: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// What became of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It is new.
    New,
    /// It was there; nothing was changed.
    Existed,
}

/// A client that administers. Not for the hot path: each call blocks.
pub struct Admin {
    client: AdminClient<PlainContext>,
    bootstrap: String,
}

impl Admin {
    /// Makes the client; talks to nobody yet.
    ///
    /// # Errors
    /// A setting librdkafka refuses.
    pub fn new(options: &KafkaOptions) -> Result<Self, LogError> {
        let client = settings::admin(options)
            .create_with_context(PlainContext)
            .map_err(|error| fate::of(&error, "making the admin client"))?;
        Ok(Self { client, bootstrap: options.bootstrap_servers.clone() })
    }

    /// Id of the cluster: a store belongs to one.
    ///
    /// # Errors
    /// E0101 when no broker answers.
    pub fn cluster_id(&self) -> Result<String, LogError> {
        self.client
            .inner()
            .fetch_cluster_id(limits::CONNECT_WAIT)
            .ok_or_else(|| fate::fatal(fate::E_UNREACHABLE, format!("no broker answers on {}", self.bootstrap)))
    }

    /// Number of brokers: more copies of a topic than that cannot be.
    ///
    /// # Errors
    /// E0101 when no broker answers.
    pub fn brokers(&self) -> Result<u16, LogError> {
        let asking = format!("asking {} for its brokers", self.bootstrap);
        match self.client.inner().fetch_metadata(None, limits::CONNECT_WAIT) {
            Ok(metadata) => Ok(metadata.brokers().len() as u16),
            Err(error) => Err(match fate::of(&error, &asking) {
                LogError::Transient(cause) => fate::fatal(fate::E_UNREACHABLE, cause),
                other => other,
            }),
        }
    }

    /// Whether the group has an offset of its event topic: then it has worked before, and its internal topics must be there.
    ///
    /// # Errors
    /// E0101, E0103; [`LogError::Transient`] while the group's coordinator does not answer.
    pub fn group_has_offsets(&self, options: &KafkaOptions) -> Result<bool, LogError> {
        let Some(input) = self.describe(&options.topics.input)? else { return Ok(false) };
        let asking = format!("asking {} for the offsets of group \"{}\"", self.bootstrap, options.app);
        let client: BaseConsumer<PlainContext> =
            settings::reader(options, "offsets").create_with_context(PlainContext).map_err(|error| fate::of(&error, &asking))?;
        let mut list = TopicPartitionList::new();
        for partition in 0..input.partitions {
            list.add_partition(&options.topics.input, partition as i32);
        }
        let list = client.committed_offsets(list, limits::CONNECT_WAIT).map_err(|error| fate::of(&error, &asking))?;
        Ok(list.elements().iter().any(|element| matches!(element.offset(), Offset::Offset(_))))
    }

    /// Creates what is missing. What exists stays as it is, so that it may be called again.
    ///
    /// # Errors
    /// The first topic that could not be made, by fate.
    pub fn create(&self, plans: &[TopicPlan]) -> Result<Vec<(String, Created)>, LogError> {
        let topics: Vec<NewTopic<'_>> = plans
            .iter()
            .map(|plan| {
                let replication = TopicReplication::Fixed(i32::from(plan.replication));
                let topic = NewTopic::new(&plan.name, plan.partitions as i32, replication);
                plan.config.iter().fold(topic, |topic, (key, value)| topic.set(key, value))
            })
            .collect();
        let options = AdminOptions::new().request_timeout(Some(limits::CONNECT_WAIT)).operation_timeout(Some(limits::ASK_WAIT));
        let results = wait_for(self.client.create_topics(&topics, &options))
            .map_err(|error| fate::of(&error, &format!("creating topics on {}", self.bootstrap)))?;
        results
            .into_iter()
            .map(|result| match result {
                Ok(name) => {
                    self.wait_until_known(&name);
                    Ok((name, Created::New))
                }
                Err((name, RDKafkaErrorCode::TopicAlreadyExists)) => Ok((name, Created::Existed)),
                Err((name, code)) => {
                    let error = rdkafka::error::KafkaError::Global(code);
                    Err(match fate::of(&error, &format!("creating topic \"{name}\"")) {
                        LogError::Transient(cause) => fate::fatal(fate::E_TOPIC_SHAPE, cause),
                        other => other,
                    })
                }
            })
            .collect()
    }

    /// A new topic is known to the controller first, to the brokers a moment later. Who asks them before is told that it does not
    /// exist. Waiting in vain is no error: whoever needs the topic will say so.
    fn wait_until_known(&self, name: &str) {
        let deadline = Deadline::after(limits::ASK_WAIT);
        while !deadline.is_over() {
            let known = self.client.inner().fetch_metadata(Some(name), deadline.left()).is_ok_and(|metadata| {
                metadata.topics().iter().all(|topic| topic.error().is_none() && !topic.partitions().is_empty())
            });
            if known {
                return;
            }
            thread::park_timeout(ASK_AGAIN);
        }
    }

    /// What a topic is like; `None` when it does not exist.
    ///
    /// # Errors
    /// E0101, E0103.
    pub fn describe(&self, name: &str) -> Result<Option<TopicFacts>, LogError> {
        let asking = format!("asking for topic \"{name}\" on {}", self.bootstrap);
        let metadata = self.client.inner().fetch_metadata(Some(name), limits::CONNECT_WAIT).map_err(|error| {
            match fate::of(&error, &asking) {
                LogError::Transient(cause) => fate::fatal(fate::E_UNREACHABLE, cause),
                other => other,
            }
        })?;
        let Some(topic) = metadata.topics().first() else { return Ok(None) };
        match topic.error() {
            Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART | RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION) => {
                return Ok(None);
            }
            Some(error) => return Err(fate::of(&rdkafka::error::KafkaError::Global(error.into()), &asking)),
            None => {}
        }
        let partitions = topic.partitions();
        let replication = partitions.iter().map(|partition| partition.replicas().len()).min().unwrap_or(0);
        Ok(Some(TopicFacts {
            partitions: partitions.len() as u32,
            replication: replication as u16,
            config: self.config_of(name, &asking)?,
        }))
    }

    fn config_of(&self, name: &str, asking: &str) -> Result<Vec<(String, String)>, LogError> {
        let options = AdminOptions::new().request_timeout(Some(limits::ASK_WAIT));
        let resources = wait_for(self.client.describe_configs(&[ResourceSpecifier::Topic(name)], &options))
            .map_err(|error| fate::of(&error, asking))?;
        let mut config = Vec::new();
        for resource in resources {
            // Without DescribeConfigs the settings stay unknown, and are not complained about.
            let Ok(resource) = resource else { continue };
            config.extend(resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))));
        }
        Ok(config)
    }

    /// Names of topics that a missing one may have been meant to be.
    ///
    /// # Errors
    /// E0101.
    pub fn similar_to(&self, name: &str) -> Result<Vec<String>, LogError> {
        let metadata =
            self.client.inner().fetch_metadata(None, limits::ASK_WAIT).map_err(|error| {
                fate::fatal(fate::E_UNREACHABLE, format!("asking {} for its topics: {error}", self.bootstrap))
            })?;
        let names: Vec<&str> = metadata.topics().iter().map(rdkafka::metadata::MetadataTopic::name).collect();
        Ok(similar(name, &names).into_iter().map(str::to_owned).collect())
    }

    /// Compares topics with their plans. An internal topic that is missing is E0105 if the group has worked before.
    ///
    /// # Errors
    /// E0101, E0103.
    pub fn check(&self, plans: &[TopicPlan], group_has_offsets: bool) -> Result<Vec<TopicProblem>, LogError> {
        let mut problems = Vec::new();
        let mut facts = Vec::new();
        for plan in plans {
            match self.describe(&plan.name)? {
                Some(found) => {
                    problems.extend(compare(plan, &found));
                    facts.push((plan, found));
                }
                None => problems.push(missing(plan, group_has_offsets, &self.similar_to(&plan.name)?)),
            }
        }
        problems.extend(uneven(&facts));
        Ok(problems)
    }
}

fn missing(plan: &TopicPlan, group_has_offsets: bool, similar: &[String]) -> TopicProblem {
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
#[must_use]
pub fn compare(plan: &TopicPlan, facts: &TopicFacts) -> Vec<TopicProblem> {
    let mut problems = Vec::new();
    let mut say = |severity, message| {
        problems.push(TopicProblem { code: fate::E_TOPIC_SHAPE, severity, topic: plan.name.clone(), message });
    };
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
    problems
}

/// Whether `found` is a smaller number; -1 is for ever.
fn less(found: &str, wanted: &str) -> bool {
    matches!((found.parse::<i64>(), wanted.parse::<i64>()), (Ok(found), Ok(wanted)) if found >= 0 && found < wanted)
}

/// Inputs and their changelogs must have equal counts (rule B8).
fn uneven(facts: &[(&TopicPlan, TopicFacts)]) -> Vec<TopicProblem> {
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

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for one of the admin client's answers, which its own thread brings; bounded by the request's timeout.
fn wait_for<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::kafka::settings::tests::options;

    fn facts(plan: &TopicPlan) -> TopicFacts {
        TopicFacts {
            partitions: plan.partitions,
            replication: plan.replication,
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
