//! Commands to agents and orchestrators, and the verdicts they leave in force. Values only: the lane encodes them.

use std::borrow::Cow;

pub use crate::detect::Advice;
use crate::detect::safe;
use crate::engine::subject::{SEPARATOR, SubjectKey};
use crate::event::EventTime;
pub use crate::identity::IdentityRecipe;
use crate::identity::{Hash128, hash_parts};
use crate::limits::TOOL_NAME_CHARS_SHOWN;
use crate::policy::{Arm, Detector};

/// Deterministic id: the first 16 bytes of a SHA-256 (rule K1). Same input, same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommandId(pub [u8; 16]);

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Tell the agent.
    Nudge,
    /// Refuse matching calls.
    Block,
    /// Lift what the episode placed.
    Unblock,
}

impl Action {
    pub const ALL: [Self; 3] = [Self::Nudge, Self::Block, Self::Unblock];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nudge => "nudge",
            Self::Block => "block",
            Self::Unblock => "unblock",
        }
    }

    /// The action that a word on the wire stands for.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

/// Why a command was sent: a detector, or what ended a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasonCode {
    /// A detector found a loop.
    Detector(Detector),
    Reset,
    /// The agent began anew.
    SessionStart,
    SessionEnd,
    /// The policy no longer blocks.
    Policy,
    /// An operator stopped agents for a while.
    Stop,
    /// An operator let them go on.
    Release,
    /// A person answered that it is to be let be.
    Answer,
}

impl ReasonCode {
    /// What a person brings about.
    pub const ACTS: [Self; 4] = [Self::Stop, Self::Release, Self::Reset, Self::Answer];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Detector(detector) => detector.as_str(),
            Self::Reset => "reset",
            Self::SessionStart => "session_start",
            Self::SessionEnd => "session_end",
            Self::Policy => "policy",
            Self::Stop => "stop",
            Self::Release => "release",
            Self::Answer => "answer",
        }
    }
}

/// Which calls of its subject a command binds: the fewest that break the loop. By default all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Narrows to calls of this tool.
    pub tool: Option<String>,
    /// Narrows to calls of these tools: names, and beginnings of names that end in `*`. Empty: whatever `tool` has.
    pub tools: Vec<String>,
    /// Narrows to calls with this identity.
    pub fingerprint: Option<(Hash128, IdentityRecipe)>,
    /// Of a swarm: these agents only, as (session, agent). Empty: each that makes a matching call.
    pub only: Vec<(String, String)>,
}

impl Scope {
    /// Whether it binds calls of a tool of this name.
    #[must_use]
    pub fn has_tool(&self, name: &str) -> bool {
        // A tool of a server has the rules of its last name.
        let own = name.rfind("__").and_then(|at| name.get(at + 2..)).unwrap_or(name);
        let is_named = |pattern: &String| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning) || own.starts_with(beginning),
            None => pattern == name || pattern == own,
        };
        self.tool.as_deref().is_none_or(|tool| tool == name) && (self.tools.is_empty() || self.tools.iter().any(is_named))
    }

    /// Which calls a block of it refuses, and which it leaves free, in words for the agent.
    #[must_use]
    pub fn words(&self) -> String {
        let tool = safe(self.tool.as_deref().unwrap_or_default(), TOOL_NAME_CHARS_SHOWN);
        match self.fingerprint.as_ref().map(|(_, recipe)| recipe) {
            Some(IdentityRecipe::Coarse(_)) => format!("{tool} calls about this target are refused; other {tool} calls are free"),
            Some(_) => format!("{tool} calls with these arguments are refused; other {tool} calls are free"),
            None if self.tool.is_some() => format!("all {tool} calls are refused; other tools are free"),
            None if self.tools.is_empty() => "all calls are refused".to_owned(),
            None => "calls of some tools are refused; other tools are free".to_owned(),
        }
    }

    /// Whether it binds the same calls as `other` of the same subject, whichever agents make them.
    #[must_use]
    pub fn binds_same_calls(&self, other: &Self) -> bool {
        self.tool == other.tool && self.tools == other.tools && self.fingerprint == other.fingerprint
    }
}

/// Where the message belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// With the agent's next turn.
    NextTurn,
    /// Behind the result of this call.
    AppendToResult {
        /// The call, where the event names it.
        call_id: Option<String>,
    },
}

