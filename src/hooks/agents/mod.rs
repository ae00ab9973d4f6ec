//! One file per agent: what it tells, and how it reads an answer.

pub(crate) mod antigravity;
pub(crate) mod claude_code;
pub(crate) mod claude_like;
pub(crate) mod cline;
pub(crate) mod codex;
pub(crate) mod copilot;
pub(crate) mod cursor;
pub(crate) mod gemini;
pub(crate) mod goose;
pub(crate) mod opencode;
pub(crate) mod openhands;
pub(crate) mod qwen;
mod shape;
