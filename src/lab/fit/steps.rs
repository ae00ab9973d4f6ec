//! The steps of an input as the engine measures them: their facts, and where they stand in their sessions.

use std::{collections::BTreeMap, sync::Arc};

use loopwarden_core::detect::{Facts, Waiting};
use loopwarden_core::engine::{Effects, Input, Session, SubjectKey};
use loopwarden_core::event::{Event, Record};
use loopwarden_core::policy::Policy;
use loopwarden_lane::{Exit, Observer};

use crate::fit::places::{EventPlace, Places};
use crate::{explain::step_of, fit::answered::Answered, replay::stepper::Stepper, report::labels::Label};

/// How much a labelled loop weighs against a successful session. There are few of them, and the prior of a loop is not what is asked for.
pub(super) const LOOP_WEIGHT: f64 = 16.0;
/// The same of a look-alike: work that was chosen because it looks like a loop.
const LOOK_ALIKE_WEIGHT: f64 = 10.0;

#[derive(Debug, Clone, Copy)]
pub struct MeasuredStep {
    /// Index of the event that completed it, among the events of the session: its `seq`, or what came before it.
    pub index: u64,
    /// The same among the events of its agent.
    pub in_agent: u64,
    pub facts: Facts,
    /// How its agent waits with it.
    pub waiting: Waiting,
    /// Its tool, by a number of the session.
    pub tool: usize,
    /// A person's text began everything anew before it.
    pub begins_anew: bool,
}

/// The steps of one agent, in order.
#[derive(Debug, Clone, Default)]
pub struct SessionSteps {
    /// Tenant; empty = none.
    pub tenant: String,
    pub session: String,
    pub agent: String,
    pub steps: Vec<MeasuredStep>,
    tools: Vec<String>,
    floor: u64,
}

/// All steps of an input.
#[derive(Debug, Default)]
pub struct Steps {
    sessions: BTreeMap<(String, String, String), SessionSteps>,
}

impl Steps {
    /// Notes an event where it completes a step.
    fn note(&mut self, event: &Event<'_>, EventPlace { index, in_agent }: EventPlace, session: &Session, effects: &Effects) {
        let tenant = event.tenant.as_deref().unwrap_or_default().to_owned();
        let waiting = effects.measured.map(|measured| measured.waiting);
        let Some((step, waiting)) = step_of(event, session).zip(waiting) else { return };
        let key = (tenant.clone(), event.session_id.to_string(), event.agent_id.to_string());
        let steps = self.sessions.entry(key).or_insert_with(|| SessionSteps {
            tenant,
            session: event.session_id.to_string(),
            agent: event.agent_id.to_string(),
            ..SessionSteps::default()
        });
        let name = session.history.tool(step);
        let tool = steps.tools.iter().position(|tool| tool == name).unwrap_or_else(|| {
            steps.tools.push(name.to_owned());
            steps.tools.len() - 1
        });
        let floor = session.history.floor();
        let begins_anew = floor > std::mem::replace(&mut steps.floor, floor);
        steps.steps.push(MeasuredStep { index, in_agent, facts: step.evidence().facts, waiting, tool, begins_anew });
    }
}

/// Steps, and what people answered.
#[derive(Debug, Default)]
struct Seen {
    places: Places,
    steps: Steps,
    answered: Answered,
}

impl Observer for Seen {
    fn applied(&mut self, input: Input<'_>, _subject: &SubjectKey, session: &Session, before: u64, effects: &Effects) {
        let Input::Event(event, _) = input else { return };
        // One that comes again is no event of its own, here as where a replay is judged by labels.
        if !effects.counters.duplicate {
            let place = self.places.note(event);
            self.steps.note(event, place, session, effects);
            self.answered.note(event, place, session, before, effects);
        }
    }
}

/// Measures the steps of an input, event by event.
pub struct Measuring {
    stepper: Stepper<Seen>,
    failed: Option<Exit>,
}

