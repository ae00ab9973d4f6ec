//! A command (`command.v1`).

use std::{borrow::Cow, collections::BTreeMap};

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::detect::Detector;
use crate::engine::{self, BY_STOP, SubjectKey};
use crate::event::EventTime;
use crate::identity::{Hash128, base32};
use crate::policy::Arm;
use crate::whom::{Kind, Whom};
use crate::wire::row::{call_id, placement};
use crate::wire::{Text, VERSION, if_known, is_empty, scope::Scope, subject::Subject, time};

/// A command. What nobody here reads of it is not read back.
#[derive(Debug, Serialize, Deserialize)]
pub struct Command<'a> {
    pub v: u64,
    pub id: Text<'a>,
    /// Word of an [`engine::Action`].
    pub action: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swarm_id: Option<Text<'a>>,
    pub scope: Scope<'a>,
    pub level: u8,
    pub epoch: u64,
    pub seq: u64,
    pub episode: Text<'a>,
    #[serde(with = "time")]
    pub issued_at: Option<EventTime>,
    #[serde(with = "time")]
    pub expires_at: Option<EventTime>,
    /// `live`: to be obeyed; `shadow` and `replay` are to look at.
    pub mode: Text<'a>,
    /// Word of an [`Arm`]; none without a trial.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub trial: Option<&'static str>,
    pub reason: Reason<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Text<'a>>,
    /// Where the text belongs; none: into the agent's next turn.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub placement: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Text<'a>>,
    #[serde(default, deserialize_with = "if_known")]
    pub trigger: Trigger<'a>,
    #[serde(skip_deserializing, skip_serializing_if = "is_empty")]
    pub contributors: &'a [String],
    #[serde(skip_deserializing, skip_serializing_if = "is_empty", serialize_with = "labels")]
    pub labels: &'a [(String, String)],
    #[serde(skip_deserializing)]
    pub engine: Engine<'a>,
}

/// `reason` of a command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Reason<'a> {
    pub code: Text<'a>,
    #[serde(skip_deserializing, skip_serializing_if = "is_empty", serialize_with = "detectors")]
    pub also: &'a [Detector],
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Ratio>,
    /// One line for people: numbers and the tool's name, never content. Always written.
    pub summary: Option<Text<'a>>,
    #[serde(default, deserialize_with = "if_known", skip_serializing_if = "Evidence::is_empty")]
    pub evidence: Evidence<'a>,
}

/// What was measured, by name.
#[derive(Debug, Default)]
pub struct Evidence<'a>(Vec<(Text<'a>, Fact<'a>)>);

/// One measured fact.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fact<'a> {
    Count(u64),
    Ratio(Ratio),
    Text(Text<'a>),
    Texts(Cow<'a, [String]>),
    /// Of a form that is not known.
    #[serde(skip_serializing)]
    Other(IgnoredAny),
}

/// A share. Written with four decimals: what binary fractions add behind them says nothing.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub struct Ratio(pub f64);

/// `trigger` of a command: an event and its place, or the window of a swarm.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Trigger<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<Text<'a>>,
    /// The call that it is about, where it names one.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<&'a str>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub topic: Option<&'a str>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "time::serialize")]
    pub time: Option<EventTime>,
    /// End of the window; the endless one ends at 0.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "time::serialize")]
    pub window_end: Option<EventTime>,
}

/// `engine` of a command: who sent it.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Engine<'a> {
    pub version: &'a str,
    pub profile: &'a str,
    pub policy_sha256: &'a str,
}

impl<'a> Command<'a> {
    /// A command that was decided in a mode, as it is written.
    #[must_use]
    pub fn of(command: &'a engine::Command, mode: &'a str, engine: Engine<'a>) -> Self {
        let subject = Subject::of(&command.subject);
        Self {
            v: VERSION,
            id: base32(&command.id.0).into(),
            action: command.action.as_str().into(),
            tenant: Some(subject.tenant).filter(|tenant| !tenant.is_empty()).map(Cow::Borrowed),
            session_id: subject.session_id.map(Cow::Borrowed),
            swarm_id: subject.swarm_id.map(Cow::Borrowed),
            scope: Scope::of(&command.scope, &subject),
            level: command.level,
            epoch: command.epoch.max(0).unsigned_abs(),
            seq: command.seq,
            episode: base32(&command.episode.0).into(),
            issued_at: Some(command.issued_at),
            expires_at: Some(command.expires_at),
            mode: mode.into(),
            trial: command.arm.map(Arm::as_str),
            reason: Reason {
                code: command.reason.as_str().into(),
                also: &command.also,
                confidence: command.confidence.map(Ratio),
                summary: Some(Cow::Borrowed(&command.summary)),
                evidence: Evidence::of(&command.evidence),
            },
            message: command.message.as_deref().map(Cow::Borrowed),
            placement: placement(&command.placement),
            advice: command.advice.map(|advice| advice.as_str().into()),
            trigger: Trigger::of(&command.trigger, call_id(&command.placement)),
            contributors: &command.contributors,
            labels: &command.labels,
            engine,
        }
    }

