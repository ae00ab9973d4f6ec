//! Antigravity CLI: a file of hooks, by the name of who wrote them.

use crate::install::{Edit, Install, InstallRoot, Target, WAIT_S, group, run};

pub(super) const INSTALL: Install = Install::new("agy", targets);

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".agents/hooks.json", ".gemini", "config/hooks.json");
    let entries = vec![("PreToolUse", group(true, run(&root.command("")?, WAIT_S)))];
    Ok(vec![Target::Shared(path, Edit { version: None, under: "loopwarden", entries })])
}
