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
mod category;
pub mod cycle;
pub mod dead_end;
mod detector;
pub mod evidence;
pub mod exact_repeat;
pub mod exploration;
mod facts;
pub mod finding;
pub mod fleet_rate;
mod history;
mod in_vain;
mod index;
pub mod measure;
mod names;
pub mod near_repeat;
pub mod news;
pub mod no_news;
pub mod oscillation;
pub mod outcome_repeat;
pub mod own_words;
mod pace;
pub mod progress_matrix;
mod registry;
mod row;
mod rule;
pub mod score;
pub mod semantic_repeat;
pub mod shell_failures;
pub mod similar_failures;
pub mod similar_repeat;
pub mod stagnation;
pub mod state_repeat;
mod step;
mod streaks;
pub mod stuck;
pub mod swarm_repeat;
pub mod test_fix;
pub mod text_only;
mod words;

pub use budget::Spent;
pub use category::Category;
pub use detector::{Detector, DetectorBits};
pub use evidence::{Evidence, Hashed, Marks};
pub use exact_repeat::Run;
pub use exploration::Explored;
pub use facts::{Fact, Facts, Side};
pub use finding::{Family, Finding, Quantity, evidence_identity, halves, loop_identity, repeat_identity};
pub use history::History;
pub use in_vain::brought_nothing;
pub use index::FingerprintIndex;
pub use measure::{Measured, Waiting};
pub use names::{ToolId, ToolNames};
pub use outcome_repeat::OutcomeRun;
pub use own_words::OwnTexts;
pub use progress_matrix::Matrix;
pub use registry::Detectors;
pub use row::Row;
pub use rule::About;
pub use score::{Score, Weights, decimal};
pub use step::{CountedAs, Flags, Step};
pub use streaks::Streaks;
pub use text_only::Texts;
pub use words::{Advice, Said, Words, safe};
