//! Gemini CLI: entries in its settings, with a name.

use jsonc_parser::json;

use crate::install::{Install, InstallRoot, Target, WAIT_S, group};

pub(super) const INSTALL: Install = Install::new("gemini", targets);

/// Its events; whether each is for a tool, which a matcher names.
const EVENTS: [(&str, bool); 6] = [
    ("BeforeTool", true),
    ("AfterTool", true),
    ("BeforeAgent", false),
    ("AfterAgent", false),
    ("SessionStart", false),
    ("SessionEnd", false),
];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".gemini/settings.json", ".gemini", "settings.json");
    let handler = json!({ "name": "loopwarden", "type": "command", "command": (root.command("")?), "timeout": (WAIT_S * 1000) });
    Ok(Target::hooks(path, EVENTS.map(|(event, matcher)| (event, group(matcher, handler.clone()))).to_vec()))
}
