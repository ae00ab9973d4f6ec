//! One detector per file, all reading the one bounded [`History`]. `observe` functions answer with at most one [`Finding`].
//!
//! A new detector is a file with its `Settings` and what [`About`] asks, one line in the list below, and its call. Everything else that treats
//! detectors alike follows from the list.

/// The list of detectors: number, name of the module and of everything outside.
macro_rules! detectors {
    ($with:ident) => {
        $with! {
            ExactRepeat = 0, exact_repeat;
            NearRepeat = 1, near_repeat;
            OutcomeRepeat = 2, outcome_repeat;
            StateRepeat = 3, state_repeat;
            SemanticRepeat = 4, semantic_repeat;
            Oscillation = 5, oscillation;
            DeadEnd = 6, dead_end;
            Stagnation = 7, stagnation;
            Stuck = 8, stuck;
            CallRate = 9, call_rate;
            FleetRate = 10, fleet_rate;
            TestFix = 11, test_fix;
            ShellFailures = 12, shell_failures;
            TextOnly = 13, text_only;
            Exploration = 14, exploration;
            SwarmRepeat = 15, swarm_repeat;
            SimilarRepeat = 16, similar_repeat;
            NoNews = 17, no_news;
            SimilarFailures = 18, similar_failures;
            OwnWords = 19, own_words;
            Cycle = 20, cycle;
            Budget = 21, budget;
            Tree = 22, tree;
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
/// Rules of the systems that loopwarden reproduces, and what only they look at. The default policy runs none of them.
pub mod reference {
    pub mod category;
    pub mod dead_end;
    pub mod exact_repeat;
    pub mod exploration;
    pub mod fleet_rate;
    pub mod near_repeat;
    pub mod oscillation;
    pub mod outcome_repeat;
    pub mod progress_matrix;
    pub mod semantic_repeat;
    pub mod shell_failures;
    pub mod stagnation;
    pub mod state_repeat;
    pub mod stuck;
    pub mod test_fix;
}
mod registry;
mod rule;
pub mod similar_failures;
pub mod similar_repeat;
/// What a session remembers of its steps: one ring, bounded, and what is found in it without a search.
pub mod steps {
    pub mod evidence;
    pub mod facts;
    pub mod history;
    pub mod index;
    pub mod names;
    pub mod remembered;
    pub mod step;
    pub mod tally;
}
pub mod streaks;
pub mod swarm_repeat;
mod text;
pub mod text_only;
pub mod tree;
/// The sequential test: what a step shows, what it weighs, and the sum (page `detection`).
pub mod weights {
    pub mod in_vain;
    pub mod measure;
    pub mod news;
    pub mod score;
}

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
pub use reference::exploration::Explored;
pub use reference::outcome_repeat::OutcomeRun;
pub use reference::progress_matrix::Matrix;
pub use registry::Detectors;
pub use rule::{About, CountSettings};
pub use steps::evidence::{Evidence, Hashed, Marks};
pub use steps::facts::{Fact, Facts, Side};
pub use steps::history::History;
pub use steps::index::FingerprintIndex;
pub use steps::names::{ToolId, ToolNames};
pub use steps::step::{CountedAs, Flags, Step};
pub use steps::tally::{Run, Tally};
pub use streaks::Streaks;
pub use text::{Advice, CommandText, TextContext, safe};
pub use text_only::Texts;
pub use tree::Brief;
pub use weights::in_vain::brought_nothing;
pub use weights::measure::{Measured, Waiting};
pub use weights::score::{Score, Weights, decimal};
