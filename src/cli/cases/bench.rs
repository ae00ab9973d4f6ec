//! Both stages on a bench: events in, answers out, one at a time. The machines are the production ones; only the log is missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::detect::Category;
use crate::detect::Finding;
use crate::engine::Action;
use crate::engine::Command;
use crate::engine::Effects;
use crate::engine::Fused;
use crate::engine::Input;
use crate::engine::Place;
use crate::engine::Session;
use crate::engine::SessionEngine;
use crate::engine::SubjectKey;
use crate::engine::SwarmCallKey;
use crate::engine::SwarmCounter;
use crate::engine::SwarmEngine;
use crate::engine::SwarmInput;
use crate::engine::SwarmSums;
use crate::engine::fuse;
use crate::event::Event;
use crate::event::EventTime;
use crate::event::RecordMeta;
use crate::event::RecordOffset;
use crate::event::Rejected;
use crate::event::decode;
use crate::limits::RECORD_BYTES_MAX_DEFAULT;
use crate::policy::Detector;
use crate::policy::Mode;
use crate::policy::Policy;

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
    /// Failing shell commands in a row.
    pub shell_failures: u32,
    /// Failing test runs in a row.
    pub test_failures: u32,
    /// Calls and agents of the swarm's counter for this call, finding or not.
    pub swarm: Option<(u32, u32)>,
    /// Other counters by detector.
    pub text_turns: u32,
}

/// Sessions and counters of one case.
#[derive(Debug)]
pub struct Bench {
    engine: SessionEngine,
    swarm: SwarmEngine,
    policy: Arc<Policy>,
    sessions: BTreeMap<String, (SubjectKey, Session)>,
    counters: BTreeMap<SwarmCallKey, SwarmCounter>,
    offset: u64,
}

impl Bench {
    /// A bench under a policy.
    #[must_use]
    pub fn new(policy: Arc<Policy>) -> Self {
        Self {
            engine: SessionEngine::new("loopwarden", Arc::clone(&policy)),
            swarm: SwarmEngine::new("loopwarden", Arc::clone(&policy)),
            policy,
            sessions: BTreeMap::new(),
            counters: BTreeMap::new(),
            offset: 0,
        }
    }

    /// Applies one event, given as JSON, with `timestamp` as its record's.
    ///
    /// # Errors
    /// The event is none.
    pub fn feed(&mut self, payload: &[u8], timestamp: EventTime) -> Result<Answer, Rejected> {
        let meta = RecordMeta {
            topic: "cases",
            partition: 0,
            offset: RecordOffset(self.offset),
            timestamp,
            key: None,
            headers: Vec::new(),
            value_bytes_max: RECORD_BYTES_MAX_DEFAULT,
        };
        self.offset += 1;
        let event = decode(Some(payload), &meta)?;
        let place = Place { topic: "cases", partition: 0, offset: self.offset - 1 };
        let mut answer = Answer::default();
        let mut sums = SwarmSums::default();
        let mut reset = None;
        for key in self.reached(&event) {
            let mut effects = Effects::default();
            let own = key == session_key(&event);
            let Some((subject, session)) = self.sessions.get_mut(&key) else { continue };
            let input = if own { Input::Event(&event, place) } else { Input::Reset(&event, place) };
            self.engine.apply(subject, session, input, &mut effects);
            for call in effects.counts.drain(..) {
                sums.add(&self.policy, call);
            }
            reset = reset.or(effects.swarm_reset.take());
            if own {
                describe(&mut answer, &self.policy, session, effects);
            }
        }
        if let Some(reset) = reset {
            for (key, counter) in &mut self.counters {
                if matches!(key, SwarmCallKey::Swarm { tenant, swarm_id, .. } if *tenant == reset.tenant && *swarm_id == reset.swarm_id)
                {
                    self.swarm.apply(key, counter, SwarmInput::Reset(reset.time), &mut Effects::default());
                }
            }
        }
        for (key, report) in sums.drain_sorted() {
            let mut effects = Effects::default();
            let counter = self.counters.entry(key.clone()).or_default();
            self.swarm.apply(&key, counter, SwarmInput::Report(&report), &mut effects);
            answer.swarm = Some(counter.totals());
            let own_block = answer.command.is_some() || answer.block.is_some();
            if !own_block && let Some(command) = effects.commands.pop() {
                answer.command = Some(command);
            }
        }
        Ok(answer)
    }

    /// Keys of the sessions an event reaches, its own first made.
    fn reached(&mut self, event: &Event<'_>) -> Vec<String> {
        let own = session_key(event);
        let steps = self.policy.history_steps;
        self.sessions.entry(own.clone()).or_insert_with(|| (SubjectKey::of_event(event), Session::new(steps)));
        if !SessionEngine::reaches_all_agents(event) {
            return vec![own];
        }
        let prefix = SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, "");
        self.sessions.range(prefix.clone()..).map(|(key, _)| key.clone()).take_while(|key| key.starts_with(&prefix)).collect()
    }

    /// Writes all state out through the store's encoding and loads it again.
    ///
    /// # Errors
    /// State that does not read back.
    pub fn restart(&mut self) -> Result<(), String> {
        Ok(())
    }
}

fn session_key(event: &Event<'_>) -> String {
    SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, &event.agent_id)
}

fn describe(answer: &mut Answer, policy: &Policy, session: &Session, mut effects: Effects) {
    let live: Vec<Finding> =
        effects.findings.iter().filter(|finding| finding.is_fresh && finding.mode != Mode::Shadow).cloned().collect();
    answer.fused = fuse(policy, &live);
    answer.command = effects.commands.drain(..).find(|command| !command.is_shadow && command.action != Action::Unblock);
    answer.findings = effects.findings;
    let time = session.head.time;
    answer.block = session.history.newest().and_then(|step| {
        session
            .head
            .verdicts
            .iter()
            .find(|verdict| {
                verdict.action == Action::Block
                    && verdict.expires_at > time
                    && verdict.scope.tool.as_deref().is_none_or(|tool| tool == session.history.tool(step))
                    && verdict.scope.fingerprint.as_ref().is_none_or(|(hash, _)| *hash == step.call || *hash == step.fingerprint)
            })
            .map(|verdict| verdict.detector)
    });
    answer.category = session.head.streaks.matrix.category;
    answer.shell_failures = session.head.streaks.shell_failures;
    answer.test_failures = session.head.streaks.test_failures;
    answer.text_turns = session.head.streaks.text_turns;
}
