//! A client that makes topics, describes them and compares them with their plans.

use std::task::{Context, Poll, Wake, Waker};
use std::{pin::pin, sync::Arc, thread, thread::Thread, time::Duration};

use loopwarden_core::limits;
use loopwarden_log::{LogError, clock::Deadline};
use loopwarden_token::Tokens;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::{Offset, TopicPartitionList};
use rdkafka::{consumer::Consumer, error::RDKafkaErrorCode, metadata::Metadata, types::RDKafkaRespErr};

pub use crate::admin::plan::{
    PARTITIONS_DEFAULT, Purpose, REPLICATION_DEFAULT, Severity, TopicFacts, TopicPlan, TopicProblem, compare, plan,
};
use crate::admin::plan::{missing, uneven};
use crate::client::{bearer, closing::Bounded, fate, identity, settings};
use crate::{client::context::PlainContext, client::settings::KafkaOptions, readers::reader::Reader, topics::similar};

/// Between two questions whether a new topic is known.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Whoever waits longer for the first answer is told what for.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// What became of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    New,
    /// It was there; nothing was changed.
    Existed,
}

/// A client that administers. Not for the hot path: each call blocks.
pub struct Admin {
    client: Bounded<AdminClient<PlainContext>>,
    /// All questions are asked of this one: the admin client hands out neither log lines nor errors.
    reader: Reader,
    bootstrap: String,
    tokens: Option<Tokens>,
}

impl Admin {
    /// Makes the client; talks to no broker yet, but gets the first token where brokers want one.
    ///
    /// # Errors
    /// A setting librdkafka refuses; E0106.
    pub fn new(options: &KafkaOptions) -> Result<Self, LogError> {
        let client = Bounded::make(&settings::admin(options), PlainContext::default(), "making the admin client")?;
        let tokens = options.security.tokens.clone();
        first_token(tokens.as_ref())?;
        Ok(Self { client, reader: Reader::open(options, "asker")?, bootstrap: options.bootstrap_servers.clone(), tokens })
    }

    fn metadata(&self, topic: Option<&str>, wait: Duration, asking: &str) -> Result<Metadata, LogError> {
        bearer::hand_to(self.reader.client(), self.tokens.as_ref()).map_err(|error| identity::fatal(&error))?;
        let answer = self.reader.client().fetch_metadata(topic, wait);
        answer.map_err(|error| fate::unanswered(fate::of(&error, asking)))
    }

    /// The client, with a token of now.
    fn client(&self) -> Result<&AdminClient<PlainContext>, LogError> {
        bearer::hand_to(self.client.inner(), self.tokens.as_ref()).map_err(|error| identity::fatal(&error))?;
        Ok(&self.client)
    }

    /// Id of the cluster: a store belongs to one. Where that takes long, `tell` is told once what is waited for.
    ///
    /// # Errors
    /// E0101 when no broker answers, E0103 when none lets this client in.
    pub fn cluster_id(&self, tell: &dyn Fn(&str)) -> Result<String, LogError> {
        let deadline = Deadline::after(limits::CONNECT_WAIT);
        let mut patience = Some(Deadline::after(TELL_AFTER));
        loop {
            if let Some(id) = self.reader.client().fetch_cluster_id(ASK_AGAIN) {
                return Ok(id);
            }
            // Log lines and errors come with a poll; there is nothing to be read.
            drop(self.reader.consumer().poll(ASK_AGAIN));
            let failure = self.reader.context().failure();
            if patience.is_some_and(|patience| patience.is_over()) {
                patience = None;
                let why = failure.as_ref().map(|failure| format!(": {}", failure.reason)).unwrap_or_default();
                let left = limits::CONNECT_WAIT.as_secs();
                tell(&format!("waiting up to {left} s for a broker on {}{why}", self.bootstrap));
            }
            // One broker that refuses will go on doing so, and the others, if there are any, would have answered in the same time.
            if deadline.is_over() || failure.as_ref().is_some_and(|failure| failure.is_refused) {
                return Err(fate::unreachable(&format!("no broker answers on {}", self.bootstrap), failure));
            }
        }
    }

