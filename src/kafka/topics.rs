//! The topics of a group, as the brokers have them: names, partition counts, and where an output goes.

use loopwarden_core::event::{Stage, TaskId, partition_of};
use loopwarden_core::limits;
use loopwarden_log::clock::Deadline;
use loopwarden_log::{Destination, LogError, Output, Partitions};
use rdkafka::client::{Client, ClientContext};
use rdkafka::types::RDKafkaRespErr;

use crate::{client::fate, client::settings::KafkaOptions};

/// Names similar to a missing one, listed in its error.
const SIMILAR_MAX: usize = 3;

/// One topic and its partition count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) partitions: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StageTopics {
    stage: Stage,
    input: Topic,
    /// None of an intake, which keeps no state.
    changelog: Option<Topic>,
}

/// All topics of a group. Their counts are those of the start: inputs and changelogs do not grow while the group runs (rule B8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topics {
    stages: Vec<StageTopics>,
    /// Of an intake alone, which has neither commands nor verdicts.
    events: Option<Topic>,
    commands: Option<Topic>,
    state: Option<Topic>,
    dead_letters: Topic,
    swarm_counts: Option<Topic>,
}

impl Topics {
    /// Asks for every topic.
    ///
    /// # Errors
    /// E0101 when no broker answers, E0102 for a topic that does not exist, E0104 when a changelog does not fit its input.
    pub(super) fn fetch<C: ClientContext>(client: &Client<C>, options: &KafkaOptions) -> Result<Self, LogError> {
        let topics = Self::fetch_uneven(client, options)?;
        for StageTopics { input, changelog, .. } in &topics.stages {
            if let Some(changelog) = changelog.as_ref().filter(|changelog| changelog.partitions != input.partitions) {
                return Err(uneven(&input.name, input.partitions, changelog));
            }
        }
        Ok(topics)
    }

    /// The same, whether or not changelogs fit their inputs.
    ///
    /// # Errors
    /// As [`Topics::fetch`], but E0104.
    pub(super) fn fetch_uneven<C: ClientContext>(client: &Client<C>, options: &KafkaOptions) -> Result<Self, LogError> {
        let deadline = Deadline::after(limits::CONNECT_WAIT);
        let ask = |name: &str| fetch(client, options, name, deadline);
        let mut stages = Vec::new();
        if let Some(events) = &options.rekeyed_to {
            let input = ask(&options.topics.input)?;
            stages.push(StageTopics { stage: Stage::Session, input, changelog: None });
            let (events, dead_letters) = (Some(ask(events)?), ask(&options.topics.dead_letters)?);
            return Ok(Self { stages, events, commands: None, state: None, dead_letters, swarm_counts: None });
        }
        for stage in options.stages() {
            let input = ask(&options.input_topic(*stage))?;
            let changelog = ask(&options.changelog_topic(*stage))?;
            stages.push(StageTopics { stage: *stage, input, changelog: Some(changelog) });
        }
        let swarm_counts = stages.iter().find(|topics| topics.stage == Stage::Swarm).map(|topics| topics.input.clone());
        Ok(Self {
            stages,
            events: None,
            commands: Some(ask(&options.topics.commands)?),
            state: Some(ask(&options.topics.state)?),
            dead_letters: ask(&options.topics.dead_letters)?,
            swarm_counts,
        })
    }

    /// Partition counts of the inputs; 0 for a stage that does not run.
    pub(super) fn partitions(&self) -> Partitions {
        let of = |stage| self.of(stage).map_or(0, |topics| topics.input.partitions);
        Partitions { session: of(Stage::Session), swarm: of(Stage::Swarm) }
    }

    /// Partitions of a stage's changelog; 0 without one.
    pub(super) fn changelog_partitions(&self, stage: Stage) -> u32 {
        self.of(stage).and_then(|topics| topics.changelog.as_ref()).map_or(0, |changelog| changelog.partitions)
    }

    fn of(&self, stage: Stage) -> Option<&StageTopics> {
        self.stages.iter().find(|topics| topics.stage == stage)
    }

