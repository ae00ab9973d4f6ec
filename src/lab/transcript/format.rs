//! The formats.

/// Whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Claude Code: `~/.claude/projects/*/*.jsonl`.
    ClaudeCode,
    /// Cline: `…/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json`, `~/.cline/data/sessions/*/*.messages.json`.
    Cline,
    /// Codex: `~/.codex/sessions/**/rollout-*.jsonl`.
    Codex,
    /// Gemini CLI: `~/.gemini/tmp/*/chats/session-*`.
    Gemini,
    /// goose: what `goose session export --format json` writes, or `~/.local/share/goose/sessions/*.jsonl`.
    Goose,
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
            Self::Cline => "Cline",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Goose => "goose",
            Self::Opencode => "opencode",
            Self::OpenHands => "OpenHands",
            Self::Qwen => "Qwen Code",
        }
    }
}
