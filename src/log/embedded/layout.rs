//! Keys of the embedded log in the database. The bytes are reserved for ever.
//!
//! | area | key | value |
//! |---|---|---|
//! | `Events` | stage, partition (4), offset (8) | record |
//! | `Outputs` | feed, sequence (8) | record |
//! | `Outputs` | `0x80`, key of the row | record: the verdicts in force for a subject |
//! | `Meta` | `layout` | version, partitions (4) |
//! | `Meta` | `i`, stage, partition (4) | extent of an input: four numbers of 8 bytes |
//! | `Meta` | `f`, feed | extent of a feed |
//! | `Meta` | `p`, stage, partition (4) | committed offset (8) |
//! | `Meta` | `clock` | the time that is believed, how far the wall clock is ahead, and for how long: three numbers of 8 bytes |
//!
//! Numbers are big endian, so that key order is the order of the log.

use loopwarden_core::event::TaskId;
use loopwarden_state::{Area, RocksBatch, RocksStore, task_of, task_prefix};

use crate::LogError;
use crate::embedded::scan::{corrupt, fatal, scan};
use crate::embedded::shared::{Extent, Feed, Writer};

const LAYOUT: &[u8] = b"layout";
const LAYOUT_VERSION: u8 = 1;
/// Where the clock is kept that says how old a record is.
pub(super) const CLOCK: &[u8] = b"clock";
const INPUT: u8 = b'i';
const FEED: u8 = b'f';
const POSITION: u8 = b'p';
/// First byte of state rows among the outputs. Feeds stay below.
const ROW: u8 = 0x80;

/// Key of an input record.
pub(super) fn event_key(task: TaskId, offset: u64) -> [u8; 13] {
    let mut key = [0; 13];
    let (head, tail) = key.split_at_mut(5);
    head.copy_from_slice(&task_prefix(task));
    tail.copy_from_slice(&offset.to_be_bytes());
    key
}

/// Key of an output record.
pub(super) fn output_key(feed: Feed, sequence: u64) -> [u8; 9] {
    let mut key = [feed as u8; 9];
    let (_, tail) = key.split_at_mut(1);
    tail.copy_from_slice(&sequence.to_be_bytes());
    key
}

/// Key of a state row.
pub(super) fn row_key(key: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(1 + key.len());
    row.push(ROW);
    row.extend_from_slice(key);
    row
}

/// The number that an event or output key ends with.
pub(super) fn number_of(key: &[u8]) -> Option<u64> {
    key.last_chunk().map(|tail| u64::from_be_bytes(*tail))
}

fn task_key(kind: u8, task: TaskId) -> [u8; 6] {
    let mut key = [kind; 6];
    let (_, tail) = key.split_at_mut(1);
    tail.copy_from_slice(&task_prefix(task));
    key
}

pub(super) fn put_input(batch: &mut RocksBatch, task: TaskId, extent: &Extent) {
    batch.put(Area::Meta, &task_key(INPUT, task), &encode(extent));
}

pub(super) fn put_feed(batch: &mut RocksBatch, feed: Feed, extent: &Extent) {
    batch.put(Area::Meta, &[FEED, feed as u8], &encode(extent));
}

pub(super) fn put_offset(batch: &mut RocksBatch, task: TaskId, next: u64) {
    batch.put(Area::Meta, &task_key(POSITION, task), &next.to_be_bytes());
}

fn encode(extent: &Extent) -> [u8; 32] {
    let mut bytes = [0; 32];
    let numbers = [extent.start, extent.next, extent.appended_bytes, extent.removed_bytes];
    for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
        *place = number.to_be_bytes();
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Extent> {
    let (numbers, []) = bytes.as_chunks::<8>() else { return None };
    let [start, next, appended_bytes, removed_bytes] = *numbers.first_chunk::<4>()?;
    let number = u64::from_be_bytes;
    Some(Extent {
        start: number(start),
        next: number(next),
        appended_bytes: number(appended_bytes),
        removed_bytes: number(removed_bytes),
    })
}

/// Reads what the database knows of the log; writes the layout into a new one.
pub(super) fn load(store: &RocksStore, partitions: u32) -> Result<Writer, LogError> {
    claim(store, partitions)?;
    let mut writer = Writer::default();
    let mut read = |key: &[u8], value: &[u8]| -> Option<()> {
        match key.split_first()? {
            (&INPUT, task) => drop(writer.inputs.insert(task_of(task)?, decode(value)?)),
            (&FEED, [feed]) => {
                let feed = Feed::ALL.into_iter().find(|known| *known as u8 == *feed)?;
                writer.feeds.insert(feed, decode(value)?);
            }
            (&POSITION, task) => drop(writer.offsets.insert(task_of(task)?, u64::from_be_bytes(*value.first_chunk()?))),
            _ => return None,
        }
        Some(())
    };
    for kind in [INPUT, FEED, POSITION] {
        scan(store, Area::Meta, &[kind], &[kind + 1], &mut |key, value| {
            read(key, value).ok_or_else(|| corrupt("unreadable bookkeeping of the embedded log"))?;
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
    }
    Ok(writer)
}

fn claim(store: &RocksStore, partitions: u32) -> Result<(), LogError> {
    let mut ours = vec![LAYOUT_VERSION];
    ours.extend_from_slice(&partitions.to_be_bytes());
    let found = store.get_raw(Area::Meta, LAYOUT).map_err(fatal)?;
    match found.as_deref() {
        None => {
            let mut batch = store.batch();
            batch.put(Area::Meta, LAYOUT, &ours);
            store.write(batch).map_err(fatal)
        }
        Some(found) if found == ours => Ok(()),
        Some([LAYOUT_VERSION, count @ ..]) => {
            let count = count.first_chunk().map_or(0, |count| u32::from_be_bytes(*count));
            let message = format!(
                "the log in {} was made with {count} partitions, {partitions} are configured; sessions would move: set {count}, or another data_dir",
                store.dir().display()
            );
            Err(LogError::Fatal { code: "E0701", message })
        }
        Some([version, ..]) if *version > LAYOUT_VERSION => {
            let message = format!("the log in {} has layout {version}; run the newer version", store.dir().display());
            Err(LogError::Fatal { code: "E0402", message })
        }
        Some(_) => Err(corrupt("unreadable layout of the embedded log")),
    }
}
