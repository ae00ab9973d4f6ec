//! State of the swarm stage. A counter is a small head and one record per pane, so that a report writes the panes it touched and the
//! head, never the whole counter; a swarm's floor and the number of counters are records of their own.
//!
//! The engine's types know nothing of bytes; the private mirrors below are the format. Fields are only ever added with a new
//! version and a step in `migrate`.

use std::borrow::Cow;
use std::ops::ControlFlow;

use loopwarden_core::engine::{CommandId, Contribution, Pane, Period, SEPARATOR, SwarmCounter, TimerKind, TimerTable};
use loopwarden_core::event::{EventTime, TaskId};
use serde::{Deserialize, Serialize};

use crate::timer::due_bytes;
use crate::verdict::{StoredRecipe, StoredVerdict};
use crate::{KeyFamily, StateKey, StateStore, StoreError, codec, migrate};

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

/// Key of a swarm's floor; `swarm` is the key of its resets.
pub fn floor_key(swarm: &[u8]) -> StateKey {
    StateKey::new(KeyFamily::Swarm, swarm.to_vec())
}

/// Key of the number of counters.
pub const fn counts_key() -> StateKey {
    StateKey::new(KeyFamily::Swarm, Vec::new())
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
    verdicts: Vec<StoredVerdict<'a>>,
    time: i64,
    panes_due: Option<i64>,
    verdict_due: Option<i64>,
    seen: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredPane<'a> {
    /// Session, agent, calls, time of the last after the pane's start.
    #[serde(borrow)]
    agents: Vec<(Cow<'a, str>, Cow<'a, str>, u32, i64)>,
    further: Option<(u32, i64)>,
}

/// Panes that a head lists; those of a counter with more are looked for where they lie.
const PANES_LISTED_MAX: usize = 16;

/// Value of a counter's head. Behind what format 1 had, format 2 lists the panes, where they are few: who reads a counter, or drops it,
/// asks for their keys, and searches no range.
///
/// # Errors
/// As [`codec::encode`].
pub fn encode_head(counter: &SwarmCounter, seen: EventTime) -> Result<Vec<u8>, StoreError> {
    let stored = StoredCounter {
        tool: Cow::Borrowed(&counter.tool),
        recipe: counter.recipe.as_ref().map(StoredRecipe::of),
        floor: counter.floor.map(|floor| floor.0),
        periods: counter
            .periods
            .iter()
            .map(|(start, period)| (*start, period.epoch, period.seq, period.step, period.episode.0))
            .collect(),
        verdicts: counter.verdicts.iter().map(StoredVerdict::of).collect(),
        time: counter.time.0,
        panes_due: counter.timers.due(TimerKind::Panes).map(|due| due.0),
        verdict_due: counter.timers.due(TimerKind::SwarmVerdicts).map(|due| due.0),
        seen: seen.0,
    };
    let is_listed = counter.panes.len() <= PANES_LISTED_MAX;
    let listed: Option<Vec<i64>> = is_listed.then(|| counter.panes.keys().map(|start| start.0).collect());
    codec::append(codec::encode(migrate::newest(KeyFamily::SwarmCounter), &stored)?, &listed)
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
    let family = KeyFamily::SwarmCounter;
    let version = migrate::version(family, bytes)?;
    let (stored, rest) = codec::take::<StoredCounter<'_>>(family.as_str(), bytes.get(1..).unwrap_or_default())?;
    let (listed, rest) = if version >= 2 { codec::take::<Option<Vec<i64>>>(family.as_str(), rest)? } else { (None, rest) };
    if !rest.is_empty() {
        return Err(StoreError::Corrupt(format!("{}: {} bytes too many", family.as_str(), rest.len())));
    }
    let period = |(start, epoch, seq, step, episode)| (start, Period { epoch, seq, step, episode: CommandId(episode) });
    let counter = SwarmCounter {
        tool: stored.tool.into_owned(),
        recipe: stored.recipe.map(StoredRecipe::into_recipe),
        panes: std::collections::BTreeMap::new(),
        floor: stored.floor.map(EventTime),
        periods: stored.periods.into_iter().map(period).collect(),
        verdicts: stored.verdicts.into_iter().map(StoredVerdict::into_verdict).collect::<Result<_, _>>()?,
        time: EventTime(stored.time),
        timers: TimerTable::restored([
            (TimerKind::Panes, stored.panes_due.map(EventTime)),
            (TimerKind::SwarmVerdicts, stored.verdict_due.map(EventTime)),
        ]),
    };
    let listed = listed.map(|panes| panes.into_iter().map(EventTime).collect());
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
    };
    codec::encode(migrate::newest(KeyFamily::SwarmPane), &stored)
}