    /// Who is meant; none where the kind is not known, or what names them is missing.
    #[must_use]
    pub fn whom(&self) -> Option<Whom> {
        let kind = Kind::from_name(&self.scope.kind)?;
        let name = match kind {
            Kind::Session => &self.session_id,
            Kind::Swarm => &self.swarm_id,
            _ => &self.scope.name,
        };
        let name = if kind.field().is_some() { name.as_deref()? } else { "" };
        Some(Whom::new(self.tenant.as_deref().unwrap_or_default(), kind, name))
    }

    /// Whose state it is about; none as in [`Command::whom`], and where nothing can bind those in that way.
    #[must_use]
    pub fn subject(&self) -> Option<SubjectKey> {
        let whom = self.whom()?;
        match self.scope.by.as_deref() {
            Some(BY_STOP) => return whom.kind.can_stop().then_some(SubjectKey::Stop(whom)),
            Some(by) => return whom.kind.is_in_tenant().then(|| SubjectKey::Group { whom, by: by.to_owned() }),
            None => {}
        }
        let fingerprint = self.scope.fingerprint.as_deref().and_then(Hash128::from_hex);
        let Whom { tenant, kind, name } = whom;
        match kind {
            Kind::Session => {
                let agent_id = self.scope.agent_id.as_deref()?.to_owned();
                Some(SubjectKey::Agent { tenant, session_id: name, agent_id })
            }
            Kind::Swarm => Some(SubjectKey::Swarm { tenant, swarm_id: name, fingerprint: fingerprint? }),
            Kind::Tenant => Some(SubjectKey::Fleet { tenant, fingerprint: fingerprint? }),
            // A loop is found in the calls of an agent, of a swarm or of a tenant.
            _ => None,
        }
    }
}

impl<'a> Evidence<'a> {
    fn of(evidence: &'a [(&'static str, engine::Fact)]) -> Self {
        let fact = |fact: &'a engine::Fact| match fact {
            engine::Fact::Count(count) => Fact::Count(*count),
            engine::Fact::Ratio(ratio) => Fact::Ratio(Ratio(*ratio)),
            engine::Fact::Text(text) => Fact::Text(Cow::Borrowed(text)),
            engine::Fact::Texts(texts) => Fact::Texts(Cow::Borrowed(texts)),
        };
        Self(evidence.iter().map(|(name, found)| ((*name).into(), fact(found))).collect())
    }

    /// The fact of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Fact<'a>> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, fact)| fact)
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Evidence<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, fact)| (name, fact)))
    }
}

impl<'de> Deserialize<'de> for Evidence<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let facts = BTreeMap::<String, Fact<'static>>::deserialize(deserializer)?;
        Ok(Self(facts.into_iter().map(|(name, fact)| (name.into(), fact)).collect()))
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rounded = (self.0 * 10_000.0).round() / 10_000.0;
        // What is no number is no JSON; nothing certain is written then.
        if rounded.is_finite() { serializer.serialize_f64(rounded) } else { serializer.serialize_u64(0) }
    }
}

impl<'a> Trigger<'a> {
    /// Of an event, the call is the one behind whose result the text belongs, else its own.
    fn of(trigger: &'a engine::Trigger, append_to: Option<&'a str>) -> Self {
        match trigger {
            engine::Trigger::Event { event_id, call_id, topic, partition, offset, time, .. } => Self {
                event_id: Some(event_id.into()),
                call_id: append_to.or(call_id.as_deref()),
                topic: Some(topic),
                partition: Some(*partition),
                offset: Some(*offset),
                time: Some(*time),
                window_end: None,
            },
            engine::Trigger::Window { end } => Self { window_end: Some(*end), ..Self::default() },
        }
    }
}

fn detectors<S: Serializer>(list: &&[Detector], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(|detector| detector.as_str()))
}

fn labels<S: Serializer>(list: &&[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(list.iter().map(|(name, value)| (name, value)))
}
