//! Heads of sessions: key, encoding, and loading a whole session (head and ring).
//!
//! The engine's types know nothing of bytes; the private mirrors below are the format. Fields are only ever added with a new
//! version and a step in `migrate`.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use loopwarden_core::detect::{Category, Explored, History, Matrix, OutcomeRun, OwnTexts, Row, Run, Spent, Step, Streaks, Texts};
use loopwarden_core::engine::{CommandId, Episode, Head, PendingNudge, Session, SubjectKey, TimerKind, TimerTable};
use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_core::identity::Hash64;
use serde::{Deserialize, Serialize};

use crate::codec::{H64, H128, pack64, pack128, unpack64, unpack128};
use crate::remembered::Remembered;
use crate::ring::StoredRing;
use crate::verdict::{StoredVerdict, corrupt, detector};
use crate::{Change, KeyFamily, StateKey, StateStore, StoreError, codec, migrate, step};

/// A session as it was read.
#[derive(Debug)]
pub struct Loaded {
    /// Head and history; the history has the ring size asked for.
    pub session: Session,
    /// What the store holds. With another ring size than the history's, every step is marked changed and these slots are stale.
    pub stored: StoredRing,
}

/// Key of a head.
#[must_use]
pub fn head_key(session_key: &[u8]) -> StateKey {
    StateKey::new(KeyFamily::Head, session_key.to_vec())
}

/// Prefix of the heads of all agents of a session.
#[must_use]
pub fn agents_prefix(tenant: Option<&str>, session_id: &str) -> String {
    SubjectKey::session_key(tenant, session_id, "")
}

/// The subject of a session's key; `None` for bytes that are no such key.
#[must_use]
pub fn subject_of(session_key: &[u8]) -> Option<SubjectKey> {
    let mut parts = std::str::from_utf8(session_key).ok()?.split(loopwarden_core::engine::SEPARATOR);
    let subject = SubjectKey::Agent {
        tenant: parts.next()?.to_owned(),
        session_id: parts.next()?.to_owned(),
        agent_id: parts.next()?.to_owned(),
    };
    parts.next().is_none().then_some(subject)
}

