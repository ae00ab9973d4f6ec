//! Codex: a file of hooks, which its user has to trust.

use crate::install::{Install, InstallRoot, Target, WAIT_S, group, run};

pub(super) const INSTALL: Install = Install {
    variable: Some("CODEX_HOME"),
    todo: Some("open /hooks in Codex and trust them; until then it skips them without a word"),
    ..Install::new("codex", targets)
};

/// Its events; whether each is for a tool, which a matcher names.
const EVENTS: [(&str, bool); 5] =
    [("PreToolUse", true), ("PostToolUse", true), ("UserPromptSubmit", false), ("SessionStart", false), ("Stop", false)];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".codex/hooks.json", ".codex", "hooks.json");
    let handler = run(&root.command("")?, WAIT_S);
    Ok(Target::hooks(path, EVENTS.map(|(event, matcher)| (event, group(matcher, handler.clone()))).to_vec()))
}