    /// The task that reads a partition; `None` for a topic that is no input.
    pub(super) fn task_of(&self, topic: &str, partition: i32) -> Option<TaskId> {
        let stage = self.stages.iter().find(|topics| topics.input.name == topic)?.stage;
        Some(TaskId { stage, partition: u32::try_from(partition).ok()? })
    }

    /// Input topic of a task.
    pub(super) fn input_of(&self, task: TaskId) -> Option<&str> {
        self.of(task.stage).map(|topics| topics.input.name.as_str())
    }

    /// Changelog topic of a task.
    pub(super) fn changelog_of(&self, task: TaskId) -> Option<&str> {
        self.of(task.stage)?.changelog.as_ref().map(|changelog| changelog.name.as_str())
    }

    /// That the task's changelog partition existed at the start.
    ///
    /// # Errors
    /// E0104: the input has grown.
    pub(super) fn expect_changelog(&self, task: TaskId) -> Result<(), LogError> {
        let Some(StageTopics { input, changelog: Some(changelog), .. }) = self.of(task.stage) else { return Ok(()) };
        if task.partition < changelog.partitions { Ok(()) } else { Err(uneven(&input.name, task.partition + 1, changelog)) }
    }

    /// Topic and partition of an output; without a partition the client's murmur2 decides.
    pub(super) fn place(&self, output: &Output) -> (&str, Option<i32>) {
        match output.destination {
            Destination::Events => (name_of(self.events.as_ref()), None),
            Destination::Commands => (name_of(self.commands.as_ref()), None),
            Destination::State => (name_of(self.state.as_ref()), None),
            Destination::DeadLetters { source_partition } => {
                (&self.dead_letters.name, Some((source_partition % self.dead_letters.partitions.max(1)) as i32))
            }
            Destination::SwarmCounts => match &self.swarm_counts {
                Some(topic) => (&topic.name, Some(partition_of(&output.key, topic.partitions) as i32)),
                // The swarm stage is off: a lane does not stage for it.
                None => ("", None),
            },
            Destination::SwarmPartition { partition } => match &self.swarm_counts {
                Some(topic) => (&topic.name, Some(partition as i32)),
                None => ("", None),
            },
            Destination::Changelog(task) => (self.changelog_of(task).unwrap_or(""), Some(task.partition as i32)),
        }
    }
}

/// The name of a topic. Nothing stages for one that its part does not have; an empty name is refused by the client, which aborts.
fn name_of(topic: Option<&Topic>) -> &str {
    topic.map_or("", |topic| topic.name.as_str())
}

/// Input and changelog do not fit: a task would have no place for its state, or state no task.
fn uneven(input: &str, partitions: u32, changelog: &Topic) -> LogError {
    let Topic { name, partitions: beside } = changelog;
    // More partitions of the changelog than of its input: a growth has begun.
    let way_out = format!(
        "; stop every process, then let sessions move to the partitions of their keys:\n  loopwarden topics grow --partitions {}",
        partitions.max(*beside)
    );
    let message =
        format!("topic \"{input}\" has {partitions} partitions and its changelog \"{name}\" has {beside}: both must be equal");
    fate::fatal(fate::E_TOPIC_SHAPE, message + &way_out)
}

fn fetch<C: ClientContext>(
    client: &Client<C>,
    options: &KafkaOptions,
    name: &str,
    deadline: Deadline,
) -> Result<Topic, LogError> {
    let asking = format!("asking for topic \"{name}\" on {}", options.bootstrap_servers);
    loop {
        let metadata = match client.fetch_metadata(Some(name), deadline.left()) {
            Ok(metadata) => metadata,
            Err(error) => {
                return Err(match fate::of(&error, &asking) {
                    LogError::Transient(cause) => fate::fatal(
                        fate::E_UNREACHABLE,
                        format!("{cause}; check kafka.bootstrap_servers, and security settings if the broker expects them"),
                    ),
                    other => other,
                });
            }
        };
        let Some(topic) = metadata.topics().first() else { return Err(missing(client, options, name)) };
        match topic.error() {
            None => return Ok(Topic { name: name.to_owned(), partitions: topic.partitions().len() as u32 }),
            Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) => {
                return Err(fate::fatal(
                    fate::E_NOT_AUTHORISED,
                    format!("{asking}: the missing permission is Describe on the topic, which comes with Read and with Write"),
                ));
            }
            Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART | RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION) => {
                return Err(missing(client, options, name));
            }
            // A topic made a moment ago has no leaders yet: ask again, the question itself takes a round trip.
            Some(_) if !deadline.is_over() => {}
            Some(error) => return Err(LogError::Transient(format!("{asking}: {error:?}"))),
        }
    }
}

