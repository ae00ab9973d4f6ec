//! What every detector has in its own file, and the registry asks for: what it looks for, its common settings, what it reads, its texts.

use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, finding::Finding, steps::step::Step, steps::tally::Tally};
use crate::identity::Hash64;
use crate::setting::{BlockScope, Mode, Needs, SharedSettings, ToolPolicy};

/// A detector, for people and for the parts of the program that treat detectors alike.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// What it looks for, in one line.
    pub title: &'static str,
    /// When it has a finding. Markdown.
    pub rule: &'static str,
    /// A session in which it has one. Markdown.
    pub example: &'static str,
    /// When it has none although one might expect it. Markdown, one item each.
    pub silent: &'static [&'static str],
    /// One call is repeated, and a nudge names it; else a nudge is about the agent.
    pub repeats_call: bool,
    /// A nudge is appended to the result of the call; else it waits for the agent's next turn.
    pub on_result: bool,
    /// Other steps may lie between those that it counts.
    pub looks_through: bool,
}

impl About {
    /// A detector of the whole agent. Texts are to be filled in.
    pub const AGENT: Self =
        Self { title: "", rule: "", example: "", silent: &[], repeats_call: false, on_result: false, looks_through: false };

    /// The same for a detector of one repeated call.
    pub const CALL: Self = Self { repeats_call: true, ..Self::AGENT };
}

/// The settings that detectors have in common, whatever their keys are called.
#[derive(Debug, Clone, Copy)]
pub struct CountSettings {
    /// The detector that they are of.
    pub detector: Detector,
    pub mode: Mode,
    pub threshold: u32,
    /// Count of a block by this detector alone: 0 = never, `None` = it has no such setting.
    pub block_at: Option<u32>,
    pub block_scope: BlockScope,
}

impl CountSettings {
    /// Those of a detector that has no count of a block.
    #[must_use]
    pub const fn new(detector: Detector, mode: Mode, threshold: u32) -> Self {
        Self { detector, mode, threshold, block_at: None, block_scope: BlockScope::Session }
    }

    /// The same with a count of a block; 0 = never.
    #[must_use]
    pub const fn blocking(self, block_at: u32, block_scope: BlockScope) -> Self {
        Self { block_at: Some(block_at), block_scope, ..self }
    }

    /// Both counts under the factor of a step's tool.
    #[must_use]
    pub fn scaled(self, step: &Step, tool: &ToolPolicy) -> Self {
        let scaled = |count| step.scaled(tool, count);
        Self { threshold: scaled(self.threshold), block_at: self.block_at.map(scaled), ..self }
    }

    /// The finding about what was counted up to the step `newest`; `None` below the threshold, and then no identity is computed.
    #[must_use]
    pub fn finding(&self, counted: Tally, newest: u64, identity: impl FnOnce() -> Hash64) -> Option<Finding> {
        (counted.count >= self.threshold).then(|| {
            Finding::new(self.detector, self.mode, identity(), counted.count, self.threshold)
                .blocking_at(self.block_at.unwrap_or_default())
                .spanning(counted.first, newest)
        })
    }
}

/// What the settings of a detector answer for it.
pub(crate) trait Rule {
    const ABOUT: About;

    /// What its settings have in common with those of others. Counts are before factors of tools.
    fn counts(&self) -> CountSettings;

    /// What it reads of each step while it runs.
    fn needs(&self, _policy: &SharedSettings) -> Needs {
        Needs::default()
    }

    /// The text of a command about a finding.
    fn text(&self, context: &TextContext<'_>) -> CommandText;
}
