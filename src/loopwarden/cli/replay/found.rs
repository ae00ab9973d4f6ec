//! What a replay came to.

use std::time::Duration;

use loopwarden_lab::report::stats::ReplayStats;
use loopwarden_lab::report::summary::Rejection;
use loopwarden_lane::Stats;
use loopwarden_log::LogError;

/// What a replay came to.
pub(crate) struct Found {
    pub(crate) rejections: Vec<Rejection>,
    /// Pieces of logs of agents that could not be read.
    pub(crate) refused: u64,
    /// Files of directories that are no logs.
    pub(crate) skipped: u64,
    pub(crate) stats: Stats,
    /// What was entered while it ran.
    pub(crate) replay: ReplayStats,
    /// It ended before its input did: somebody asked for it, `--strict` did, or the input is damaged.
    pub(crate) is_partial: bool,
    /// Why the input could not be read to its end.
    pub(crate) damaged: Option<LogError>,
    pub(crate) elapsed: Duration,
}