/// Reads a session; `None` where there is none. A history of another ring size is re-slotted: as many of the newest steps as fit.
///
/// # Errors
/// See [`StoreError`]; [`StoreError::Corrupt`] where a step of the ring is missing.
pub fn load(
    store: &impl StateStore,
    task: TaskId,
    session_key: &[u8],
    history_steps: usize,
) -> Result<Option<Loaded>, StoreError> {
    let Some(bytes) = store.get(task, &head_key(session_key))? else { return Ok(None) };
    let (head, stored, open) = decode_whole_head(&bytes)?;
    let mut steps = vec![None; stored.len];
    let mut place = |found: Vec<step::FoundStep>| {
        for (slot, mut found, tool) in found {
            let Some(sequence) = stored.sequence_in(slot) else { continue };
            found.sequence = sequence;
            if let Some(place) = steps.get_mut((sequence - stored.first()) as usize) {
                *place = Some((found, tool));
            }
        }
    };
    place(open);
    if stored.has_pages() {
        let prefix = step::prefix(session_key);
        let mut failed = None;
        store.scan(task, KeyFamily::Page, &prefix, &prefix, &mut |key, value| {
            let Some(page) = step::page_in(key, &prefix) else { return ControlFlow::Continue(()) };
            match step::decode_page(page, value) {
                Ok(found) if found.iter().any(|(slot, ..)| stored.is_open(*slot)) => {
                    failed = Some(StoreError::Corrupt("page: a step that lies in the head".to_owned()));
                }
                Ok(found) => place(found),
                Err(error) => failed = Some(error),
            }
            if failed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    let resized = stored.capacity != history_steps.max(1);
    let skip = stored.len.saturating_sub(history_steps.max(1));
    let mut restored = Vec::with_capacity(stored.len - skip);
    for place in steps.into_iter().skip(skip) {
        restored.push(place.ok_or_else(|| StoreError::Corrupt("session: a step is missing".to_owned()))?);
    }
    let changed_steps = if resized { restored.iter().map(|(found, _)| found.sequence).collect() } else { Vec::new() };
    let history = History::restored(history_steps, stored.next_sequence, stored.floor, restored);
    Ok(Some(Loaded { session: Session { head, history, changed_steps, has_begun: true }, stored }))
}

/// What the store lacks of a session: the pages of the steps that have changed, and the head with the newest. `stored` is what the store
/// holds of the same ring: when other slots come to lie in the head, those that lay there move into their page, and these leave theirs.
///
/// # Errors
/// As [`codec::encode`].
pub fn changes(
    task: TaskId,
    session_key: &[u8],
    (head, history): (&Head, &History),
    (stored, changed_steps): (Option<&StoredRing>, &[u64]),
    out: &mut Vec<Change>,
) -> Result<(), StoreError> {
    let ring = StoredRing::of(history);
    let (before, now) = (stored.and_then(StoredRing::open_group), ring.open_group());
    let moved = if before == now { None } else { before.and(now) };
    let changed =
        changed_steps.iter().filter(|sequence| history.get(**sequence).is_some()).map(|sequence| history.slot(*sequence));
    let mut pages: BTreeSet<u16> = changed.filter(|slot| !ring.is_open(*slot)).map(step::page_of).collect();
    if moved.is_some() {
        pages.extend(before.into_iter().chain(now).map(step::page_of_group));
    }
    for page in pages {
        let mut steps = steps_in(ring.slots_of_page(page), &ring, history).peekable();
        let value = if steps.peek().is_some() { Some(step::encode_page(steps)?) } else { None };
        if value.is_some() || stored.is_some_and(|stored| stored.has_page(page)) {
            out.push(Change { task, key: step::key(session_key, page), value });
        }
    }
    let value = Some(encode_head(head, &ring, steps_in(ring.open_slots(), &ring, history))?);
    out.push(Change { task, key: head_key(session_key), value });
    Ok(())
}

/// The steps that the ring holds in some slots: slot, step, name of the tool.
fn steps_in<'a>(
    slots: impl Iterator<Item = u16>,
    ring: &StoredRing,
    history: &'a History,
) -> impl Iterator<Item = (u16, &'a Step, &'a str)> {
    let ring = *ring;
    let steps = slots.filter_map(move |slot| Some((slot, history.get(ring.sequence_in(slot)?)?)));
    steps.map(|(slot, found)| (slot, found, history.tool(found)))
}

/// Bytes of a head: what its ring needs to be read again, and the steps in its open slots.
///
/// # Errors
/// As [`codec::encode`].
pub fn encode_head<'a>(
    head: &Head,
    ring: &StoredRing,
    open: impl Iterator<Item = (u16, &'a Step, &'a str)>,
) -> Result<Vec<u8>, StoreError> {
    let bytes = codec::append(step::begin(KeyFamily::Head), &StoredHead::of(head, ring))?;
    step::append(codec::append(bytes, &Remembered::of(head))?, open)
}

/// Reads a head and what the store holds of its ring; the steps in it are left alone.
///
/// # Errors
/// As [`codec::decode`]; also for numbers that mean nothing.
pub fn decode_head(bytes: &[u8]) -> Result<(Head, StoredRing), StoreError> {
    let version = migrate::version(KeyFamily::Head, bytes)?;
    take_head(version, bytes).map(|(head, ring, _)| (head, ring))
}

/// The same with the steps that lie in it.
///
/// # Errors
/// As [`decode_head`].
pub fn decode_whole_head(bytes: &[u8]) -> Result<(Head, StoredRing, Vec<step::FoundStep>), StoreError> {
    let version = migrate::version(KeyFamily::Head, bytes)?;
    let (head, ring, rest) = take_head(version, bytes)?;
    let open = step::read(ring.open_group().map_or(0, step::page_of_group), version, rest)?;
    if open.iter().any(|(slot, ..)| !ring.is_open(*slot)) {
        return Err(corrupt("a step that lies in a page"));
    }
    Ok((head, ring, open))
}

/// Head, ring, and the bytes of steps behind them.
fn take_head(version: u8, bytes: &[u8]) -> Result<(Head, StoredRing, &[u8]), StoreError> {
    let (stored, mut rest): (StoredHead<'_>, _) = codec::take(KeyFamily::Head.as_str(), bytes.get(1..).unwrap_or_default())?;
    let (mut head, ring) = stored.into_head()?;
    if version >= 2 {
        let remembered: Remembered;
        (remembered, rest) = codec::take(KeyFamily::Head.as_str(), rest)?;
        remembered.put_into(&mut head);
    }
    Ok((head, ring, rest))
}

#[derive(Serialize, Deserialize)]
struct StoredHead<'a> {
    capacity: u32,
    next_sequence: u64,
    floor: u64,
    len: u32,
    epoch: i64,
    live_seq: u64,
    shadow_seq: u64,
    time: i64,
    lag_ms: i64,
    #[serde(borrow)]
    swarm_id: &'a str,
    world: H64,
    producer_seq: u64,
    pending_turn: u64,
    recent_events: Vec<[u8; 8]>,
    sent_texts: Vec<[u8; 8]>,
    streaks: Option<StoredStreaks>,
    episodes: Vec<StoredEpisode>,
    shadow_episodes: Vec<StoredEpisode>,
    verdicts: Vec<StoredVerdict<'a>>,
    idle_due: Option<i64>,
    open_due: Option<i64>,
    verdict_due: Option<i64>,
    has_ended: bool,
    policy: H64,
    loops_total: u64,
    awaiting: Option<(u8, H128)>,
}

impl<'a> StoredHead<'a> {
    fn of(head: &'a Head, ring: &StoredRing) -> Self {
        Self {
            capacity: ring.capacity as u32,
            next_sequence: ring.next_sequence,
            floor: ring.floor,
            len: ring.len as u32,
            epoch: head.epoch,
            live_seq: head.live_seq,
            shadow_seq: head.shadow_seq,
            time: head.time.0,
            lag_ms: head.lag_ms,
            swarm_id: &head.swarm_id,
            world: pack64(head.world),
            producer_seq: head.producer_seq,
            pending_turn: head.pending_turn,
            recent_events: head.recent_events.iter().map(|hash| hash.0.to_be_bytes()).collect(),
            sent_texts: head.sent_texts.iter().map(|hash| hash.0.to_be_bytes()).collect(),
            streaks: (head.streaks != Streaks::default()).then(|| StoredStreaks::of(&head.streaks)),
            episodes: head.episodes.iter().map(StoredEpisode::of).collect(),
            shadow_episodes: head.shadow_episodes.iter().map(StoredEpisode::of).collect(),
            verdicts: head.verdicts.iter().map(StoredVerdict::of).collect(),
            idle_due: head.timers.due(TimerKind::Idle).map(|due| due.0),
            open_due: head.timers.due(TimerKind::OpenCalls).map(|due| due.0),
            verdict_due: head.timers.due(TimerKind::Verdicts).map(|due| due.0),
            has_ended: head.has_ended,
            policy: pack64(head.policy),
            loops_total: head.loops_total,
            awaiting: head.pending_nudge.map(|nudge| (nudge.detector.number(), pack128(nudge.call))),
        }
    }

    fn into_head(self) -> Result<(Head, StoredRing), StoreError> {
        let ring = StoredRing {
            capacity: self.capacity as usize,
            next_sequence: self.next_sequence,
            floor: self.floor,
            len: self.len as usize,
        };
        if ring.len > ring.capacity.max(1)
            || ring.len as u64 > ring.next_sequence
            || ring.capacity > loopwarden_core::limits::HISTORY_STEPS_MAX
        {
            return Err(corrupt("impossible ring"));
        }
        let hashes = |list: Vec<[u8; 8]>| -> VecDeque<Hash64> {
            list.into_iter().map(|bytes| Hash64(u64::from_be_bytes(bytes))).collect()
        };
        let pending_nudge = match self.awaiting {
            None => None,
            Some((number, call)) => Some(PendingNudge { detector: detector(number)?, call: unpack128(call) }),
        };
        let head = Head {
            epoch: self.epoch,
            live_seq: self.live_seq,
            shadow_seq: self.shadow_seq,
            time: EventTime(self.time),
            lag_ms: self.lag_ms,
            swarm_id: self.swarm_id.into(),
            world: unpack64(self.world),
            producer_seq: self.producer_seq,
            pending_turn: self.pending_turn,
            recent_events: hashes(self.recent_events),
            sent_texts: hashes(self.sent_texts),
            streaks: self.streaks.map(StoredStreaks::into_streaks).transpose()?.unwrap_or_default(),
            episodes: self.episodes.into_iter().map(StoredEpisode::into_episode).collect::<Result<_, _>>()?,
            shadow_episodes: self.shadow_episodes.into_iter().map(StoredEpisode::into_episode).collect::<Result<_, _>>()?,
            verdicts: self.verdicts.into_iter().map(StoredVerdict::into_verdict).collect::<Result<_, _>>()?,
            timers: TimerTable::restored([
                (TimerKind::Idle, self.idle_due.map(EventTime)),
                (TimerKind::OpenCalls, self.open_due.map(EventTime)),
                (TimerKind::Verdicts, self.verdict_due.map(EventTime)),
            ]),
            has_ended: self.has_ended,
            policy: unpack64(self.policy),
            loops_total: self.loops_total,
            pending_nudge,
            user_texts: VecDeque::new(),
        };
        Ok((head, ring))
    }
}

#[derive(Serialize, Deserialize)]
struct StoredRun {
    hash: H128,
    length: u32,
    same_answer: u32,
    outcome: H64,
    first: u64,
    same_first: u64,
}

impl StoredRun {
    fn of(run: &Run) -> Option<Self> {
        (*run != Run::default()).then(|| Self {
            hash: pack128(run.hash),
            length: run.length,
            same_answer: run.same_answer,
            outcome: pack64(run.outcome),
            first: run.first,
            same_first: run.same_first,
        })
    }

    fn into_run(self) -> Run {
        Run {
            hash: unpack128(self.hash),
            length: self.length,
            same_answer: self.same_answer,
            outcome: unpack64(self.outcome),
            first: self.first,
            same_first: self.same_first,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct StoredStreaks {
    exact: Option<StoredRun>,
    near: Option<StoredRun>,
    near_tier: u8,
    outcome: (H64, u32, u32, u64),
    stagnation: (u32, u64, H128),
    stuck: (u32, u64),
    category: u8,
    test: (u32, u64),
    shell: (u32, u64),
    text: (u32, u64),
    exploration: Option<StoredExplored>,
}

#[derive(Serialize, Deserialize)]
struct StoredExplored {
    has_edited: bool,
    files: u32,
    turns: u32,
    last_turn: u64,
    slice: [u8; 8],
    first: u64,
    last_time: i64,
}

impl StoredStreaks {
    fn of(streaks: &Streaks) -> Self {
        let Streaks { outcome, matrix, exploration, .. } = streaks;
        Self {
            exact: StoredRun::of(&streaks.exact),
            near: StoredRun::of(&streaks.near),
            near_tier: streaks.near_tier,
            outcome: (pack64(outcome.key), outcome.count, outcome.triggers, outcome.first),
            stagnation: (matrix.stagnation, matrix.stagnation_first, pack128(matrix.stagnation_fingerprint)),
            stuck: (matrix.stuck, matrix.stuck_first),
            category: matrix.category.number(),
            test: (streaks.tests.count, streaks.tests.first),
            shell: (streaks.shell.count, streaks.shell.first),
            text: (streaks.texts.turns, streaks.texts.turn),
            exploration: (*exploration != Explored::default()).then_some(StoredExplored {
                has_edited: exploration.has_edited,
                files: exploration.files,
                turns: exploration.turns,
                last_turn: exploration.last_turn,
                slice: exploration.slice,
                first: exploration.first,
                last_time: exploration.last_time.0,
            }),
        }
    }

    fn into_streaks(self) -> Result<Streaks, StoreError> {
        Ok(Streaks {
            exact: self.exact.map_or_else(Run::default, StoredRun::into_run),
            near: self.near.map_or_else(Run::default, StoredRun::into_run),
            near_tier: self.near_tier,
            outcome: OutcomeRun {
                key: unpack64(self.outcome.0),
                count: self.outcome.1,
                triggers: self.outcome.2,
                first: self.outcome.3,
            },
            matrix: Matrix {
                stagnation: self.stagnation.0,
                stuck: self.stuck.0,
                stagnation_first: self.stagnation.1,
                stuck_first: self.stuck.1,
                stagnation_fingerprint: unpack128(self.stagnation.2),
                category: Category::from_number(self.category).ok_or_else(|| corrupt("unknown category"))?,
            },
            tests: Row { count: self.test.0, first: self.test.1 },
            shell: Row { count: self.shell.0, first: self.shell.1 },
            texts: Texts { turns: self.text.0, turn: self.text.1 },
            exploration: self.exploration.map_or_else(Explored::default, |explored| Explored {
                has_edited: explored.has_edited,
                files: explored.files,
                turns: explored.turns,
                last_turn: explored.last_turn,
                slice: explored.slice,
                first: explored.first,
                last_time: EventTime(explored.last_time),
            }),
            own_texts: OwnTexts::default(),
            spent: Spent::default(),
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredEpisode {
    identity: H64,
    detector: u8,
    count: u32,
    tier: u8,
    nudges: u32,
    hits: u32,
    last_seen: u64,
    block_until: Option<i64>,
    level: u8,
    id: [u8; 16],
}

impl StoredEpisode {
    fn of(episode: &Episode) -> Self {
        Self {
            identity: pack64(episode.identity),
            detector: episode.detector.number(),
            count: episode.count,
            tier: episode.tier,
            nudges: episode.nudges,
            hits: episode.hits_since_nudge,
            last_seen: episode.last_seen,
            block_until: episode.block_until.map(|until| until.0),
            level: episode.level,
            id: episode.id.0,
        }
    }

    fn into_episode(self) -> Result<Episode, StoreError> {
        Ok(Episode {
            identity: unpack64(self.identity),
            detector: detector(self.detector)?,
            count: self.count,
            tier: self.tier,
            nudges: self.nudges,
            hits_since_nudge: self.hits,
            last_seen: self.last_seen,
            block_until: self.block_until.map(EventTime),
            level: self.level,
            id: CommandId(self.id),
        })
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::{Action, Advice, IdentityRecipe, Placement, Scope, ScopeKind, Verdict};
    use loopwarden_core::event::Stage;
    use loopwarden_core::identity::Hash128;
    use loopwarden_core::policy::Detector;
    use proptest::prelude::*;

    use super::*;
    use crate::{MemoryStore, state_hash};
    use loopwarden_core::identity::Sketch;

    const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

    fn hash() -> impl Strategy<Value = Hash64> {
        prop_oneof![Just(Hash64::NONE), any::<u64>().prop_map(Hash64)]
    }

    fn wide() -> impl Strategy<Value = Hash128> {
        prop_oneof![Just(Hash128::NONE), any::<u128>().prop_map(Hash128)]
    }

    fn texts() -> impl Strategy<Value = VecDeque<Sketch>> {
        proptest::collection::vec_deque(proptest::collection::vec(any::<u32>(), 0..40).prop_map(Sketch::of_hashes), 0..8)
    }

    fn due() -> impl Strategy<Value = Option<EventTime>> {
        proptest::option::of(any::<i64>().prop_map(EventTime))
    }

    fn detectors() -> impl Strategy<Value = Detector> {
        (0..Detector::COUNT).prop_map(|number| Detector::ALL[number])
    }

    prop_compose! {
        fn runs()(
            hash in wide(), (length, same_answer) in any::<(u32, u32)>(), outcome in hash(), (first, same_first) in any::<(u64, u64)>(),
        ) -> Run {
            Run { hash, length, same_answer, outcome, first, same_first }
        }
    }

    prop_compose! {
        fn rows()((count, first) in any::<(u32, u64)>()) -> Row {
            Row { count, first }
        }
    }

    prop_compose! {
        fn streaks()(
            (exact, near, near_tier) in (runs(), runs(), any::<u8>()),
            (key, count, triggers, first) in (hash(), any::<u32>(), any::<u32>(), any::<u64>()),
            (stagnation, stuck, stagnation_first, stuck_first) in any::<(u32, u32, u64, u64)>(),
            (stagnation_fingerprint, category) in (wide(), 0u8..6),
            (tests, shell, (turns_of_text, turn)) in (rows(), rows(), any::<(u32, u64)>()),
            (has_edited, files, turns, last_turn, slice, read_first, last_time) in any::<(bool, u32, u32, u64, [u8; 8], u64, i64)>(),
            (own_texts, next_step) in (texts(), any::<u64>()),
            (began, calls, replies, tokens, cost_micro_usd) in any::<(i64, u32, u32, u64, u64)>(),
            tools in proptest::collection::vec((hash(), any::<u32>()), 0..9),
        ) -> Streaks {
            let category = Category::from_number(category).unwrap();
            Streaks {
                exact, near, near_tier,
                outcome: OutcomeRun { key, count, triggers, first },
                matrix: Matrix { stagnation, stuck, stagnation_first, stuck_first, stagnation_fingerprint, category },
                tests, shell,
                texts: Texts { turns: turns_of_text, turn },
                exploration: Explored { has_edited, files, turns, last_turn, slice, first: read_first, last_time: EventTime(last_time) },
                own_texts: OwnTexts { texts: own_texts, next_step },
                spent: Spent { began: EventTime(began), calls, turns: replies, turn, tokens, cost_micro_usd, tools },
            }
        }
    }

    prop_compose! {
        fn episodes()(
            (identity, detector, block_until) in (hash(), detectors(), due()),
            (count, tier, nudges, hits_since_nudge, last_seen, level, id) in any::<(u32, u8, u32, u32, u64, u8, [u8; 16])>(),
        ) -> Episode {
            Episode { identity, detector, count, tier, nudges, hits_since_nudge, last_seen, block_until, level, id: CommandId(id) }
        }
    }

    fn recipes() -> impl Strategy<Value = IdentityRecipe> {
        prop_oneof![
            any::<(Vec<String>, Vec<String>)>()
                .prop_map(|(args, ignored)| IdentityRecipe::Call { args: args.into(), args_ignored: ignored.into() }),
            any::<Vec<String>>().prop_map(|args| IdentityRecipe::Coarse { args: args.into() }),
            Just(IdentityRecipe::Args),
            Just(IdentityRecipe::Opaque),
        ]
    }

    prop_compose! {
        fn verdicts()(
            (command_id, episode, level, message) in any::<([u8; 16], [u8; 16], u8, String)>(),
            (action, kind, detector, advice) in (0usize..3, 0usize..3, detectors(), proptest::option::of(0u8..6)),
            (tool, only) in any::<(Option<String>, Vec<(String, String)>)>(),
            fingerprint in proptest::option::of((any::<u128>().prop_map(Hash128), recipes())),
            (appends, call_id) in any::<(bool, Option<String>)>(),
            (issued_at, expires_at) in any::<(i64, i64)>(),
        ) -> Verdict {
            Verdict {
                command_id: CommandId(command_id), episode: CommandId(episode), level, message, detector,
                action: [Action::Nudge, Action::Block, Action::Unblock][action],
                scope: Scope { kind: [ScopeKind::Agent, ScopeKind::Swarm, ScopeKind::Fleet][kind], tool, fingerprint, only },
                placement: if appends { Placement::AppendToResult { call_id } } else { Placement::NextTurn },
                advice: advice.and_then(Advice::from_number),
                issued_at: EventTime(issued_at), expires_at: EventTime(expires_at),
            }
        }
    }

    prop_compose! {
        fn heads()(
            (epoch, live_seq, shadow_seq, time, lag_ms, swarm_id) in any::<(i64, u64, u64, i64, i64, String)>(),
            (world, policy, producer_seq, pending_turn) in (hash(), hash(), any::<u64>(), any::<u64>()),
            recent_events in proptest::collection::vec_deque(any::<u64>().prop_map(Hash64), 0..64),
            sent_texts in proptest::collection::vec_deque(any::<u64>().prop_map(Hash64), 0..8),
            user_texts in texts(),
            streaks in prop_oneof![Just(Streaks::default()), streaks()],
            episodes in proptest::collection::vec(episodes(), 0..4),
            shadow_episodes in proptest::collection::vec(episodes(), 0..4),
            verdicts in proptest::collection::vec(verdicts(), 0..3),
            dues in [due(), due(), due()],
            (has_ended, loops_total) in any::<(bool, u64)>(),
            pending_nudge in proptest::option::of((detectors(), wide()).prop_map(|(detector, call)| PendingNudge { detector, call })),
        ) -> Head {
            Head {
                epoch, live_seq, shadow_seq, time: EventTime(time), lag_ms, swarm_id: swarm_id.into(), world, producer_seq, pending_turn,
                recent_events, sent_texts, user_texts, streaks, episodes, shadow_episodes, verdicts: verdicts.into(),
                timers: TimerTable::restored(TimerKind::OF_SESSION.into_iter().zip(dues)), has_ended, policy, loops_total, pending_nudge,
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn a_head_reads_back(head in heads(), len in 0usize..9, more in 0u64..1_000, floor in any::<u64>()) {
            let ring = StoredRing { capacity: 8, next_sequence: len as u64 + more, floor, len: len.min(8) };
            let bytes = encode_head(&head, &ring, std::iter::empty()).unwrap();
            prop_assert_eq!(decode_head(&bytes).unwrap(), (head, ring));
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(version) = bytes.first_mut() {
                *version = *version % 2 + 1;
            }
            let _ = decode_whole_head(&bytes);
        }

        #[test]
        fn a_session_reads_back_and_another_ring_keeps_its_newest_steps(steps in 0u64..40, before in 1usize..12, after in 1usize..12) {
            let mut store = MemoryStore::new();
            let mut history = History::new(before);
            for number in 0..steps {
                history.push(Step { time: EventTime(number as i64), ..Step::default() }, ["a", "b", "c"][(number % 3) as usize]);
            }
            let head = Head { epoch: 7, ..Head::default() };
            let ring = StoredRing::of(&history);
            let mut written = Vec::new();
            let all: Vec<u64> = history.ring().map(|found| found.sequence).collect();
            changes(TASK, b"t\x1fs\x1fa", (&head, &history), (None, &all), &mut written).unwrap();
            let pages = written.iter().filter(|change| change.key.family == KeyFamily::Page).count();
            prop_assert_eq!(pages, ring.pages().len());
            // A neighbour whose key has this one's as a prefix.
            written.push(Change { task: TASK, key: step::key(b"t\x1fs\x1fab", 0), value: Some(vec![1]) });
            store.commit(written).unwrap();
            let loaded = load(&store, TASK, b"t\x1fs\x1fa", after).unwrap().unwrap();
            prop_assert_eq!(&loaded.session.head, &head);
            prop_assert_eq!(loaded.stored, ring);
            let kept = history.len().min(after);
            let found: Vec<(u64, i64, String)> = loaded.session.history.ring()
                .map(|found| (found.sequence, found.time.0, loaded.session.history.tool(found).to_owned())).collect();
            let expected: Vec<(u64, i64, String)> = history.ring().skip(history.len() - kept)
                .map(|found| (found.sequence, found.time.0, history.tool(found).to_owned())).collect();
            prop_assert_eq!(found, expected);
            let changed = if before == after { 0 } else { kept };
            prop_assert_eq!(loaded.session.changed_steps.len(), changed);
            prop_assert_eq!(loaded.session.history.next_sequence(), steps);
        }
    }

    /// Steps that differ, so that one in another's place shows.
    fn push(history: &mut History) {
        let number = history.next_sequence();
        history.push(Step { time: EventTime(number as i64), ..Step::default() }, ["a", "b", "c"][(number % 3) as usize]);
    }

    fn commit(store: &mut MemoryStore, history: &History, (stored, changed): (Option<&StoredRing>, &[u64])) {
        let mut written = Vec::new();
        changes(TASK, b"t\x1fs\x1fa", (&Head::default(), history), (stored, changed), &mut written).unwrap();
        store.commit(written).unwrap();
    }

    fn records(store: &MemoryStore) -> u64 {
        state_hash(store, TASK, &[KeyFamily::Head, KeyFamily::Page]).unwrap()
    }

    proptest! {
        /// Whatever commits cut a life into, and whichever steps an answer changes late, the store holds the same of it and nothing else.
        #[test]
        fn commits_anywhere_leave_the_same_records(
            cuts in proptest::collection::vec((0usize..20, proptest::collection::vec(any::<u16>(), 0..4)), 1..12),
            capacity in 1usize..40,
        ) {
            let mut history = History::new(capacity);
            let (mut store, mut stored) = (MemoryStore::new(), None);
            for (pushes, answers) in cuts {
                let first = history.next_sequence();
                (0..pushes).for_each(|_| push(&mut history));
                let mut changed: Vec<u64> = (first..history.next_sequence()).collect();
                for answer in answers {
                    let Some(step) = history.ring().nth(usize::from(answer) % capacity) else { continue };
                    let sequence = step.sequence;
                    history.update(sequence, |step| step.turn += 1 + u64::from(answer));
                    changed.push(sequence);
                }
                commit(&mut store, &history, (stored.as_ref(), &changed));
                stored = Some(StoredRing::of(&history));
                let all: Vec<u64> = history.ring().map(|found| found.sequence).collect();
                let mut at_once = MemoryStore::new();
                commit(&mut at_once, &history, (None, &all));
                prop_assert_eq!(records(&store), records(&at_once));
                let loaded = load(&store, TASK, b"t\x1fs\x1fa", capacity).unwrap().unwrap();
                let found: Vec<_> = loaded.session.history.ring().map(|step| (step.sequence, step.time, step.turn)).collect();
                prop_assert_eq!(found, history.ring().map(|step| (step.sequence, step.time, step.turn)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_largest_ring_wraps_without_losing_a_step() {
        let capacity = loopwarden_core::limits::HISTORY_STEPS_MAX;
        let mut history = History::new(capacity);
        (0..capacity - 10).for_each(|_| push(&mut history));
        let all: Vec<u64> = history.ring().map(|found| found.sequence).collect();
        let mut store = MemoryStore::new();
        commit(&mut store, &history, (None, &all));
        let mut stored = StoredRing::of(&history);
        for _ in 0..20 {
            push(&mut history);
            commit(&mut store, &history, (Some(&stored), &[history.next_sequence() - 1]));
            stored = StoredRing::of(&history);
        }
        let loaded = load(&store, TASK, b"t\x1fs\x1fa", capacity).unwrap().unwrap();
        assert!(loaded.session.history.ring().map(|step| step.time).eq(history.ring().map(|step| step.time)));
    }

    #[test]
    fn a_missing_step_is_corrupt_and_a_missing_head_is_no_session() {
        let mut store = MemoryStore::new();
        assert!(load(&store, TASK, b"t\x1fs\x1fa", 4).unwrap().is_none());
        let ring = StoredRing { capacity: 4, next_sequence: 1, floor: 0, len: 1 };
        let value = Some(encode_head(&Head::default(), &ring, std::iter::empty()).unwrap());
        store.commit(vec![Change { task: TASK, key: head_key(b"t\x1fs\x1fa"), value }]).unwrap();
        assert!(matches!(load(&store, TASK, b"t\x1fs\x1fa", 4), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn the_subject_of_a_key_reads_back() {
        let key = SubjectKey::session_key(Some("t"), "s", "a");
        let subject = SubjectKey::Agent { tenant: "t".to_owned(), session_id: "s".to_owned(), agent_id: "a".to_owned() };
        assert_eq!(subject_of(key.as_bytes()), Some(subject));
        assert_eq!(subject_of(b"t\x1fs"), None);
        assert_eq!(subject_of(b"t\x1fs\x1fa\x1f\x00\x01"), None);
    }
}
