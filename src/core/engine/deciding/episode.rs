//! Episodes: one unbroken stretch of looping, and what was published about it (page `detection`).

use crate::detect::Finding;
use crate::engine::command::CommandId;
use crate::event::EventTime;
use crate::identity::Hash64;
use crate::policy::{Detector, Mode};

/// Findings of shadow detectors have episodes of their own, and never displace a live one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Track {
    /// What is published as a command that counts.
    Live,
    /// What is published as a shadow command.
    Shadow,
}

impl Track {
    /// The track of a finding.
    pub const fn of(finding: &Finding) -> Self {
        match finding.mode {
            Mode::Shadow => Self::Shadow,
            _ => Self::Live,
        }
    }
}

/// What is remembered of a loop that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Episode {
    /// Loop identity: two detectors that see one loop share its episode.
    pub identity: Hash64,
    /// Detector of the last command.
    pub detector: Detector,
    /// Count of the finding that the last command was about.
    pub count: u32,
    /// Tier of the last command.
    pub tier: u8,
    /// Number of nudges so far.
    pub nudges: u32,
    /// Steps with a current finding since the last command.
    pub hits_since_nudge: u32,
    /// Sequence of the last step with a finding; of evidence, also that of the newest step that had begun when it was published.
    pub last_seen: u64,
    /// Until when its block holds; `None` = never blocked.
    pub block_until: Option<EventTime>,
    /// Level of the last command.
    pub level: u8,
    /// Id of its first command: the episode's name.
    pub id: CommandId,
    /// Begun in the control arm of a trial: the agent knows nothing of it.
    pub is_control: bool,
    /// When its first command was issued.
    pub begun: EventTime,
    /// Until when its last command holds.
    pub until: EventTime,
}
