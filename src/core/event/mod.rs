//! Bytes to [`Event`], or [`Rejected`] with a reason. The wire's shapes live here and nowhere else.
//!
//! [`decode`] is the only door: whatever it lets through is bounded (`limits`), valid UTF-8 without unpaired surrogates and
//! no deeper than `JSON_DEPTH_MAX`, so that nothing behind it can fail.

use std::borrow::Cow;

mod answer;
pub(crate) mod blocks;
mod content;
mod decode;
mod field;
pub mod json;
mod part;
mod partition;
mod record;
mod rejected;
mod sound;
mod stop;
mod task;
mod time;
mod wire;

pub use answer::{Answer, Judged};
pub use content::{Content, View};
pub(crate) use decode::KINDS;
pub use decode::{allowed, decode};
pub use field::is_unseen;
pub use partition::{murmur2, partition_of};
pub use record::{Header, NextOffset, Record, RecordMeta, RecordOffset, TopicPartition};
pub use rejected::{Reason, Rejected};
pub use sound::fields_while;
pub use stop::{ACTOR, Reach, Release, Stop};
pub use task::{Stage, TaskId};
pub use time::EventTime;
pub use wire::SCHEMA_VERSION;

use crate::whom::{Kind, Who, Whom};
pub use crate::whom::{MAIN_AGENT, is_name};

/// One tool-call event, borrowed from its record.
#[derive(Debug, Clone)]
pub struct Event<'a> {
    /// Unique in its session; a call and its result have two.
    pub id: Cow<'a, str>,
    /// Splits state: two tenants never share a session, a swarm or a counter.
    pub tenant: Option<Cow<'a, str>>,
    /// One conversation or trajectory.
    pub session_id: Cow<'a, str>,
    /// Agent inside the session; `main` where the event names none.
    pub agent_id: Cow<'a, str>,
    /// The run that several sessions share.
    pub swarm_id: Option<Cow<'a, str>>,
    /// Who started the agent: the id of its parent, or the session of a parent that has none.
    pub parent_id: Option<Cow<'a, str>>,
    /// The tree that the agent belongs to, by the name that its root gave it.
    pub root_id: Option<Cow<'a, str>>,
    /// Event time: `time` of the payload, else the record timestamp; at most `FUTURE_MS_MAX` after the record timestamp.
    pub time: EventTime,
    /// Whether `time` had to be moved back to that bound.
    pub time_clamped: bool,
    /// Whether the producer gave a time at all.
    pub has_time: bool,
    /// Whether the producer named the agent.
    pub has_agent: bool,
    pub record_time: EventTime,
    /// Producer's counter: counts gaps and disorder, never reorders.
    pub seq: Option<u64>,
    /// Number of the model reply.
    pub turn: Option<u64>,
    /// Opaque hash of the world the agent works on.
    pub state: Option<Cow<'a, str>>,
    /// The command an `ack`, a refused call or an injected message comes from.
    pub command_id: Option<Cow<'a, str>>,
    /// W3C trace context, where well-formed.
    pub traceparent: Option<Cow<'a, str>>,
    /// Carried to commands; at most `LABELS_MAX`, in the order given.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Tokens and cost of the model reply behind this event.
    pub usage: Usage,
    /// Name of the model that replied, where the event gives it.
    pub model: Option<Cow<'a, str>>,
    /// Texts cut at their limit while decoding, and labels dropped beyond theirs.
    pub texts_cut: u32,
    pub kind: EventKind<'a>,
}

