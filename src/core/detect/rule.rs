//! What every detector says about itself. The registry asks these questions; the answers stand in the detector's own file.

use crate::detect::words::{Said, Words};
use crate::setting::{BlockScope, Needs, Shared};

/// A detector, for people and for the parts of the program that treat detectors alike.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// What it looks for, in one line.
    pub title: &'static str,
    /// When it has a finding. Markdown.
    pub rule: &'static str,
    /// A session in which it speaks. Markdown.
    pub example: &'static str,
    /// When it has none although one might expect it. Markdown, one item each.
    pub silent: &'static [&'static str],
    /// One call is repeated, and a nudge names it; else a nudge is about the agent.
    pub repeats_call: bool,
    /// A nudge is appended to the result of the call; else it waits for the agent's next turn.
    pub on_result: bool,
    /// Other steps may lie between those that it counts.
    pub looks_through: bool,
    /// Key of the number that `inspect --thresholds` varies; `None` for detectors of more than one session.
    pub swept: Option<&'static str>,
}

impl About {
    /// A detector of the whole agent, whose threshold is swept. Texts are to be filled in.
    pub const AGENT: Self = Self {
        title: "",
        rule: "",
        example: "",
        silent: &[],
        repeats_call: false,
        on_result: false,
        looks_through: false,
        swept: Some("threshold"),
    };

    /// The same for a detector of one repeated call.
    pub const CALL: Self = Self { repeats_call: true, ..Self::AGENT };
}

/// The settings of a detector answer for it.
pub(crate) trait Rule {
    /// The detector, for people.
    const ABOUT: About;

    /// Count of a finding, before factors of tools.
    fn threshold(&self) -> u32;

    /// Count of a block by this detector alone, before factors of tools: 0 = never, `None` = it has no such setting.
    fn block_at(&self) -> Option<u32> {
        None
    }

    /// What its block covers.
    fn block_scope(&self) -> BlockScope {
        BlockScope::Session
    }

    /// What it reads of each step while it runs.
    fn needs(&self, policy: &Shared) -> Needs;

    /// What is said about a finding.
    fn words(&self, words: &Words<'_>) -> Said;
}
