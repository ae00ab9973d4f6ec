//! OpenHands: a file of hooks.

use crate::install::{Install, InstallRoot, Target, WAIT_S, group, run};

pub(super) const INSTALL: Install = Install::new("openhands", targets);

/// Its events; whether each is for a tool, which a matcher names.
const EVENTS: [(&str, bool); 5] =
    [("PreToolUse", true), ("PostToolUse", true), ("UserPromptSubmit", false), ("SessionStart", false), ("SessionEnd", false)];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".openhands/hooks.json", ".openhands", "hooks.json");
    let handler = run(&root.command("")?, WAIT_S);
    Ok(Target::hooks(path, EVENTS.map(|(event, matcher)| (event, group(matcher, handler.clone()))).to_vec()))
}