/// Reads a pane that begins at `start`.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode_pane(start: EventTime, bytes: &[u8]) -> Result<Pane, StoreError> {
    let family = KeyFamily::SwarmPane;
    let bytes = migrate::current(family, bytes)?;
    let stored: StoredPane<'_> = codec::decode(family.as_str(), migrate::newest(family), &bytes)?;
    let time = |after: i64| EventTime(start.0.wrapping_add(after));
    let agents = stored.agents.into_iter();
    let agents = agents.map(|(session, agent, calls, after)| {
        ((session.into_owned(), agent.into_owned()), Contribution { calls, last: time(after) })
    });
    let (further_calls, further_last) = stored.further.map_or((0, EventTime::default()), |(calls, after)| (calls, time(after)));
    Ok(Pane { agents: agents.collect(), further_calls, further_last })
}

/// Reads a counter with its panes; `None` where there is none.
///
/// # Errors
/// See [`StoreError`].
pub fn load(store: &impl StateStore, task: TaskId, counter: &[u8]) -> Result<Option<LoadedCounter>, StoreError> {
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
    store: &impl StateStore,
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

fn scan_panes(store: &impl StateStore, task: TaskId, counter: &[u8], visit: PaneVisitor<'_>) -> Result<(), StoreError> {
    let prefix = pane_prefix(counter);
    let mut failed = None;
    store.scan(task, KeyFamily::SwarmPane, &prefix, &prefix, &mut |key, value| {
        let start = key.last_chunk().map(|start| start_of(*start)).unwrap_or_default();
        failed = visit(start, value).err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    failed.map_or(Ok(()), Err)
}

fn start_of(bytes: [u8; 8]) -> EventTime {
    EventTime((u64::from_be_bytes(bytes) ^ (1 << 63)) as i64)
}

/// Value of a swarm's floor.
///
/// # Errors
/// As [`codec::encode`].
pub fn encode_floor(floor: &Floor) -> Result<Vec<u8>, StoreError> {
    let stored = (floor.time.0, floor.due.map(|due| due.0), floor.seen.0);
    codec::encode(migrate::newest(KeyFamily::Swarm), &stored)
}

/// Reads a swarm's floor.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode_floor(bytes: &[u8]) -> Result<Floor, StoreError> {
    let (time, due, seen) = migrate::decode_family::<(i64, Option<i64>, i64)>(KeyFamily::Swarm, bytes)?;
    Ok(Floor { time: EventTime(time), due: due.map(EventTime), seen: EventTime(seen) })
}

/// Value of the number of counters, by [`CounterKind`].
///
/// # Errors
/// As [`codec::encode`].
pub fn encode_counts(counts: [u64; 2]) -> Result<Vec<u8>, StoreError> {
    codec::encode(migrate::newest(KeyFamily::Swarm), &counts)
}

/// Reads the number of counters.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode_counts(bytes: &[u8]) -> Result<[u64; 2], StoreError> {
    migrate::decode_family(KeyFamily::Swarm, bytes)
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::{Action, Advice, IdentityRecipe, Placement, Scope, ScopeKind, Verdict};
    use loopwarden_core::event::Stage;
    use loopwarden_core::identity::Hash128;
    use loopwarden_core::policy::Detector;
    use proptest::prelude::*;

    use super::*;
    use crate::{Change, MemoryStore};

    const TASK: TaskId = TaskId { stage: Stage::Swarm, partition: 3 };

    prop_compose! {
        fn panes()(
            agents in proptest::collection::btree_map(any::<(String, String)>(), any::<(u32, i64)>(), 0..5),
            further in any::<Option<(u32, i64)>>(),
        ) -> Pane {
            let further = further.filter(|(calls, _)| *calls > 0);
            Pane {
                agents: agents.into_iter().map(|(who, (calls, last))| (who, Contribution { calls, last: EventTime(last) })).collect(),
                further_calls: further.map_or(0, |(calls, _)| calls),
                further_last: EventTime(further.map_or(0, |(_, last)| last)),
            }
        }
    }

    prop_compose! {
        fn verdicts()(id in any::<[u8; 16]>(), message in any::<String>(), only in any::<Vec<(String, String)>>(), at in any::<i64>())
            -> Verdict {
            Verdict {
                command_id: CommandId(id),
                action: Action::Nudge,
                scope: Scope {
                    kind: ScopeKind::Swarm,
                    tool: Some(message.clone()),
                    fingerprint: Some((Hash128(u128::from_be_bytes(id)), IdentityRecipe::Opaque)),
                    only,
                },
                level: 1,
                episode: CommandId(id),
                detector: Detector::SwarmRepeat,
                message,
                placement: Placement::NextTurn,
                advice: Some(Advice::ChangeApproach),
                issued_at: EventTime(at),
                expires_at: EventTime(at),
            }
        }
    }

    prop_compose! {
        fn counters()(
            tool in any::<String>(),
            args in any::<Option<Vec<String>>>(),
            panes in proptest::collection::btree_map(any::<i64>().prop_map(EventTime), panes(), 0..4),
            (floor, time, dues) in any::<(Option<i64>, i64, [Option<i64>; 2])>(),
            periods in proptest::collection::btree_map(any::<i64>(), any::<(i64, u64, u32, [u8; 16])>(), 0..3),
            verdicts in proptest::collection::vec(verdicts(), 0..3),
        ) -> SwarmCounter {
            let period = |(epoch, seq, step, episode)| Period { epoch, seq, step, episode: CommandId(episode) };
            SwarmCounter {
                tool,
                recipe: args.map(|args| IdentityRecipe::Coarse(args.into())),
                panes,
                floor: floor.map(EventTime),
                periods: periods.into_iter().map(|(start, of)| (start, period(of))).collect(),
                verdicts: verdicts.into(),
                time: EventTime(time),
                timers: TimerTable::restored(TimerKind::OF_COUNTER.into_iter().zip(dues.map(|due| due.map(EventTime)))),
            }
        }
    }

    proptest! {
        #[test]
        fn a_counter_reads_back_from_the_store(counter in counters(), seen in any::<i64>()) {
            let key = b"t\x1fw\x1f00000000000000000000000000000007";
            let mut changes = vec![Change { task: TASK, key: head_key(key), value: Some(encode_head(&counter, EventTime(seen)).unwrap()) }];
            for (start, pane) in &counter.panes {
                changes.push(Change { task: TASK, key: pane_key(key, *start), value: Some(encode_pane(*start, pane).unwrap()) });
            }
            let mut store = MemoryStore::new();
            store.commit(changes).unwrap();
            let loaded = load(&store, TASK, key).unwrap().unwrap();
            prop_assert_eq!(loaded.counter, counter);
            prop_assert_eq!(loaded.seen, EventTime(seen));
        }

        #[test]
        fn floors_and_counts_read_back(time in any::<i64>(), due in any::<Option<i64>>(), counts in any::<[u64; 2]>()) {
            let floor = Floor { time: EventTime(time), due: due.map(EventTime), seen: EventTime(time / 2) };
            prop_assert_eq!(decode_floor(&encode_floor(&floor).unwrap()).unwrap(), floor);
            prop_assert_eq!(decode_counts(&encode_counts(counts).unwrap()).unwrap(), counts);
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(version) = bytes.first_mut() {
                *version = 1;
            }
            let _ = (decode_head(&bytes), decode_pane(EventTime(0), &bytes), decode_floor(&bytes), decode_counts(&bytes));
        }

        #[test]
        fn the_longest_unseen_sorts_first(a in any::<i64>(), b in any::<i64>(), subject in proptest::collection::vec(any::<u8>(), 0..5)) {
            let [first, second] = [a, b].map(|seen| seen_key(CounterKind::Swarm, EventTime(seen), &subject));
            prop_assert_eq!(first.cmp(&second), a.cmp(&b));
            prop_assert!(first < seen_key(CounterKind::Fleet, EventTime(i64::MIN), &[]));
            prop_assert_eq!(seen_subject(&first), &subject[..]);
        }
    }

    #[test]
    fn a_counter_whose_name_begins_like_another_has_panes_of_its_own() {
        let mut store = MemoryStore::new();
        let pane = Pane { further_calls: 1, ..Pane::default() };
        let (short, long) = (b"\x1fw\x1f07", b"\x1fw\x1f079");
        let mut changes = Vec::new();
        for (key, panes) in [(&short[..], 0), (&long[..], 1)] {
            let panes = (0..panes).map(|_| (EventTime(5), pane.clone())).collect();
            let counter = SwarmCounter { panes, ..SwarmCounter::default() };
            changes.push(Change { task: TASK, key: head_key(key), value: Some(encode_head(&counter, EventTime(0)).unwrap()) });
        }
        changes.push(Change {
            task: TASK,
            key: pane_key(long, EventTime(5)),
            value: Some(encode_pane(EventTime(5), &pane).unwrap()),
        });
        store.commit(changes).unwrap();
        assert!(load(&store, TASK, short).unwrap().unwrap().counter.panes.is_empty());
        assert_eq!(load(&store, TASK, long).unwrap().unwrap().counter.panes.len(), 1);
    }

    #[test]
    fn a_head_that_lists_no_panes_has_those_that_lie_behind_it() {
        // As format 1 wrote it, and as one with many panes is written.
        let pane = Pane { further_calls: 1, ..Pane::default() };
        for panes in [1, PANES_LISTED_MAX as i64 + 1] {
            let mut store = MemoryStore::new();
            let key = b"\x1fw\x1f07";
            let all = (0..panes).map(|start| (EventTime(start), pane.clone())).collect();
            let counter = SwarmCounter { panes: all, ..SwarmCounter::default() };
            let mut head = encode_head(&counter, EventTime(0)).unwrap();
            if panes == 1 {
                head.truncate(encode_head(&SwarmCounter::default(), EventTime(0)).unwrap().len() - 2);
                head[0] = 1;
            }
            let mut changes = vec![Change { task: TASK, key: head_key(key), value: Some(head) }];
            changes.extend(counter.panes.iter().map(|(start, pane)| Change {
                task: TASK,
                key: pane_key(key, *start),
                value: Some(encode_pane(*start, pane).unwrap()),
            }));
            store.commit(changes).unwrap();
            assert_eq!(load(&store, TASK, key).unwrap().unwrap().counter, counter);
            let (_, starts) = load_head(&store, TASK, key).unwrap().unwrap();
            assert_eq!(starts.len() as i64, panes);
        }
    }

    #[test]
    fn a_small_report_writes_few_bytes() {
        // One agent's call in a pane of a counter that has published nothing: what most commits write.
        let who = ("sess-0123456789abcdef".to_owned(), "main".to_owned());
        let start = EventTime(1_795_291_200_000);
        let made = Contribution { calls: 3, last: start.plus_ms(1_000) };
        let pane = Pane { agents: [(who, made)].into(), ..Pane::default() };
        let counter = SwarmCounter {
            tool: "read_file".to_owned(),
            recipe: Some(IdentityRecipe::Opaque),
            timers: TimerTable::restored([(TimerKind::Panes, Some(start))]),
            time: start,
            ..SwarmCounter::default()
        };
        let (head, pane) = (encode_head(&counter, start).unwrap().len(), encode_pane(start, &pane).unwrap().len());
        assert!(head <= 40 && pane <= 34, "{head} {pane}");
    }
}
