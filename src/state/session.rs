//! Sessions: keys of their heads, loading a whole one (head and ring), and what the store lacks of it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use loopwarden_core::detect::{History, Step};
use loopwarden_core::engine::{Head, Session, SubjectKey};
use loopwarden_core::event::TaskId;

use crate::board::corrupt;
use crate::head::StoredHead;
use crate::ring::StoredRing;
use crate::{Change, KeyFamily, StateKey, StateStore, StoreError, codec, step, try_scan};

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
        try_scan(store, task, KeyFamily::Page, &prefix, &prefix, |key, value| {
            let Some(page) = step::page_in(key, &prefix) else { return Ok(ControlFlow::Continue(())) };
            let found = step::decode_page(page, value)?;
            if found.iter().any(|(slot, ..)| stored.is_open(*slot)) {
                return Err(StoreError::Corrupt("page: a step that lies in the head".to_owned()));
            }
            place(found);
            Ok(ControlFlow::Continue(()))
        })?;
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

/// Bytes of a head, with the steps in its open slots.
///
/// # Errors
/// As [`codec::encode`].
pub fn encode_head<'a>(
    head: &Head,
    ring: &StoredRing,
    open: impl Iterator<Item = (u16, &'a Step, &'a str)>,
) -> Result<Vec<u8>, StoreError> {
    step::append(codec::append(step::begin(), &StoredHead::of(head, ring))?, open)
}

/// Reads a head and what the store holds of its ring; the steps in it are left alone.
///
/// # Errors
/// As [`codec::decode`]; also for numbers that mean nothing.
pub fn decode_head(bytes: &[u8]) -> Result<(Head, StoredRing), StoreError> {
    take_head(bytes).map(|(head, ring, _)| (head, ring))
}

/// The same with the steps that lie in it.
///
/// # Errors
/// As [`decode_head`].
pub fn decode_whole_head(bytes: &[u8]) -> Result<(Head, StoredRing, Vec<step::FoundStep>), StoreError> {
    let (head, ring, rest) = take_head(bytes)?;
    let open = step::read(ring.open_group().map_or(0, step::page_of_group), rest)?;
    if open.iter().any(|(slot, ..)| !ring.is_open(*slot)) {
        return Err(corrupt("a step that lies in a page"));
    }
    Ok((head, ring, open))
}

/// Head, ring, and the bytes of steps behind them.
fn take_head(bytes: &[u8]) -> Result<(Head, StoredRing, &[u8]), StoreError> {
    let name = KeyFamily::Head.as_str();
    let (stored, rest) = codec::take::<StoredHead<'_>>(name, codec::body(name, bytes)?)?;
    let (head, ring) = stored.into_head()?;
    Ok((head, ring, rest))
}

#[cfg(test)]
mod tests;
