//! Logs of agents, followed while they grow: the events of what was written since the last look.
//!
//! - What is there when a directory is followed for the first time counts as read. A log that appears later is read from its start.
//! - A log of lines is read on where it ended. Its [`ReadPosition`] is a number of bytes, so nothing is read of a log that has not grown.
//! - A document is written anew as a whole. It is read anew, and its events that were there before are left out.
//! - Positions go to whoever keeps them only with the events before them. After a kill a few events come twice, with equal ids.
//! - A look is bounded: `LOOK_BYTES` of new lines, `WARM_MAX` logs whose state is kept in memory.

mod document;
mod lines;
mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub use lines::ReadPosition;
use log::FollowedLog;
use loopwarden_sources::transcript::{Format, Made};
use serde::{Deserialize, Serialize};

use crate::file::folder;

/// What one look reads of new lines. Bytes; it may exceed that by a document, or by what it reads once more.
const LOOK_BYTES: usize = 16 << 20;
/// Logs whose state stays in memory. One of another is read again from its start when it grows.
const WARM_MAX: usize = 128;

/// How far everything is read, as it is kept between two processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPositions {
    pub dirs: BTreeSet<String>,
    /// Logs below them, by the path of their first file.
    pub logs: BTreeMap<String, ReadPosition>,
}

#[derive(Debug)]
pub struct Follower {
    dirs: Vec<PathBuf>,
    logs: BTreeMap<PathBuf, FollowedLog>,
    /// Directories in which an unknown log is a new one. In all others it was there before.
    known_dirs: BTreeSet<PathBuf>,
    /// Where logs of an earlier process ended, until they are found again.
    known: BTreeMap<String, ReadPosition>,
    looks: u64,
    /// Directories that could not be read at the last look.
    unreadable: BTreeSet<PathBuf>,
}

/// What a look came to.
#[derive(Debug, Default)]
pub struct Look {
    /// In the order of their times, as far as one look sees them.
    pub events: Vec<Made>,
    /// More is there to be read at once.
    pub is_more: bool,
    /// What could not be read, for people.
    pub told: Vec<String>,
}

impl Follower {
    /// Follows these directories, from where an earlier process ended. One that it did not follow is new.
    pub fn new(dirs: &[PathBuf], mut known: ReadPositions) -> Self {
        let is_followed = |path: &str| dirs.iter().any(|dir| Path::new(path).starts_with(dir));
        known.logs.retain(|path, _| is_followed(path));
        let known_dirs = dirs.iter().filter(|dir| known.dirs.contains(&*dir.to_string_lossy())).cloned().collect();
        Self { dirs: dirs.to_vec(), logs: BTreeMap::new(), known_dirs, known: known.logs, looks: 0, unreadable: BTreeSet::new() }
    }

    /// Reads what was written since the last look.
    pub fn look(&mut self) -> Look {
        self.looks += 1;
        let mut look = Look::default();
        let mut found = BTreeSet::new();
        let (mut events, mut bytes) = (Vec::new(), 0);
        for dir in self.dirs.clone() {
            // One that was not followed before is read from where it ends now.
            let is_new_dir = self.known_dirs.insert(dir.clone());
            let groups = match folder::below(&dir) {
                Ok(groups) => groups,
                Err(error) => {
                    if self.unreadable.insert(dir.clone()) {
                        look.told.push(format!("cannot read {}: {error}", dir.display()));
                    }
                    // It is as new at the next look.
                    if is_new_dir {
                        self.known_dirs.remove(&dir);
                    }
                    found.extend(self.logs.keys().filter(|log| log.starts_with(&dir)).cloned());
                    continue;
                }
            };
            self.unreadable.remove(&dir);
            for files in groups {
                let Some(first) = files.first().cloned() else { continue };
                found.insert(first.clone());
                let known = self.known.remove(&*first.to_string_lossy());
                let was_there = is_new_dir && known.is_none() && !self.logs.contains_key(&first);
                let log = self.logs.entry(first).or_insert_with(|| FollowedLog::new(known));
                if was_there {
                    log.pass(&files, &mut look.told);
                } else if bytes < LOOK_BYTES {
                    let (taken, is_more) = log.read(&files, self.looks, LOOK_BYTES - bytes, &mut events, &mut look.told);
                    bytes += taken;
                    look.is_more |= is_more;
                } else {
                    look.is_more = true;
                }
            }
        }
        self.logs.retain(|path, _| found.contains(path));
        // What a directory that is away for a while has may come back.
        self.known.retain(|path, _| self.unreadable.iter().any(|dir| Path::new(path).starts_with(dir)));
        self.cool();
        // Stable: what a log has at one time stays in its order.
        events.sort_by_key(|(time, _)| *time);
        look.events = events.into_iter().map(|(_, made)| made).collect();
        look
    }

    /// How far everything is read; to be kept once the events of all looks so far are.
    pub fn places(&self) -> ReadPositions {
        let place = |(path, log): (&PathBuf, &FollowedLog)| Some((path.to_string_lossy().into_owned(), log.place()?));
        let name = |dir: &PathBuf| dir.to_string_lossy().into_owned();
        let mut logs = self.known.clone();
        logs.extend(self.logs.iter().filter_map(place));
        ReadPositions { dirs: self.known_dirs.iter().map(name).collect(), logs }
    }

    /// How many logs are followed, by their format.
    pub fn followed(&self) -> BTreeMap<Format, usize> {
        let mut counts = BTreeMap::new();
        for format in self.logs.values().filter_map(FollowedLog::format) {
            *counts.entry(format).or_default() += 1;
        }
        counts
    }

    /// Gives back the state of logs that have not grown for longest.
    fn cool(&mut self) {
        let mut warm: Vec<&mut FollowedLog> = self.logs.values_mut().filter(|log| log.warm_since().is_some()).collect();
        if warm.len() > WARM_MAX {
            warm.sort_by_key(|log| std::cmp::Reverse(log.warm_since()));
            warm.into_iter().skip(WARM_MAX).for_each(FollowedLog::cool);
        }
    }
}
