//! State of the swarm stage. A counter is a small head and one record per pane, so that a report writes the panes it touched and the
//! head, never the whole counter; a swarm's floor and the number of counters are records of their own.
//!
//! The engine's types know nothing of bytes; the private mirrors below are the format.

use std::{borrow::Cow, ops::ControlFlow};

use loopwarden_core::engine::{Board, CommandId, Contribution, Pane, Period, SEPARATOR, SwarmCounter, TimerKind, TimerTable};
use loopwarden_core::event::{EventTime, TaskId};
use serde::{Deserialize, Serialize};

use crate::board::{StoredBoard, StoredRecipe};
use crate::swarm::used::{StoredSpawned, StoredUsed};
use crate::timer::due_bytes;
use crate::{KeyFamily, StateKey, StateStore, StoreError, Stored, codec, try_scan};

/// A counter as it was read.
#[derive(Debug)]
pub struct LoadedCounter {
    /// Head and panes of the counter.
    pub counter: SwarmCounter,
    /// Time in its key of [`KeyFamily::SwarmSeen`].
    pub seen: EventTime,
}

/// What a whole swarm remembers: its last reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// Calls up to this time no longer count.
    pub time: EventTime,
    /// When it may be forgotten; `None` = never.
    pub due: Option<EventTime>,
    /// Time in its key of [`KeyFamily::SwarmSeen`].
    pub seen: EventTime,
}

/// What is counted apart, against a bound of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CounterKind {
    /// Counters and floors of swarms.
    Swarm = 0,
    Fleet = 1,
    Budget = 2,
}

impl CounterKind {
    pub const COUNT: usize = 3;
}

/// Key of a counter's head; `counter` is the key of its reports.
pub fn head_key(counter: &[u8]) -> StateKey {
    StateKey::new(KeyFamily::SwarmCounter, counter.to_vec())
}

pub fn pane_key(counter: &[u8], start: EventTime) -> StateKey {
    let mut key = pane_prefix(counter);
    key.extend_from_slice(&due_bytes(start));
    StateKey::new(KeyFamily::SwarmPane, key)
}

fn pane_prefix(counter: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(counter.len() + 9);
    key.extend_from_slice(counter);
    key.push(SEPARATOR as u8);
    key
}

/// Key bytes of [`KeyFamily::SwarmSeen`]: longest unseen first, kind by kind.
pub fn seen_key(kind: CounterKind, seen: EventTime, subject: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + subject.len());
    key.push(kind as u8);
    key.extend_from_slice(&due_bytes(seen));
    key.extend_from_slice(subject);
    key
}

/// The counter or swarm that such a key is about.
pub fn seen_subject(key: &[u8]) -> &[u8] {
    key.get(9..).unwrap_or_default()
}

#[derive(Serialize, Deserialize)]
struct StoredCounter<'a> {
    #[serde(borrow)]
    tool: Cow<'a, str>,
    recipe: Option<StoredRecipe>,
    floor: Option<i64>,
    /// Start, epoch, commands, step, episode.
    periods: Vec<(i64, i64, u64, u32, [u8; 16])>,
    /// Most have published nothing.
    #[serde(borrow)]
    board: Option<StoredBoard<'a>>,
    time: i64,
    panes_due: Option<i64>,
    verdict_due: Option<i64>,
    seen: i64,
    life: Option<StoredUsed>,
    /// Where the panes begin, where they are few: who reads a counter, or drops it, asks for their keys, and searches no range.
    panes: Option<Vec<i64>>,
}

#[derive(Serialize, Deserialize)]
struct StoredPane<'a> {
    /// Session, agent, calls, time of the last after the pane's start.
    #[serde(borrow)]
    agents: Vec<(Cow<'a, str>, Cow<'a, str>, u32, i64)>,
    further: Option<(u32, i64)>,
    /// What was used of a budget, and seen of a tree. Most panes hold calls alone.
    beside: Option<(Option<StoredUsed>, Option<StoredSpawned>)>,
}

/// Panes that a head lists; those of a counter with more are looked for where they lie.
const PANES_LISTED_MAX: usize = 16;

