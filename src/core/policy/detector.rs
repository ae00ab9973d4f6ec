//! The closed list of detectors, by the names that policies, commands and metrics use.

/// A detector (page `detection`). The numbers are stored in steps and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Detector {
    /// Same call, again and again.
    ExactRepeat = 0,
    /// Same target.
    NearRepeat = 1,
    /// Same answer to the same call.
    OutcomeRepeat = 2,
    /// Same description and output, anywhere in a window.
    StateRepeat = 3,
    /// Variations of one idea.
    SemanticRepeat = 4,
    /// Two to four tools in turn.
    Oscillation = 5,
    /// The same error comes back.
    DeadEnd = 6,
    /// Seen approach, seen outcome.
    Stagnation = 7,
    /// New approach, seen outcome.
    Stuck = 8,
    /// Too many equal calls in a time window.
    CallRate = 9,
    /// The same for a whole fleet.
    FleetRate = 10,
    /// Test runs failing in a row.
    TestFix = 11,
    /// Shell commands failing in a row.
    ShellFailures = 12,
    /// Text turns without a call.
    TextOnly = 13,
    /// Reading without ever editing.
    Exploration = 14,
    /// One call all over a swarm.
    SwarmRepeat = 15,
}

impl Detector {
    /// How many there are.
    pub const COUNT: usize = 16;

    /// All of them, by number.
    pub const ALL: [Self; Self::COUNT] = [
        Self::ExactRepeat,
        Self::NearRepeat,
        Self::OutcomeRepeat,
        Self::StateRepeat,
        Self::SemanticRepeat,
        Self::Oscillation,
        Self::DeadEnd,
        Self::Stagnation,
        Self::Stuck,
        Self::CallRate,
        Self::FleetRate,
        Self::TestFix,
        Self::ShellFailures,
        Self::TextOnly,
        Self::Exploration,
        Self::SwarmRepeat,
    ];

    /// The name in policies, commands (`reason.code`) and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ExactRepeat => "exact_repeat",
            Self::NearRepeat => "near_repeat",
            Self::OutcomeRepeat => "outcome_repeat",
            Self::StateRepeat => "state_repeat",
            Self::SemanticRepeat => "semantic_repeat",
            Self::Oscillation => "oscillation",
            Self::DeadEnd => "dead_end",
            Self::Stagnation => "stagnation",
            Self::Stuck => "stuck",
            Self::CallRate => "call_rate",
            Self::FleetRate => "fleet_rate",
            Self::TestFix => "test_fix",
            Self::ShellFailures => "shell_failures",
            Self::TextOnly => "text_only",
            Self::Exploration => "exploration",
            Self::SwarmRepeat => "swarm_repeat",
        }
    }

    /// The detector of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|detector| detector.as_str() == name)
    }

    /// The detector with that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its number, as stored.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its bit in a set of detectors.
    #[must_use]
    pub const fn bit(self) -> u16 {
        1 << (self as u8)
    }
}

/// What a detector may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Mode {
    /// Nothing; it does not run.
    #[default]
    Off,
    /// It decides, and its commands are published as shadow.
    Shadow,
    /// It nudges.
    Nudge,
    /// It nudges, then blocks.
    Block,
}

impl Mode {
    /// The name in policies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::Nudge => "nudge",
            Self::Block => "block",
        }
    }

    /// Whether the detector runs at all.
    #[must_use]
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }
}
