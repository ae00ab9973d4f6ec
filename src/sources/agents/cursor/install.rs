//! Cursor: a file of hooks with a version, without groups.

use jsonc_parser::json;

use crate::install::{Edit, Install, InstallRoot, Target, WAIT_S};

pub(super) const INSTALL: Install = Install::new("cursor-agent", targets);

/// One generic event per call: a shell call has special ones besides, and would count twice.
const EVENTS: [&str; 4] = ["preToolUse", "postToolUse", "postToolUseFailure", "beforeSubmitPrompt"];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".cursor/hooks.json", ".cursor", "hooks.json");
    let run = json!({ "command": (root.command("")?), "timeout": WAIT_S });
    let entries = EVENTS.map(|event| (event, run.clone())).to_vec();
    Ok(vec![Target::Shared(path, Edit { version: Some(1), under: "hooks", entries })])
}