/// Value of a counter's head.
///
/// # Errors
/// As [`codec::encode`].
pub fn encode_head(counter: &SwarmCounter, seen: EventTime) -> Result<Vec<u8>, StoreError> {
    let is_listed = counter.panes.len() <= PANES_LISTED_MAX;
    let stored = StoredCounter {
        tool: Cow::Borrowed(&counter.tool),
        recipe: counter.recipe.as_ref().map(StoredRecipe::of),
        floor: counter.floor.map(|floor| floor.0),
        periods: counter
            .periods
            .iter()
            .map(|(start, period)| (*start, period.epoch, period.seq, period.step, period.episode.0))
            .collect(),
        board: (counter.board != Board::default()).then(|| StoredBoard::of(&counter.board)),
        time: counter.time.0,
        panes_due: counter.timers.due(TimerKind::Panes).map(|due| due.0),
        verdict_due: counter.timers.due(TimerKind::SwarmVerdicts).map(|due| due.0),
        seen: seen.0,
        life: counter.life.as_ref().map(StoredUsed::of),
        panes: is_listed.then(|| counter.panes.keys().map(|start| start.0).collect()),
    };
    codec::encode(&stored)
}

/// Reads a head: a counter without its panes.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode_head(bytes: &[u8]) -> Result<LoadedCounter, StoreError> {
    take_head(bytes).map(|(loaded, _)| loaded)
}

/// The same with where its panes begin; `None` where the head does not list them.
fn take_head(bytes: &[u8]) -> Result<(LoadedCounter, Option<Vec<EventTime>>), StoreError> {
    let stored: StoredCounter<'_> = codec::decode(KeyFamily::SwarmCounter.as_str(), bytes)?;
    let period = |(start, epoch, seq, step, episode)| (start, Period { epoch, seq, step, episode: CommandId(episode) });
    let counter = SwarmCounter {
        tool: stored.tool.into_owned(),
        recipe: stored.recipe.map(StoredRecipe::into_recipe),
        panes: std::collections::BTreeMap::new(),
        life: stored.life.map(StoredUsed::into_used),
        floor: stored.floor.map(EventTime),
        periods: stored.periods.into_iter().map(period).collect(),
        board: stored.board.map_or_else(|| Ok(Board::default()), StoredBoard::into_board)?,
        time: EventTime(stored.time),
        timers: TimerTable::restored([
            (TimerKind::Panes, stored.panes_due.map(EventTime)),
            (TimerKind::SwarmVerdicts, stored.verdict_due.map(EventTime)),
        ]),
    };
    let listed = stored.panes.map(|panes| panes.into_iter().map(EventTime).collect());
    Ok((LoadedCounter { counter, seen: EventTime(stored.seen) }, listed))
}

/// Value of a pane that begins at `start`.
///
/// # Errors
/// As [`codec::encode`].
pub fn encode_pane(start: EventTime, pane: &Pane) -> Result<Vec<u8>, StoreError> {
    let agents = pane.agents.iter().map(|((session, agent), made)| {
        (Cow::Borrowed(session.as_str()), Cow::Borrowed(agent.as_str()), made.calls, made.last.0.wrapping_sub(start.0))
    });
    let stored = StoredPane {
        agents: agents.collect(),
        further: (pane.further_calls > 0).then(|| (pane.further_calls, pane.further_last.0.wrapping_sub(start.0))),
        beside: (pane.used.is_some() || pane.spawned.is_some())
            .then(|| (pane.used.as_ref().map(StoredUsed::of), pane.spawned.as_ref().map(StoredSpawned::of))),
    };
    codec::encode(&stored)
}

/// Reads a pane that begins at `start`.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode_pane(start: EventTime, bytes: &[u8]) -> Result<Pane, StoreError> {
    let stored: StoredPane<'_> = codec::decode(KeyFamily::SwarmPane.as_str(), bytes)?;
    let time = |after: i64| EventTime(start.0.wrapping_add(after));
    let agents = stored.agents.into_iter();
    let agents = agents.map(|(session, agent, calls, after)| {
        ((session.into_owned(), agent.into_owned()), Contribution { calls, last: time(after) })
    });
    let (further_calls, further_last) = stored.further.map_or((0, EventTime::default()), |(calls, after)| (calls, time(after)));
    let (used, spawned) = stored.beside.unwrap_or_default();
    let (used, spawned) = (used.map(StoredUsed::into_used), spawned.map(StoredSpawned::into_spawned));
    Ok(Pane { agents: agents.collect(), further_calls, further_last, used, spawned })
}