    /// Number of brokers: more copies of a topic than that cannot be.
    ///
    /// # Errors
    /// E0101 when no broker answers.
    pub fn brokers(&self) -> Result<u16, LogError> {
        let asking = format!("asking {} for its brokers", self.bootstrap);
        Ok(self.metadata(None, limits::CONNECT_WAIT, &asking)?.brokers().len() as u16)
    }

    /// Whether the group has an offset of its event topic: then it has worked before, and its internal topics must be there.
    ///
    /// # Errors
    /// E0101, E0103; [`LogError::Transient`] while the group's coordinator does not answer.
    pub fn group_has_offsets(&self, options: &KafkaOptions) -> Result<bool, LogError> {
        let Some(input) = self.describe(&options.topics.input)? else { return Ok(false) };
        let asking = format!("asking {} for the offsets of group \"{}\"", self.bootstrap, options.app);
        let mut list = TopicPartitionList::new();
        for partition in 0..input.partitions {
            list.add_partition(&options.topics.input, partition as i32);
        }
        let list =
            self.reader.consumer().committed_offsets(list, limits::CONNECT_WAIT).map_err(|error| fate::of(&error, &asking))?;
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
        let results = wait_for(self.client()?.create_topics(&topics, &options))
            .map_err(|error| fate::unanswered(fate::of(&error, &format!("creating topics on {}", self.bootstrap))))?;
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
                    let doing = format!("creating topic \"{name}\"");
                    if is_denied(code) {
                        return Err(fate::missing_permission(&doing, &error, "Create on the topic or on the cluster"));
                    }
                    Err(match fate::of(&error, &doing) {
                        LogError::Transient(cause) => fate::fatal(fate::E_TOPIC_SHAPE, cause),
                        other => other,
                    })
                }
            })
            .collect()
    }

    /// Gives a topic so many partitions, and waits until clients are told of them.
    ///
    /// # Errors
    /// E0103 without the permission; the brokers'.
    pub fn grow(&self, name: &str, partitions: u32) -> Result<(), LogError> {
        let doing = format!("growing topic \"{name}\" to {partitions} partitions");
        let options = AdminOptions::new().request_timeout(Some(limits::CONNECT_WAIT)).operation_timeout(Some(limits::ASK_WAIT));
        let new = [NewPartitions::new(name, partitions as usize)];
        let results = wait_for(self.client()?.create_partitions(&new, &options)).map_err(|error| fate::of(&error, &doing))?;
        if let Some((_, code)) = results.into_iter().find_map(Result::err) {
            let error = rdkafka::error::KafkaError::Global(code);
            return Err(if is_denied(code) {
                fate::missing_permission(&doing, &error, "Alter on the topic")
            } else {
                fate::of(&error, &doing)
            });
        }
        let deadline = Deadline::after(limits::ASK_WAIT);
        while self.describe(name)?.is_none_or(|facts| facts.partitions < partitions) {
            if deadline.is_over() {
                return Err(LogError::Transient(format!("{doing}: clients are not told of them")));
            }
            thread::park_timeout(ASK_AGAIN);
        }
        Ok(())
    }

    /// A new topic is known to the controller first, to the brokers a moment later. Who asks them before is told that it does not
    /// exist. Waiting in vain is no error: whoever needs the topic will say so.
    fn wait_until_known(&self, name: &str) {
        let deadline = Deadline::after(limits::ASK_WAIT);
        while !deadline.is_over() {
            let known = self.metadata(Some(name), deadline.left(), "asking for a new topic").is_ok_and(|metadata| {
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
        let metadata = self.metadata(Some(name), limits::CONNECT_WAIT, &asking)?;
        let Some(topic) = metadata.topics().first() else { return Ok(None) };
        match topic.error() {
            Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART | RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION) => {
                return Ok(None);
            }
            Some(error) => return Err(fate::unanswered(fate::of(&rdkafka::error::KafkaError::Global(error.into()), &asking))),
            None => {}
        }
        let partitions = topic.partitions();
        let replication = partitions.iter().map(|partition| partition.replicas().len()).min().unwrap_or(0);
        let config = self.config_of(name, &asking).map_err(fate::unanswered)?;
        Ok(Some(TopicFacts {
            partitions: partitions.len() as u32,
            replication: replication as u16,
            is_config_known: config.is_some(),
            config: config.unwrap_or_default(),
        }))
    }

    fn config_of(&self, name: &str, asking: &str) -> Result<Option<Vec<(String, String)>>, LogError> {
        let options = AdminOptions::new().request_timeout(Some(limits::ASK_WAIT));
        let resources = wait_for(self.client()?.describe_configs(&[ResourceSpecifier::Topic(name)], &options))
            .map_err(|error| fate::of(&error, asking))?;
        let mut config = Vec::new();
        for resource in resources {
            let Ok(resource) = resource else { return Ok(None) };
            config.extend(resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))));
        }
        // Every topic has settings: the client hands out a refusal as none.
        Ok((!config.is_empty()).then_some(config))
    }

    /// Names of topics that a missing one may have been meant to be.
    ///
    /// # Errors
    /// E0101.
    pub fn similar_to(&self, name: &str) -> Result<Vec<String>, LogError> {
        let metadata = self.metadata(None, limits::ASK_WAIT, &format!("asking {} for its topics", self.bootstrap))?;
        let names: Vec<&str> = metadata.topics().iter().map(rdkafka::metadata::MetadataTopic::name).collect();
        Ok(similar(name, &names).into_iter().map(str::to_owned).collect())
    }

    /// Looks for topics of others that are read from: they are not ours to make, and may be as they like.
    ///
    /// # Errors
    /// E0101.
    pub fn check_inputs(&self, topics: &[String]) -> Result<Vec<TopicProblem>, LogError> {
        let mut problems = Vec::new();
        for topic in topics {
            let (code, message) = match self.describe(topic) {
                Ok(Some(_)) => continue,
                Ok(None) => {
                    let similar = self.similar_to(topic)?;
                    let similar = if similar.is_empty() {
                        String::new()
                    } else {
                        format!("\n  topics that look similar: {}", similar.join(", "))
                    };
                    (fate::E_TOPIC_MISSING, format!("does not exist, but a table [[input]] names it{similar}"))
                }
                Err(LogError::Fatal { code: code @ fate::E_NOT_AUTHORISED, message }) => (code, message),
                Err(error) => return Err(error),
            };
            problems.push(TopicProblem { code, severity: Severity::Error, topic: topic.clone(), message });
        }
        Ok(problems)
    }

    /// Compares topics with their plans. An internal topic that is missing is E0105 if the group has worked before; one that must not
    /// be looked at is E0103.
    ///
    /// # Errors
    /// E0101.
    pub fn check(&self, plans: &[TopicPlan], group_has_offsets: bool) -> Result<Vec<TopicProblem>, LogError> {
        let mut problems = Vec::new();
        let mut facts = Vec::new();
        for plan in plans {
            match self.describe(&plan.name) {
                Ok(Some(found)) => {
                    problems.extend(compare(plan, &found));
                    facts.push((plan, found));
                }
                Ok(None) => problems.push(missing(plan, group_has_offsets, &self.similar_to(&plan.name)?)),
                Err(LogError::Fatal { code: code @ fate::E_NOT_AUTHORISED, message }) => {
                    problems.push(TopicProblem { code, severity: Severity::Error, topic: plan.name.clone(), message });
                }
                Err(error) => return Err(error),
            }
        }
        problems.extend(uneven(&facts));
        Ok(problems)
    }
}

/// Whether brokers refuse what was asked of a topic.
const fn is_denied(code: RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed)
}

/// Waits for the first token: who issues it may come up later than this process, but a refusal stays one.
fn first_token(tokens: Option<&Tokens>) -> Result<(), LogError> {
    let deadline = Deadline::after(limits::CONNECT_WAIT);
    loop {
        match tokens.map(Tokens::token) {
            Some(Err(error)) if error.is_refused || deadline.is_over() => return Err(identity::fatal(&error)),
            Some(Err(_)) => thread::park_timeout(ASK_AGAIN),
            None | Some(Ok(_)) => return Ok(()),
        }
    }
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
