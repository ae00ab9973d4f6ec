//! The text of a command, and what detectors make it from. A text names the tool, counts and argument *names*, never values or results:
//! text from a tool's output in a message to a model is a prompt-injection path. A text never claims more than was counted.

use crate::detect::{finding::Finding, steps::step::Flags};

/// What a text may use. Names in it are safe to print.
#[derive(Debug, Clone, Copy)]
pub struct TextContext<'a> {
    /// The finding that the command is about.
    pub finding: &'a Finding,
    /// A block, not a nudge.
    pub is_block: bool,
    /// The block binds every call of the agent.
    pub blocks_all: bool,
    /// Which calls a block binds until when, and which it leaves free, in a sentence; empty of a nudge.
    pub bound: &'a str,
    pub tier: u8,
    /// Nudges the loop has had before.
    pub nudges: u32,
    /// Tool of the looping call; empty where what was counted does not fix it: then its name is another agent's word.
    pub tool: &'a str,
    /// Tools of a cycle, in order.
    pub cycle: &'a [String],
    /// Facts of the looping step.
    pub flags: Flags,
    /// Names of arguments that changed between near repeats.
    pub changed: &'a [String],
    /// Agents of a swarm that take part.
    pub workers: u32,
    /// The text may announce that further calls are rejected.
    pub rejects: bool,
    /// Seconds from the first step that was counted; `None` where they are not known.
    pub seconds: Option<i64>,
}

impl<'a> TextContext<'a> {
    /// About a finding of which nothing else is known: a nudge, the first one.
    #[must_use]
    pub const fn of(finding: &'a Finding) -> Self {
        Self {
            finding,
            is_block: false,
            blocks_all: false,
            bound: "",
            tier: 0,
            nudges: 0,
            tool: "",
            cycle: &[],
            flags: Flags::empty(),
            changed: &[],
            workers: 0,
            rejects: false,
            seconds: None,
        }
    }

    #[must_use]
    pub const fn count(&self) -> u32 {
        self.finding.count
    }

    /// ` in 12 s`, where that is known.
    #[must_use]
    pub fn span(&self) -> String {
        self.seconds.map_or(String::new(), |seconds| format!(" in {seconds} s"))
    }

    /// `, failing` for a call that failed.
    #[must_use]
    pub const fn failing(&self) -> &'static str {
        if self.flags.contains(Flags::OBSERVED) && !self.flags.contains(Flags::OK) { ", failing" } else { "" }
    }
}

/// The text of a command about a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandText {
    pub text: String,
    pub summary: String,
    /// The message in one word, for an orchestrator.
    pub advice: Advice,
}

impl CommandText {
    /// A text and its summary, with the advice to try something else.
    #[must_use]
    pub const fn new(text: String, summary: String) -> Self {
        Self { text, summary, advice: Advice::ChangeApproach }
    }

    /// The same with other advice.
    #[must_use]
    pub fn advising(self, advice: Advice) -> Self {
        Self { advice, ..self }
    }
}

/// Safe characters of a name.
#[must_use]
pub fn safe(name: &str, chars: usize) -> String {
    name.chars().take(chars).map(|c| if c.is_ascii_alphanumeric() || "_-.:/".contains(c) { c } else { '_' }).collect()
}

/// The message in one word, for an orchestrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    ChangeApproach,
    Replan,
    /// Undo to the point before.
    Backtrack,
    /// Wait longer before asking again.
    Wait,
    Stop,
    AskHuman,
}

impl Advice {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChangeApproach => "change_approach",
            Self::Replan => "replan",
            Self::Backtrack => "backtrack",
            Self::Wait => "wait",
            Self::Stop => "stop",
            Self::AskHuman => "ask_human",
        }
    }

    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The advice with that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::ChangeApproach, Self::Replan, Self::Backtrack, Self::Wait, Self::Stop, Self::AskHuman]
            .into_iter()
            .find(|advice| advice.number() == number)
    }
}
