//! Events in, answers out, one at a time: what both stages of a lane make of each event.

use std::sync::Arc;

use loopwarden_core::detect::{Category, Finding, Measured, Streaks};
use loopwarden_core::engine::{
    Action, Command, Effects, Fused, Input, Mark, Session, SubjectKey, SwarmCallKey, SwarmEngine, SwarmSums, fuse,
};
use loopwarden_core::event::{Event, EventTime, Record, RecordMeta, RecordOffset, Stage, TaskId, decode};
use loopwarden_core::limits::RECORD_BYTES_MAX_DEFAULT;
use loopwarden_core::policy::{Detector, Mode, Policy};
use loopwarden_lane::{Exit, Observer};
use loopwarden_state::report::report_key;
use loopwarden_state::{session as stored, swarm};

use crate::replay::stepper::Stepper;

/// What both stages answered to one event.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Findings of the session stage.
    pub findings: Vec<Finding>,
    /// The published command that counts: the agent's own before the swarm's.
    pub command: Option<Command>,
    /// An active block that covers the call: who placed it.
    pub block: Option<Detector>,
    /// Class of the step in the progress matrix.
    pub category: Category,
    /// Fusion over the live findings.
    pub fused: Option<Fused>,
    /// What the detectors of the session have counted so far.
    pub streaks: Streaks,
    /// Counters of swarms that the event reached, with the calls and agents of the window that comes nearest to a finding.
    pub counted: Vec<(SwarmCallKey, (u32, u32))>,
    /// What the step shows that the event completed.
    pub measured: Option<Measured>,
    /// An event with its id was there before: it changed nothing.
    pub is_duplicate: bool,
    /// Every command of both stages in order, those of shadow detectors and lifted blocks included.
    pub commands: Vec<Command>,
    /// Rare paths taken.
    pub marks: Vec<Mark>,
}

/// What the session stage makes of one record.
struct Watch {
    policy: Arc<Policy>,
    answer: Answer,
    /// Calls that the swarm stage is to count.
    sums: SwarmSums,
}

impl Watch {
    fn new(policy: &Arc<Policy>) -> Self {
        Self { policy: Arc::clone(policy), answer: Answer::default(), sums: SwarmSums::default() }
    }
}

impl Observer for Watch {
    fn applied(&mut self, input: Input<'_>, _subject: &SubjectKey, session: &Session, _before: u64, effects: &Effects) {
        self.answer.marks.extend(&effects.marks);
        for call in &effects.counts {
            self.sums.add(&self.policy, call.clone());
        }
        if matches!(input, Input::Event(..)) {
            describe(&mut self.answer, &self.policy, session, effects);
        }
    }
}

/// A lane that answers event by event.
pub struct SteppedLane {
    stepper: Stepper<Watch>,
    policy: Arc<Policy>,
    /// Asked for the panes of calls alone.
    swarm: SwarmEngine,
    events: u64,
}

impl SteppedLane {
    /// A lane under a policy, in an application's name.
    pub fn new(app: &str, policy: Arc<Policy>) -> Self {
        let stepper = Stepper::new(app, Arc::clone(&policy), Watch::new(&policy), true);
        Self { stepper, swarm: panes_of(&policy), policy, events: 0 }
    }

    /// Applies one event, given as JSON, with `timestamp` as its record's.
    ///
    /// # Errors
    /// Why it is no event, or why the lane ended.
    pub fn feed(&mut self, payload: &[u8], timestamp: EventTime) -> Result<Answer, String> {
        let meta = RecordMeta {
            topic: "cases",
            partition: 0,
            offset: RecordOffset(self.events),
            timestamp,
            key: None,
            headers: Vec::new(),
            value_bytes_max: RECORD_BYTES_MAX_DEFAULT,
        };
        self.events += 1;
        decode(Some(payload), &meta).map_err(|rejected| rejected.to_string())?;
        self.apply(&Record::new(meta, Some(payload))).map_err(|exit| exit.to_string())
    }

