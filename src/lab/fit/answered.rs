//! What people answered in an input, and the loops that they answered about: as they were published when the input is judged again.

use std::collections::{BTreeMap, VecDeque};

use loopwarden_core::engine::{Action, Command, Effects, ReasonCode, Session};
use loopwarden_core::event::{ACTOR, Event, EventKind, Judged};
use loopwarden_core::{detect::Finding, identity::base32, policy::Detector};

use super::places::EventPlace;

/// Answers that are kept; those beyond are counted.
const ANSWERS_MAX: usize = 1_000_000;
/// Steps of an agent whose places are remembered: more than any detector looks back by default.
const STEPS_REMEMBERED: usize = 512;

/// A person's answer, as its event has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenAnswer {
    /// Empty where the events have no tenant.
    pub tenant: String,
    /// As the commands name it.
    pub episode: String,
    /// Who answered; empty where nobody knows. Answers without an actor are those of one.
    pub actor: String,
    pub judged: Judged,
}

/// A loop that was published: the episode of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedLoop {
    /// Empty where the events have no tenant.
    pub tenant: String,
    pub session: String,
    pub agent: String,
    pub detector: Detector,
    /// Of the step that was published first; empty for texts.
    pub tool: String,
    /// First event that was counted.
    pub(super) first: EventPlace,
    /// Event of its last step or command.
    pub(super) last: EventPlace,
}

/// Steps of one agent and where they stand, the newest last.
type StepPlaces = VecDeque<(u64, EventPlace)>;

/// The answers of an input and its loops.
#[derive(Debug, Default)]
pub struct Answered {
    pub(super) answers: Vec<GivenAnswer>,
    /// Number of answers beyond [`ANSWERS_MAX`].
    pub(super) left_out: u64,
    /// By tenant and episode, as answers name them.
    pub(super) loops: BTreeMap<(String, String), PublishedLoop>,
    /// By tenant and session: an agent, and whether there is another one.
    pub(super) agents: BTreeMap<(String, String), (String, bool)>,
    steps: BTreeMap<(String, String, String), StepPlaces>,
}

impl Answered {
    /// Whoever wrote the events may have made the names up: all answers are those of one actor.
    pub fn forget_names(&mut self) {
        for given in &mut self.answers {
            given.actor.clear();
        }
    }

    /// Notes an event: an answer, or what is published at it.
    pub(super) fn note(&mut self, event: &Event<'_>, place: EventPlace, session: &Session, before: u64, effects: &Effects) {
        let tenant = event.tenant.as_deref().unwrap_or_default();
        if let EventKind::Answer(answer) = &event.kind {
            if self.answers.len() >= ANSWERS_MAX {
                self.left_out += 1;
                return;
            }
            let actor = event.labels.iter().find(|(name, _)| name == ACTOR).map(|(_, actor)| actor.to_string());
            self.answers.push(GivenAnswer {
                tenant: tenant.to_owned(),
                episode: answer.episode.to_string(),
                actor: actor.unwrap_or_default(),
                judged: answer.judged,
            });
            return;
        }
        if event.kind.is_act() {
            return;
        }
        let of_session = (tenant.to_owned(), event.session_id.to_string());
        let of_agent = (of_session.0.clone(), of_session.1.clone(), event.agent_id.to_string());
        let known = self.agents.entry(of_session).or_insert_with(|| (of_agent.2.clone(), false));
        known.1 |= known.0 != of_agent.2;
        let steps = self.steps.entry(of_agent.clone()).or_default();
        steps.extend((before..session.history.next_sequence()).map(|sequence| (sequence, place)));
        steps.drain(..steps.len().saturating_sub(STEPS_REMEMBERED));
        for command in effects.commands.iter().filter(|command| command.action != Action::Unblock) {
            let ReasonCode::Detector(detector) = command.reason else { continue };
            let finding = effects.findings.iter().find(|finding| finding.is_current && finding.detector == detector);
            let first = finding.filter(|_| !detector.is_of_texts()).and_then(|finding| place_of(steps, finding.first));
            let episode = (of_agent.0.clone(), base32(&command.episode.0));
            let known = self.loops.entry(episode).or_insert_with(|| PublishedLoop {
                tenant: of_agent.0.clone(),
                session: of_agent.1.clone(),
                agent: of_agent.2.clone(),
                detector,
                tool: tool(session, command, finding),
                first: first.unwrap_or(place),
                last: place,
            });
            known.last = place;
        }
        // What goes on between two commands belongs to the loop as well.
        let head = &session.head;
        for finding in effects.findings.iter().filter(|finding| finding.is_current) {
            let mut episodes = head.episodes.iter().chain(&head.shadow_episodes);
            let episode = episodes.find(|episode| episode.identity == finding.identity);
            let id = episode.map(|episode| (of_agent.0.clone(), base32(&episode.id.0)));
            if let Some(known) = id.and_then(|id| self.loops.get_mut(&id)) {
                known.last = place;
            }
        }
    }
}

/// Where a step stands; none of one that is forgotten.
fn place_of(steps: &StepPlaces, sequence: u64) -> Option<EventPlace> {
    steps.iter().rev().find(|(known, _)| *known == sequence).map(|(_, place)| *place)
}

/// The tool that a command is about.
fn tool(session: &Session, command: &Command, finding: Option<&Finding>) -> String {
    let of_step = || {
        let finding = finding.filter(|finding| !finding.detector.is_of_texts())?;
        Some(session.history.tool(session.history.get(finding.last)?).to_owned())
    };
    command.scope.tool.clone().or_else(of_step).unwrap_or_default()
}