fn missing<C: ClientContext>(client: &Client<C>, options: &KafkaOptions, name: &str) -> LogError {
    let mut message = format!("topic \"{name}\" does not exist on {}", options.bootstrap_servers);
    if let Ok(all) = client.fetch_metadata(None, limits::ASK_WAIT) {
        let names: Vec<&str> = all.topics().iter().map(rdkafka::metadata::MetadataTopic::name).collect();
        let similar = similar(name, &names);
        if !similar.is_empty() {
            message.push_str("\n  topics that look similar: ");
            message.push_str(&similar.join(", "));
        }
    }
    // A foreign topic is somebody else's to make.
    let is_foreign = options.rekeyed_to.is_some() && name == options.topics.input;
    message.push_str(if is_foreign { "\n  it is named by [[input]]" } else { "\n  create it with: loopwarden topics create" });
    fate::fatal(fate::E_TOPIC_MISSING, message)
}

/// Names a person may have meant: equal but for separators and case, or at most three letters away.
pub(super) fn similar<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !matches!(c, '.' | '-' | '_')).flat_map(char::to_lowercase).collect()
    };
    let wanted = plain(name);
    let mut found: Vec<(usize, &str)> = names
        .iter()
        .filter(|other| **other != name && !other.starts_with("__"))
        .map(|other| (distance(&wanted, &plain(other)), *other))
        .filter(|(distance, _)| *distance <= 3)
        .collect();
    found.sort_unstable();
    found.into_iter().take(SIMILAR_MAX).map(|(_, name)| name).collect()
}

/// Levenshtein's.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (to, above) in b.iter().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(from != to)).min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use loopwarden_log::Headers;

    use super::*;

    #[test]
    fn a_topic_written_with_other_separators_is_suggested() {
        let names = ["agents.tool_events.v1", "agents.tool-events.v2", "orders", "__consumer_offsets"];
        assert_eq!(similar("agents.tool-events.v1", &names), vec!["agents.tool_events.v1", "agents.tool-events.v2"]);
    }

    #[test]
    fn nothing_is_suggested_for_a_name_like_no_other() {
        assert!(similar("agents.tool-events.v1", &["orders", "payments"]).is_empty());
    }

    #[test]
    fn a_dead_letter_goes_to_its_source_partition_modulo_the_count() {
        let topic = |name: &str, partitions| Topic { name: name.into(), partitions };
        let topics = Topics {
            stages: vec![],
            events: None,
            commands: Some(topic("c", 1)),
            state: Some(topic("s", 1)),
            dead_letters: topic("d", 4),
            swarm_counts: Some(topic("w", 3)),
        };
        let output = |destination| Output {
            destination,
            key: b"foobar".to_vec(),
            value: None,
            headers: Headers::default(),
            timestamp_ms: 1,
        };
        assert_eq!(topics.place(&output(Destination::DeadLetters { source_partition: 6 })), ("d", Some(2)));
        // (-790332482 & 0x7fffffff) % 3, as Java's client computes it.
        assert_eq!(topics.place(&output(Destination::SwarmCounts)), ("w", Some(1_357_151_166 % 3)));
        assert_eq!(topics.place(&output(Destination::SwarmPartition { partition: 2 })), ("w", Some(2)));
        assert_eq!(topics.place(&output(Destination::Commands)), ("c", None));
        assert_eq!(topics.place(&output(Destination::Events)), ("", None), "only an intake writes events");
    }
}