    /// Applies a record that holds an event, in the place it has.
    ///
    /// # Errors
    /// Why the lane ended.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<Answer, Exit> {
        let commands = self.stepper.step(record)?;
        let Watch { mut answer, mut sums, .. } = std::mem::replace(&mut *self.stepper.observer(), Watch::new(&self.policy));
        for (key, report) in sums.drain_sorted() {
            let counter = TaskId { stage: Stage::Swarm, partition: 0 };
            let loaded = swarm::load(self.stepper.store(), counter, &report_key(&key))?;
            if let Some(loaded) = loaded.filter(|_| matches!(key, SwarmCallKey::Swarm { .. })) {
                let touched: Vec<EventTime> = report.entries.iter().map(|entry| self.swarm.pane_of(&key, entry.pane)).collect();
                let nearest = loaded.counter.nearest_window(&self.policy.detectors.swarm_repeat, &touched);
                answer.counted.push((key, nearest));
            }
        }
        if answer.command.is_none() && answer.block.is_none() {
            let of_swarms =
                commands.iter().filter(|(stage, command)| *stage == Stage::Swarm && command.action != Action::Unblock);
            let mut of_swarms = of_swarms.map(|(_, command)| command).peekable();
            let first = of_swarms.peek().map(|first| first.subject.clone());
            answer.command = of_swarms.take_while(|command| Some(&command.subject) == first.as_ref()).last().cloned();
        }
        answer.commands = commands.into_iter().map(|(_, command)| command).collect();
        Ok(answer)
    }

    /// The session of an event that was applied as a record of this partition, as it stands.
    ///
    /// # Errors
    /// State that does not read back.
    pub fn session(&self, event: &Event<'_>, partition: u32) -> Result<Session, Exit> {
        let key = SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, &event.agent_id);
        let (task, steps) = (TaskId { stage: Stage::Session, partition }, self.policy.history_steps);
        let loaded = stored::load(self.stepper.store(), task, key.as_bytes(), steps)?;
        Ok(loaded.map_or_else(|| Session::new(steps), |loaded| loaded.session))
    }

    /// Starts the lane anew on what it has stored; under another policy where one is given. Returns the rare paths that takes.
    pub fn restart(&mut self, policy: Option<Arc<Policy>>) -> Vec<Mark> {
        let steps_before = self.policy.history_steps;
        if let Some(policy) = policy {
            self.swarm = panes_of(&policy);
            self.policy = policy;
        }
        self.stepper.restart(Arc::clone(&self.policy), Watch::new(&self.policy));
        if self.policy.history_steps == steps_before { Vec::new() } else { vec![Mark::RingResized] }
    }
}

fn panes_of(policy: &Arc<Policy>) -> SwarmEngine {
    SwarmEngine::new("", Arc::clone(policy))
}

fn describe(answer: &mut Answer, policy: &Policy, session: &Session, effects: &Effects) {
    let live: Vec<Finding> =
        effects.findings.iter().filter(|finding| finding.is_current && finding.mode != Mode::Shadow).cloned().collect();
    answer.fused = fuse(policy, &live);
    let is_own = |command: &&Command| !command.is_shadow && command.action != Action::Unblock;
    answer.command = effects.commands.iter().find(is_own).cloned();
    answer.measured = effects.measured;
    answer.findings.clone_from(&effects.findings);
    let time = session.head.time;
    answer.block = session.history.newest().and_then(|step| {
        session
            .head
            .board
            .verdicts
            .iter()
            .find(|verdict| {
                verdict.action == Action::Block
                    && verdict.expires_at > time
                    && verdict.scope.tool.as_deref().is_none_or(|tool| tool == session.history.tool(step))
                    && verdict.scope.fingerprint.as_ref().is_none_or(|(hash, _)| *hash == step.call || *hash == step.fingerprint)
            })
            .and_then(loopwarden_core::engine::Verdict::detector)
    });
    answer.category = session.head.streaks.matrix.category;
    answer.streaks = session.head.streaks.clone();
    answer.is_duplicate = effects.counters.duplicate;
}
