//! Heads of sessions: key, encoding, and loading a whole session (head and ring).
//!
//! The engine's types know nothing of bytes; the private mirrors below are the format. Fields are only ever added with a new
//! version and a step in `migrate`.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use loopwarden_core::detect::{
    Category, Explored, History, Matrix, OutcomeRun, OwnTexts, Run, Score, Spent, Step, Streaks, Tally, Texts,
};
use loopwarden_core::engine::{CommandId, Episode, Head, PendingNudge, Session, SubjectKey, TimerKind, TimerTable};
use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_core::identity::Hash64;
use serde::{Deserialize, Serialize};

use crate::codec::{H64, H128, pack64, pack128, unpack64, unpack128};
use crate::remembered::{LetBe, Remembered, Scored, StoredTree, Watched};
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
    store: &dyn StateStore,
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
    head: &Head,
    history: &History,
    stored: Option<&StoredRing>,
    changed_steps: &[u64],
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
    let bytes = codec::append(step::begin(StoredTree::format(head)), &StoredHead::of(head, ring))?;
    let bytes = codec::append(codec::append(bytes, &Remembered::of(head))?, &Scored::of(head))?;
    let bytes = codec::append(codec::append(bytes, &LetBe::of(head))?, &Watched::of(head))?;
    step::append(StoredTree::append(bytes, head)?, open)
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
    let (stored, mut rest) = codec::take::<StoredHead<'_>>(KeyFamily::Head.as_str(), bytes.get(1..).unwrap_or_default())?;
    let (mut head, ring) = stored.into_head()?;
    if version >= 2 {
        part::<Remembered>(&mut rest)?.put_into(&mut head);
    }
    if version >= 3 {
        part::<Scored>(&mut rest)?.put_into(&mut head);
    }
    if version >= 4 {
        part::<LetBe>(&mut rest)?.put_into(&mut head);
    }
    if version >= 5 {
        part::<Option<Watched>>(&mut rest)?.map_or(Ok(()), |watched| watched.put_into(&mut head))?;
    }
    if version >= StoredTree::FORMAT {
        part::<StoredTree>(&mut rest)?.put_into(&mut head);
    }
    Ok((head, ring, rest))
}

/// What a later format has put behind a head; `rest` begins behind it afterwards.
fn part<'a, T: Deserialize<'a>>(rest: &mut &'a [u8]) -> Result<T, StoreError> {
    let (value, behind) = codec::take(KeyFamily::Head.as_str(), rest)?;
    *rest = behind;
    Ok(value)
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
            tree: None,
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
            // What newer formats hold lies behind it.
            ..Head::default()
        };
        Ok((head, ring))
    }
}

/// A run of equal calls. Those of older versions knew how much of it had one answer.
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
            length: run.steps.count,
            same_answer: run.steps.count,
            outcome: pack64(Hash64::NONE),
            first: run.steps.first,
            same_first: run.steps.first,
        })
    }

    fn into_run(self) -> Run {
        Run { hash: unpack128(self.hash), steps: Tally { count: self.length, first: self.first } }
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
            stagnation: (matrix.stagnation.count, matrix.stagnation.first, pack128(matrix.stagnation_fingerprint)),
            stuck: (matrix.stuck.count, matrix.stuck.first),
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
                stagnation: Tally { count: self.stagnation.0, first: self.stagnation.1 },
                stuck: Tally { count: self.stuck.0, first: self.stuck.1 },
                stagnation_fingerprint: unpack128(self.stagnation.2),
                category: Category::from_number(self.category).ok_or_else(|| corrupt("unknown category"))?,
            },
            tests: Tally { count: self.test.0, first: self.test.1 },
            shell: Tally { count: self.shell.0, first: self.shell.1 },
            texts: Texts { turns: self.text.0, turn: self.text.1, ..Texts::default() },
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
            score: Score::default(),
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
            is_control: false,
        })
    }
}

#[cfg(test)]
mod tests;