/// What caused a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// An event and its place.
    Event {
        event_id: String,
        /// The call, where the event names it.
        call_id: Option<String>,
        topic: String,
        partition: u32,
        offset: u64,
        time: EventTime,
        /// Trace context of the event.
        traceparent: Option<String>,
    },
    /// A window of the swarm stage, by its end.
    Window {
        /// End of the window; the endless one ends at 0.
        end: EventTime,
    },
}

impl Trigger {
    /// Event id, or end of the window: part of the command's id.
    fn cause(&self) -> Cow<'_, str> {
        match self {
            Self::Event { event_id, .. } => Cow::Borrowed(event_id),
            Self::Window { end } => Cow::Owned(end.0.to_string()),
        }
    }
}

/// One measured fact of a finding.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    Count(u64),
    /// A share or confidence.
    Ratio(f64),
    /// An id, a name of the closed lists, a hash.
    Text(String),
    Texts(Vec<String>),
}

/// A command, complete but for its encoding.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    pub id: CommandId,
    pub action: Action,
    pub subject: SubjectKey,
    pub scope: Scope,
    /// 1 nudge, 2 firmer, 3 block of these calls, 4 block of all in scope.
    pub level: u8,
    /// Beginning of the subject's state. Unix ms.
    pub epoch: i64,
    /// 1, 2, 3 … per subject and epoch; shadow commands are counted apart.
    pub seq: u64,
    /// Id of the first command about this loop.
    pub episode: CommandId,
    /// Later of the cause's event time and record timestamp.
    pub issued_at: EventTime,
    /// After it the command means nothing.
    pub expires_at: EventTime,
    /// Decided by a detector in mode `shadow`, or about a session in the control arm of a trial.
    pub is_shadow: bool,
    /// The arm of its session; none without a trial, and where a swarm or the fleet speaks.
    pub arm: Option<Arm>,
    pub reason: ReasonCode,
    pub also: Vec<Detector>,
    /// Confidence, where a detector spoke.
    pub confidence: Option<f64>,
    /// One line for people: numbers and the tool's name, never content.
    pub summary: String,
    /// What was measured, by name.
    pub evidence: Vec<(&'static str, Fact)>,
    /// Text for the agent; none with an `unblock`.
    pub message: Option<String>,
    pub placement: Placement,
    /// One word for orchestrators.
    pub advice: Option<Advice>,
    pub trigger: Trigger,
    /// Sessions that contribute to a swarm's loop, a bounded sample for people.
    pub contributors: Vec<String>,
    /// Labels of the causing event.
    pub labels: Vec<(String, String)>,
}

/// Where a command comes from: whose state speaks, in which turn, and what caused it.
pub(crate) struct Origin<'a> {
    /// Application: part of every id.
    pub app: &'a str,
    pub subject: SubjectKey,
    /// Beginning of the subject's state. Unix ms.
    pub epoch: i64,
    /// Number of the command within the epoch.
    pub seq: u64,
    pub issued_at: EventTime,
    pub trigger: Trigger,
}

impl Origin<'_> {
    /// Id of a command from here (rule K1): no wall clock, no offset, no policy.
    fn command_id(&self, action: Action, reason: ReasonCode) -> CommandId {
        // Its parts are hashed one after the other: no text of them all is made.
        let mut separator = [0; 4];
        let separator = &*SEPARATOR.encode_utf8(&mut separator);
        let numbers = format!("{separator}{}{separator}{}{separator}", self.epoch, self.seq);
        let (app, subject) = (self.app, self.subject.row_key());
        let (action, reason, cause) = (action.as_str(), reason.as_str(), self.trigger.cause());
        let digest = hash_parts(&[app, separator, &subject, &numbers, action, separator, reason, separator, &cause]);
        CommandId(digest.hash128().0.to_be_bytes())
    }
}

impl Command {
    /// A live command that begins an episode, with nothing to say yet.
    pub(crate) fn new(
        origin: Origin<'_>,
        action: Action,
        reason: ReasonCode,
        scope: Scope,
        level: u8,
        expires_at: EventTime,
    ) -> Self {
        let id = origin.command_id(action, reason);
        Self {
            id,
            action,
            subject: origin.subject,
            scope,
            level,
            epoch: origin.epoch,
            seq: origin.seq,
            episode: id,
            issued_at: origin.issued_at,
            expires_at,
            is_shadow: false,
            arm: None,
            reason,
            also: Vec::new(),
            confidence: None,
            summary: String::new(),
            evidence: Vec::new(),
            message: None,
            placement: Placement::NextTurn,
            advice: None,
            trigger: origin.trigger,
            contributors: Vec::new(),
            labels: Vec::new(),
        }
    }
}
