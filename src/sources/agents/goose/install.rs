//! goose: a plugin of two files.

use serde_json::json;

use crate::install::{Install, InstallRoot, Mode, Target, WAIT_S, merged, pretty};

pub(super) const INSTALL: Install = Install::new("goose", targets);

/// No matcher: "*" is no pattern there, and an empty rule means all.
const EVENTS: [&str; 6] = ["PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionStart", "SessionEnd"];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let folder = root.path(".agents/plugins/loopwarden", ".agents", "plugins/loopwarden");
    let command = root.command("")?;
    let lists =
        EVENTS.map(|event| json!({ event: [{ "hooks": [{ "type": "command", "command": command, "timeout": WAIT_S }] }] }));
    let plugin = json!({ "name": "loopwarden", "version": env!("CARGO_PKG_VERSION"),
        "description": "Asks loopwarden-hook before and after each call" });
    let hooks = json!({ "hooks": merged(&lists) });
    Ok(vec![
        Target::Own(folder.join("plugin.json"), pretty(&plugin), Mode::Plain),
        Target::Own(folder.join("hooks/hooks.json"), pretty(&hooks), Mode::Plain),
    ])
}
