//! Both stages on a bench: events in, answers out, one at a time. The machines are the production ones; only the log is missing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use loopwarden_core::detect::{Category, Finding, Measured, Streaks};
use loopwarden_core::engine::{
    Action, Command, Effects, Fused, Input, Mark, Place, Session, SessionEngine, SubjectKey, SwarmCallKey, SwarmCounter,
    SwarmEngine, SwarmInput, SwarmSums, TimerKind, fuse,
};
use loopwarden_core::event::{Event, EventTime, RecordMeta, RecordOffset, Rejected, Stage, TaskId, decode};
use loopwarden_core::limits::RECORD_BYTES_MAX_DEFAULT;
use loopwarden_core::policy::{Detector, Mode, Policy};
use loopwarden_state::{Change, MemoryStore, StateStore, StoreError, StoredRing, session as stored, step};

/// The one task of a bench.
const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

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

/// Sessions and counters of one case.
#[derive(Debug)]
pub struct Bench {
    engine: SessionEngine,
    swarm: SwarmEngine,
    policy: Arc<Policy>,
    sessions: BTreeMap<String, (SubjectKey, Session)>,
    counters: BTreeMap<SwarmCallKey, SwarmCounter>,
    /// What a restart reads: written at restarts only, and then only what has changed, as a commit does.
    store: MemoryStore,
    /// What it holds of the sessions' rings.
    stored: BTreeMap<String, StoredRing>,
    offset: u64,
    watermark: EventTime,
}

/// A timer that is due: in the order in which a task fires them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Session(EventTime, TimerKind, String),
    Counter(EventTime, TimerKind, SwarmCallKey),
}

impl Bench {
    /// A bench under a policy.
    pub fn new(policy: Arc<Policy>) -> Self {
        Self::of_app("loopwarden", policy)
    }

    /// A bench that speaks in an application's name.
    pub fn of_app(app: &str, policy: Arc<Policy>) -> Self {
        Self {
            engine: SessionEngine::new(app, Arc::clone(&policy)),
            swarm: SwarmEngine::new(app, Arc::clone(&policy)),
            policy,
            sessions: BTreeMap::new(),
            counters: BTreeMap::new(),
            store: MemoryStore::new(),
            stored: BTreeMap::new(),
            offset: 0,
            watermark: EventTime(i64::MIN),
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
        Ok(self.apply(&event, ("cases", 0, self.offset - 1)))
    }

    /// The session of an event, as it stands.
    pub fn session(&self, event: &Event<'_>) -> Option<&Session> {
        self.sessions.get(&session_key(event)).map(|(_, session)| session)
    }

    /// Applies one event that was read somewhere: topic, partition, offset.
    pub fn apply(&mut self, event: &Event<'_>, (topic, partition, offset): (&str, u32, u64)) -> Answer {
        self.watermark = self.watermark.max(event.time);
        let place = Place { topic, partition, offset, watermark: self.watermark };
        let mut answer = Answer::default();
        self.fire_timers(self.watermark, &mut answer);
        let mut sums = SwarmSums::default();
        let mut reset = None;
        let own_key = session_key(event);
        let steps = self.policy.history_steps;
        self.sessions.entry(own_key.clone()).or_insert_with(|| (SubjectKey::of_event(event), Session::new(steps)));
        let mut reached = VecDeque::from([own_key.clone()]);
        while let Some(key) = reached.pop_front() {
            let mut effects = Effects::default();
            let own = key == own_key;
            let Some((subject, session)) = self.sessions.get_mut(&key) else { continue };
            let input = if own { Input::Event(event, place) } else { Input::Reset(event, place) };
            self.engine.apply(subject, session, input, &mut effects);
            for call in effects.counts.drain(..) {
                sums.add(&self.policy, call);
            }
            reset = reset.or(effects.swarm_reset.take());
            let reaches_others = effects.reaches_others;
            answer.marks.append(&mut effects.marks);
            answer.commands.extend(effects.commands.iter().cloned());
            if own {
                describe(&mut answer, &self.policy, session, effects);
            }
            if reaches_others {
                reached.extend(self.other_agents(event, &own_key));
            }
        }
        if let Some(reset) = reset {
            for (key, counter) in &mut self.counters {
                if matches!(key, SwarmCallKey::Swarm { tenant, swarm_id, .. } if *tenant == reset.tenant && *swarm_id == reset.swarm_id)
                {
                    let mut effects = Effects::default();
                    self.swarm.apply(key, counter, SwarmInput::Reset(reset.time), &mut effects);
                    answer.commands.append(&mut effects.commands);
                }
            }
        }
        for (key, report) in sums.drain_sorted() {
            let mut effects = Effects::default();
            let counter = self.counters.entry(key.clone()).or_default();
            let touched: Vec<EventTime> = report.entries.iter().map(|entry| self.swarm.pane_of(&key, entry.pane)).collect();
            self.swarm.apply(&key, counter, SwarmInput::Report(report), &mut effects);
            if matches!(key, SwarmCallKey::Swarm { .. }) {
                answer.counted.push((key, counter.nearest_window(&self.policy.detectors.swarm_repeat, &touched)));
            }
            answer.commands.extend(effects.commands.iter().cloned());
            let own_block = answer.command.is_some() || answer.block.is_some();
            if !own_block && let Some(command) = effects.commands.pop() {
                answer.command = Some(command);
            }
        }
        answer
    }

    /// Keys of the other agents of an event's session.
    fn other_agents(&self, event: &Event<'_>, own: &str) -> Vec<String> {
        let prefix = SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, "");
        let keys = self.sessions.range(prefix.clone()..).map(|(key, _)| key);
        keys.take_while(|key| key.starts_with(&prefix)).filter(|key| *key != own).cloned().collect()
    }

