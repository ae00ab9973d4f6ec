//! One detector per file, all reading the one bounded [`History`]. `observe` functions answer with at most one [`Finding`].
//!
//! A new detector is a file with its `Settings` and what [`About`] asks, one line in the list below, and its call. Everything else that treats
//! detectors alike follows from the list.

/// The list of detectors: number, name of the module and of everything outside.
macro_rules! detectors {
    ($with:ident) => {
        $with! {
            /// Same call, again and again.
            ExactRepeat = 0, exact_repeat;
            /// Same target.
            NearRepeat = 1, near_repeat;
            /// Same answer to the same call.
            OutcomeRepeat = 2, outcome_repeat;
            /// Same description and output, anywhere in a window.
            StateRepeat = 3, state_repeat;
            /// Variations of one idea.
            SemanticRepeat = 4, semantic_repeat;
            /// Two to four tools in turn.
            Oscillation = 5, oscillation;
            /// The same error comes back.
            DeadEnd = 6, dead_end;
            /// Seen approach, seen outcome.
            Stagnation = 7, stagnation;
            /// New approach, seen outcome.
            Stuck = 8, stuck;
            /// Too many equal calls in a time window.
            CallRate = 9, call_rate;
            /// The same for a whole fleet.
            FleetRate = 10, fleet_rate;
            /// Test runs failing in a row.
            TestFix = 11, test_fix;
            /// Shell commands failing in a row.
            ShellFailures = 12, shell_failures;
            /// Text turns without a call.
            TextOnly = 13, text_only;
            /// Reading without ever editing.
            Exploration = 14, exploration;
            /// One call all over a swarm.
            SwarmRepeat = 15, swarm_repeat;
            /// Similar calls, similar answers.
            SimilarRepeat = 16, similar_repeat;
            /// Nothing new.
            NoNews = 17, no_news;
            /// Failures alike.
            SimilarFailures = 18, similar_failures;
            /// The agent's own words.
            OwnWords = 19, own_words;
            /// Calls in turn, answers unknown.
            Cycle = 20, cycle;
            /// What a session may use.
            Budget = 21, budget;
        }
    };
}

pub mod budget;
pub mod call_rate;
pub mod cycle;
mod detector;
pub mod finding;
pub mod no_news;
pub mod own_words;
pub mod reference;
mod registry;
mod rule;
pub mod similar_failures;
pub mod similar_repeat;
pub mod steps;
pub mod swarm_repeat;
pub mod text_only;
pub mod weights;
mod words;

// The list finds every detector here, in whichever room it stands.
use reference::{
    dead_end, exact_repeat, exploration, fleet_rate, near_repeat, oscillation, outcome_repeat, semantic_repeat, shell_failures,
    stagnation, state_repeat, stuck, test_fix,
};

pub use budget::Spent;
pub use detector::{Detector, DetectorBits};
pub use finding::{Family, Finding, Quantity, evidence_identity, halves, loop_identity, repeat_identity};
pub use own_words::OwnTexts;
pub use reference::category::Category;
pub use reference::exact_repeat::Run;
pub use reference::exploration::Explored;
pub use reference::outcome_repeat::OutcomeRun;
pub use reference::progress_matrix::Matrix;
pub use reference::row::Row;
pub use registry::Detectors;
pub use rule::About;
pub use steps::history::History;
pub use steps::index::FingerprintIndex;
pub use steps::names::{ToolId, ToolNames};
pub use steps::step::{CountedAs, Flags, Step};
pub use steps::streaks::Streaks;
pub use text_only::Texts;
pub use weights::evidence::{Evidence, Hashed, Marks};
pub use weights::facts::{Fact, Facts, Side};
pub use weights::in_vain::brought_nothing;
pub use weights::measure::{Measured, Waiting};
pub use weights::score::{Score, Weights, decimal};
pub use words::{Advice, Said, Words, safe};
