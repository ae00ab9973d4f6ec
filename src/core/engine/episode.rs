//! Episodes: one unbroken stretch of looping, and what its agent was told (page `detection`).

use crate::engine::command::CommandId;
use crate::event::EventTime;
use crate::identity::Hash64;
use crate::policy::Detector;

/// What is remembered of a loop that was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Episode {
    /// Loop identity: two detectors that see one loop share its episode.
    pub identity: Hash64,
    /// Detector of the last command.
    pub detector: Detector,
    /// Its count.
    pub count: u32,
    /// Its tier.
    pub tier: u8,
    /// Nudges so far.
    pub nudges: u32,
    /// Steps with a fresh finding since the last command.
    pub hits: u32,
    /// Sequence of the last step with a finding.
    pub last_seen: u64,
    /// Until when its block holds; `None` = never blocked.
    pub block_until: Option<EventTime>,
    /// Level of the last command.
    pub level: u8,
    /// Id of its first command: the episode's name.
    pub id: CommandId,
}