/// Reads a counter with its panes; `None` where there is none.
///
/// # Errors
/// See [`StoreError`].
pub fn load(store: &dyn StateStore, task: TaskId, counter: &[u8]) -> Result<Option<LoadedCounter>, StoreError> {
    let Some(bytes) = store.get(task, &head_key(counter))? else { return Ok(None) };
    let (mut loaded, listed) = take_head(&bytes)?;
    if let Some(starts) = listed {
        for start in starts {
            let pane = store.get(task, &pane_key(counter, start))?;
            let pane = pane.ok_or_else(|| StoreError::Corrupt(format!("{task}: a counter lists a pane that is not there")))?;
            loaded.counter.panes.insert(start, decode_pane(start, &pane)?);
        }
        return Ok(Some(loaded));
    }
    let panes = &mut loaded.counter.panes;
    scan_panes(store, task, counter, &mut |start, value| decode_pane(start, value).map(|pane| drop(panes.insert(start, pane))))?;
    Ok(Some(loaded))
}

/// Reads what a counter's head holds, and where its panes begin.
///
/// # Errors
/// See [`StoreError`].
pub fn load_head(
    store: &dyn StateStore,
    task: TaskId,
    counter: &[u8],
) -> Result<Option<(LoadedCounter, Vec<EventTime>)>, StoreError> {
    let Some(bytes) = store.get(task, &head_key(counter))? else { return Ok(None) };
    let (loaded, listed) = take_head(&bytes)?;
    if let Some(starts) = listed {
        return Ok(Some((loaded, starts)));
    }
    let mut starts = Vec::new();
    scan_panes(store, task, counter, &mut |start, _| {
        starts.push(start);
        Ok(())
    })?;
    Ok(Some((loaded, starts)))
}

/// Takes a pane's time and its bytes.
type PaneVisitor<'a> = &'a mut dyn FnMut(EventTime, &[u8]) -> Result<(), StoreError>;

fn scan_panes(store: &dyn StateStore, task: TaskId, counter: &[u8], visit: PaneVisitor<'_>) -> Result<(), StoreError> {
    let prefix = pane_prefix(counter);
    try_scan(store, task, KeyFamily::SwarmPane, &prefix, &prefix, |key, value| {
        let start = key.last_chunk().map(|start| start_of(*start)).unwrap_or_default();
        visit(start, value).map(ControlFlow::Continue)
    })
}

fn start_of(bytes: [u8; 8]) -> EventTime {
    EventTime((u64::from_be_bytes(bytes) ^ (1 << 63)) as i64)
}

/// What a swarm remembers, under the key of its resets.
impl Stored for Floor {
    const FAMILY: KeyFamily = KeyFamily::Swarm;

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let (time, due, seen) = codec::decode::<(i64, Option<i64>, i64)>(Self::FAMILY.as_str(), bytes)?;
        Ok(Self { time: EventTime(time), due: due.map(EventTime), seen: EventTime(seen) })
    }

    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        codec::encode(&(self.time.0, self.due.map(|due| due.0), self.seen.0))
    }
}

/// How many there are, under the empty key: counters by [`CounterKind`]; in the session stage sessions, and blocks in force.
impl<const N: usize> Stored for [u64; N] {
    const FAMILY: KeyFamily = KeyFamily::Swarm;

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let counts: Vec<u64> = codec::decode(Self::FAMILY.as_str(), bytes)?;
        counts.try_into().map_err(|_| StoreError::Corrupt(format!("{}: other counts", Self::FAMILY.as_str())))
    }

    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        codec::encode(self.as_slice())
    }
}

pub(crate) mod used;

#[cfg(test)]
mod tests;