/// What happened. A closed list: a new kind is a new version of every reader first (wire compatibility).
#[derive(Debug, Clone)]
pub enum EventKind<'a> {
    /// A call is requested; it has not run yet.
    ToolCall(Call<'a>),
    /// The answer to a call.
    ToolResult(CallResult<'a>),
    /// A call and its answer in one.
    Tool(Call<'a>, CallResult<'a>),
    /// A text of the user, the assistant or the harness.
    Message(Message<'a>),
    SessionStart,
    SessionEnd,
    /// Evidence of progress.
    Progress,
    /// Forget what was counted.
    Reset(ResetScope),
    /// What a worker did with a command.
    Ack(Ack),
    /// A person stops agents for a while.
    Stop(Stop<'a>),
    /// A person ends such a stop.
    Release(Release<'a>),
    /// A person answers the commands of an episode.
    Answer(Answer<'a>),
}

impl Event<'_> {
    /// Its agent, by all that the event shows of it.
    #[must_use]
    pub fn who(&self) -> Who<'_> {
        let parent = || self.parent_id.as_deref().filter(|parent| *parent != MAIN_AGENT);
        Who {
            tenant: self.tenant.as_deref().unwrap_or_default(),
            session_id: &self.session_id,
            agent_id: &self.agent_id,
            swarm_id: self.swarm_id.as_deref().unwrap_or_default(),
            tree: self.root_id.as_deref().or_else(parent),
            labels: Some(&self.labels),
        }
    }

    /// Those that a stop, or its release, is about.
    #[must_use]
    pub fn stopped(&self) -> Option<Whom> {
        Some(Whom::new(self.tenant.as_deref().unwrap_or_default(), self.kind.stop_scope()?, &self.session_id))
    }

    /// The tree of its agent, as far as it is named: the root, or else the agent that started it. Without either the session is its own tree.
    #[must_use]
    pub fn tree(&self) -> &str {
        self.who().tree.unwrap_or(&self.session_id)
    }

    /// The call that it is about, where it names one.
    #[must_use]
    pub fn call_id(&self) -> Option<&str> {
        match &self.kind {
            EventKind::ToolCall(call) | EventKind::Tool(call, _) => call.call_id.as_deref(),
            EventKind::ToolResult(result) => result.call_id.as_deref(),
            _ => None,
        }
    }

    /// Its labels as what outlives its record has them.
    #[must_use]
    pub fn owned_labels(&self) -> Vec<(String, String)> {
        self.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }
}

impl EventKind<'_> {
    /// Whether a person acts by it, and no agent: it needs the role of an operator.
    #[must_use]
    pub const fn is_act(&self) -> bool {
        matches!(self, Self::Reset(_) | Self::Stop(_) | Self::Release(_) | Self::Answer(_))
    }

    /// By what a stop, or its release, names those that it is about.
    #[must_use]
    pub const fn stop_scope(&self) -> Option<Kind> {
        match self {
            Self::Stop(stop) => Some(stop.scope),
            Self::Release(release) => Some(release.scope),
            _ => None,
        }
    }
}

/// A requested call.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// Tool name, case-sensitive.
    pub tool: Cow<'a, str>,
    /// Joins the result to this call; never part of an identity.
    pub call_id: Option<Cow<'a, str>>,
    /// What the agent says this step is for.
    pub description: Option<Cow<'a, str>>,
    pub args: Content<'a>,
}

/// What came back from a call.
#[derive(Debug, Clone)]
pub struct CallResult<'a> {
    /// Tool name, where the event gives it.
    pub tool: Option<Cow<'a, str>>,
    /// The call it answers.
    pub call_id: Option<Cow<'a, str>>,
    pub result: Content<'a>,
    /// Takes the place of `result` in every comparison.
    pub stable_result: Content<'a>,
    /// The producer cut `result`: on its own it proves no "same answer".
    pub truncated: bool,
    /// Bytes of the whole answer, where given: of two that were cut it may tell them apart.
    pub result_bytes: Option<u64>,
    pub outcome: Outcome,
    /// Error type, where given; never empty.
    pub error_type: Option<Cow<'a, str>>,
    /// Error message, where given; never empty.
    pub error_message: Option<Cow<'a, str>>,
    pub exit_code: Option<i64>,
    /// How long the call took, where given. Whole milliseconds.
    pub duration_ms: Option<u64>,
}

/// How a call ended. Where the event is silent: `Error` if it has an error, else `Ok` if it has a result, else `Unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Error,
    Denied,
    /// It took too long.
    Timeout,
    /// It was called off: not observed.
    Cancelled,
    /// Not observed.
    Unknown,
}

/// A text turn.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    pub role: Role,
    /// What [`Message::text`] tells.
    text: Option<MessageText<'a>>,
    /// SHA-256 of the text, where the producer keeps the text to itself.
    pub text_sha256: Option<[u8; 32]>,
    /// The agent declares that it is done.
    pub is_final: bool,
    /// No person wrote it: a harness did, in a person's name.
    pub is_synthetic: bool,
}

/// A text that is unescaped when someone asks, since most profiles read none.
#[derive(Debug, Clone)]
enum MessageText<'a> {
    /// Its JSON source text, a string.
    Source(&'a str),
    /// What was kept of a long one, unescaped.
    Kept(Cow<'a, str>),
}

impl Message<'_> {
    /// What is said; `None` in privacy mode or where absent. Unescaped at each call.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'_, str>> {
        self.text.as_ref().map(|text| match text {
            MessageText::Source(source) => json::unquote(source),
            MessageText::Kept(kept) => Cow::Borrowed(kept.as_ref()),
        })
    }

    /// Whether anything is said, be it a text that only its producer knows.
    #[must_use]
    pub fn says_something(&self) -> bool {
        let is_empty = |text: &MessageText<'_>| match text {
            // Two quotes.
            MessageText::Source(source) => source.len() <= 2,
            MessageText::Kept(kept) => kept.is_empty(),
        };
        self.text_sha256.is_some() || self.text.as_ref().is_some_and(|text| !is_empty(text))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A person, or a simulator of one.
    User,
    /// The agent.
    Assistant,
    /// The harness.
    System,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetScope {
    /// This agent of the session.
    Agent,
    /// All agents of the session.
    Session,
    /// The counters of the swarm, not its sessions.
    Swarm,
}

/// What a worker did with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    Received,
    Applied,
    IgnoredExpired,
    /// A later one had been applied.
    IgnoredStale,
    /// It was a shadow command.
    IgnoredShadow,
    /// It could not be carried out.
    Failed,
}

/// Cost of the model reply behind an event, where the producer says.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Prompt tokens, those that a cache held among them.
    pub input_tokens: u64,
    /// Prompt tokens that a cache held.
    pub cached_tokens: u64,
    /// Completion tokens.
    pub output_tokens: u64,
    /// Cost in millionths of a US dollar.
    pub cost_micro_usd: u64,
}