impl Measuring {
    /// Of an application: its name is part of the ids of commands, which answers name.
    #[must_use]
    pub fn new(app: &str, policy: Arc<Policy>) -> Self {
        Self { stepper: Stepper::new(app, policy, Seen::default(), false), failed: None }
    }

    /// Takes a record that holds an event, in the order of the input.
    pub fn visit(&mut self, record: &Record<'_>) {
        if let Err(exit) = self.stepper.step(record) {
            self.failed.get_or_insert(exit);
        }
    }

    /// What was measured, and what people answered.
    ///
    /// # Errors
    /// The lane ended.
    pub fn finish(mut self) -> Result<(Steps, Answered), Exit> {
        let seen = self.failed.map_or_else(|| Ok(std::mem::take(&mut *self.stepper.observer())), Err)?;
        Ok((seen.steps, seen.answered))
    }
}

impl Steps {
    /// The agents of the input, each with its steps.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionSteps> {
        self.sessions.values()
    }
}

impl SessionSteps {
    /// Tenant, session and agent; unique in an input.
    pub(super) fn name(&self) -> [&str; 3] {
        [&self.tenant, &self.session, &self.agent]
    }

    /// A stretch that is counted in events of the agent, in events of its session; none without a step of it.
    fn in_session(&self, first: u64, last: u64) -> Option<(u64, u64)> {
        let mut inside = self.steps.iter().filter(|step| (first..=last).contains(&step.in_agent)).map(|step| step.index);
        let first = inside.next()?;
        Some((first, inside.next_back().unwrap_or(first)))
    }
}

/// What is known of a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// Loops, and what only looks like one: first and last event.
    pub loops: Vec<(u64, u64)>,
    /// The same of look-alikes.
    pub look_alikes: Vec<(u64, u64)>,
    pub has_succeeded: bool,
}

impl Known {
    /// Of the labels of a session.
    pub(super) fn of(session: &SessionSteps, labels: &[&Label], has_succeeded: bool) -> Self {
        let mut known = Self { has_succeeded, ..Self::default() };
        for label in labels {
            let stretch = match &label.agent {
                None => Some((label.first, label.last)),
                Some(agent) if *agent == session.agent => session.in_session(label.first, label.last),
                Some(_) => None,
            };
            if let Some(stretch) = stretch {
                (if label.is_loop { &mut known.loops } else { &mut known.look_alikes }).push(stretch);
            }
        }
        known
    }

    /// It has no loop, and something that only looks like one.
    pub(super) const fn is_spared(&self) -> bool {
        self.loops.is_empty() && !self.look_alikes.is_empty()
    }

    pub(super) const fn is_known(&self) -> bool {
        self.has_succeeded || !self.loops.is_empty() || !self.look_alikes.is_empty()
    }

    /// For each step whether it is of a loop, and its weight; none of a step of which that is not known. A stretch has its weight as a whole,
    /// and so have the other steps of a session that succeeded.
    pub(super) fn stretches(&self, session: &SessionSteps) -> Vec<Option<(bool, f64)>> {
        let inside =
            |stretches: &[(u64, u64)], index: u64| stretches.iter().position(|(first, last)| (*first..=*last).contains(&index));
        let place = |index: u64| {
            if let Some(at) = inside(&self.loops, index) {
                Some((0_u8, at))
            } else if let Some(at) = inside(&self.look_alikes, index) {
                Some((1, at))
            } else {
                // What follows a loop at once may still be it.
                let is_behind_loop = self.loops.iter().any(|(_, last)| index == last + 1);
                (self.has_succeeded && !is_behind_loop).then_some((2, 0))
            }
        };
        let places: Vec<Option<(u8, usize)>> = session.steps.iter().map(|step| place(step.index)).collect();
        let count = |place: (u8, usize)| places.iter().filter(|other| **other == Some(place)).count().max(1) as f64;
        let weighed = |place: (u8, usize)| match place.0 {
            0 => (true, LOOP_WEIGHT / count(place)),
            1 => (false, LOOK_ALIKE_WEIGHT / count(place)),
            _ => (false, 1.0 / count(place)),
        };
        places.iter().map(|place| place.map(weighed)).collect()
    }
}
