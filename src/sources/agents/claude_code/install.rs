//! Claude Code: entries in its settings, which run a program or post by themselves.

use jsonc_parser::json;

use crate::install::{Install, InstallRoot, Target, WAIT_S, group, run};

pub(super) const INSTALL: Install =
    Install { variable: Some("CLAUDE_CONFIG_DIR"), posts: true, ..Install::new("claude", targets) };

/// Events of the agents that have all hooks of Claude Code; whether each is for a tool, which a matcher names.
pub(crate) const EVENTS: [(&str, bool); 7] = [
    ("PreToolUse", true),
    ("PostToolUse", true),
    ("PostToolUseFailure", true),
    ("UserPromptSubmit", false),
    ("SessionStart", false),
    ("SessionEnd", false),
    ("Stop", false),
];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".claude/settings.local.json", ".claude", "settings.json");
    let command = root.command("");
    let command = if root.posts { command.ok() } else { Some(command?) };
    let run = command.map(|command| run(&command, WAIT_S));
    let url = root.url();
    let entry = |(event, matcher)| match &run {
        // Its http hooks do not run where a session begins.
        _ if root.posts && event != "SessionStart" => {
            Some((event, group(matcher, json!({ "type": "http", "url": (url.as_str()), "timeout": WAIT_S }))))
        }
        Some(run) => Some((event, group(matcher, run.clone()))),
        None => None,
    };
    Ok(Target::hooks(path, EVENTS.into_iter().filter_map(entry).collect()))
}
