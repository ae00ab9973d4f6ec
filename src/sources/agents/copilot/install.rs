//! GitHub Copilot: a file of our own. Its hooks do not name the event, so that the command does.

use serde_json::json;

use crate::install::{Install, InstallRoot, Mode, Target, WAIT_S, merged, pretty};

pub(super) const INSTALL: Install = Install { variable: Some("COPILOT_HOME"), ..Install::new("copilot", targets) };

const EVENTS: [&str; 6] =
    ["preToolUse", "postToolUse", "postToolUseFailure", "userPromptSubmitted", "sessionStart", "sessionEnd"];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".github/hooks/loopwarden.json", ".copilot", "hooks/loopwarden.json");
    let list = |event: &&str| {
        let bash = root.command(event)?;
        Ok(json!({ *event: [{ "type": "command", "bash": bash, "timeoutSec": WAIT_S }] }))
    };
    let lists = EVENTS.iter().map(list).collect::<Result<Vec<_>, String>>()?;
    Ok(vec![Target::Own(path, pretty(&json!({ "version": 1, "hooks": merged(&lists) })), Mode::Plain)])
}