    /// Fires what is due when the watermark reaches an event's time, before the event itself.
    fn fire_timers(&mut self, watermark: EventTime, answer: &mut Answer) {
        while let Some(due) =
            self.next_due().filter(|due| matches!(due, Due::Session(at, ..) | Due::Counter(at, ..) if *at <= watermark))
        {
            let mut effects = Effects::default();
            match &due {
                Due::Session(at, kind, key) => {
                    let Some((subject, session)) = self.sessions.get_mut(key) else { return };
                    self.engine.apply(subject, session, Input::Timer(*kind, *at), &mut effects);
                    if effects.forgotten {
                        self.forget(key);
                    }
                }
                Due::Counter(at, kind, key) => {
                    let Some(counter) = self.counters.get_mut(key) else { return };
                    self.swarm.apply(key, counter, SwarmInput::Timer(*kind, *at), &mut effects);
                    if effects.forgotten {
                        self.counters.remove(key);
                    }
                }
            }
            answer.marks.append(&mut effects.marks);
        }
    }

    fn next_due(&self) -> Option<Due> {
        let sessions = self.sessions.iter().flat_map(|(key, (_, session))| {
            let timers = session.head.timers;
            TimerKind::OF_SESSION.into_iter().filter_map(move |kind| timers.due(kind).map(|due| (due, kind, key)))
        });
        let counters = self.counters.iter().flat_map(|(key, counter)| {
            let timers = counter.timers;
            TimerKind::OF_COUNTER.into_iter().filter_map(move |kind| timers.due(kind).map(|due| (due, kind, key)))
        });
        let session = sessions.min().map(|(due, kind, key)| Due::Session(due, kind, key.clone()));
        let counter = counters.min().map(|(due, kind, key)| Due::Counter(due, kind, key.clone()));
        match (session, counter) {
            (Some(Due::Session(at, ..)), Some(counter @ Due::Counter(then, ..))) if then < at => Some(counter),
            (session, counter) => session.or(counter),
        }
    }

    /// The session is gone, in memory and in the store.
    fn forget(&mut self, key: &str) {
        self.sessions.remove(key);
        self.stored.remove(key);
        let mut gone = vec![Change { task: TASK, key: stored::head_key(key.as_bytes()), value: None }];
        let pages = 0..=step::page_of((self.policy.history_steps - 1) as u16);
        gone.extend(pages.map(|page| Change { task: TASK, key: step::key(key.as_bytes(), page), value: None }));
        // A store in memory does not fail.
        drop(self.store.commit(gone));
    }

    /// Writes what has changed of every session through the store's encoding, drops the engines, and loads all of it again; under
    /// another policy where one is given. Sessions only: counters of swarms stay in memory.
    ///
    /// # Errors
    /// State that does not read back.
    pub fn restart(&mut self, policy: Option<Arc<Policy>>) -> Result<Vec<Mark>, StoreError> {
        let mut marks = Vec::new();
        for (key, (_, session)) in &mut self.sessions {
            self.store.commit(changes(key.as_bytes(), session, self.stored.get(key))?)?;
        }
        if let Some(policy) = policy {
            self.policy = policy;
        }
        let app = self.engine.app().to_owned();
        self.engine = SessionEngine::new(&app, Arc::clone(&self.policy));
        self.swarm = SwarmEngine::new(&app, Arc::clone(&self.policy));
        for (key, (_, session)) in &mut self.sessions {
            *session = match stored::load(&self.store, TASK, key.as_bytes(), self.policy.history_steps)? {
                Some(loaded) => {
                    if loaded.stored.capacity == loaded.session.history.capacity() {
                        self.stored.insert(key.clone(), loaded.stored);
                    } else {
                        marks.push(Mark::RingResized);
                        let stale = loaded.stored.pages().into_iter();
                        let gone = stale.map(|page| Change { task: TASK, key: step::key(key.as_bytes(), page), value: None });
                        self.store.commit(gone.collect())?;
                        self.stored.remove(key);
                    }
                    loaded.session
                }
                None => Session::new(self.policy.history_steps),
            };
        }
        Ok(marks)
    }

    /// Bytes of all sessions, as the cache budgets them.
    pub fn session_bytes(&self) -> usize {
        self.sessions.values().map(|(_, session)| session.bytes()).sum()
    }
}

/// What the store lacks of a session: its changed steps, its head.
fn changes(key: &[u8], session: &mut Session, stored: Option<&StoredRing>) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    if !session.has_begun {
        return Ok(changes);
    }
    stored::changes(TASK, key, (&session.head, &session.history), (stored, &session.changed_steps), &mut changes)?;
    session.changed_steps.clear();
    Ok(changes)
}

fn session_key(event: &Event<'_>) -> String {
    SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, &event.agent_id)
}

fn describe(answer: &mut Answer, policy: &Policy, session: &Session, mut effects: Effects) {
    let live: Vec<Finding> =
        effects.findings.iter().filter(|finding| finding.is_fresh && finding.mode != Mode::Shadow).cloned().collect();
    answer.fused = fuse(policy, &live);
    answer.command = effects.commands.drain(..).find(|command| !command.is_shadow && command.action != Action::Unblock);
    answer.measured = effects.measured;
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
    answer.streaks = session.head.streaks.clone();
    answer.is_duplicate = effects.counters.duplicate;
}
