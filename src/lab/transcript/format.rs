//! The formats.

/// Whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Claude Code: `~/.claude/projects/*/*.jsonl`.
    ClaudeCode,
    /// Codex: `~/.codex/sessions/**/rollout-*.jsonl`.
    Codex,
    /// Gemini CLI: `~/.gemini/tmp/*/chats/session-*`.
    Gemini,
    /// opencode: what `opencode export` writes.
    Opencode,
    /// OpenHands: a trajectory, or a directory of events.
    OpenHands,
    /// Qwen Code: `~/.qwen/projects/*/chats/*.jsonl`.
    Qwen,
}

impl Format {
    /// Its name, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "opencode",
            Self::OpenHands => "OpenHands",
            Self::Qwen => "Qwen Code",
        }
    }
}
