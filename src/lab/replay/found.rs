//! What a replay came to.

use std::time::Duration;

use loopwarden_lane::Stats;
use loopwarden_log::LogError;

use crate::{report::stats::ReplayStats, report::summary::Rejection};

/// What a replay came to.
pub struct Found {
    /// Lines that are no events, the first of them.
    pub rejections: Vec<Rejection>,
    /// Pieces of logs of agents that could not be read.
    pub refused: u64,
    /// Files of directories that are no logs.
    pub skipped: u64,
    /// What the lanes counted.
    pub stats: Stats,
    /// What was entered while it ran.
    pub replay: ReplayStats,
    /// It ended before its input did: somebody asked for it, `--strict` did, or the input is damaged.
    pub is_partial: bool,
    /// Why the input could not be read to its end.
    pub damaged: Option<LogError>,
    pub elapsed: Duration,
}

impl Found {
    pub fn rejected(&self) -> u64 {
        self.stats.rejected.iter().sum::<u64>() + self.refused
    }

    pub fn events(&self) -> u64 {
        self.stats.events.iter().sum()
    }
}
