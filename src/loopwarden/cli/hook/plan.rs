//! What an installation writes for each agent: which files, and what into them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use jsonc_parser::cst::CstInputValue;
use jsonc_parser::json;

use crate::cli::hook::edit::Edit;

/// What an agent is told to wait for its hook. Seconds. The hook itself gives up long before.
const WAIT_S: u32 = 5;
/// Events of the agents that have all hooks of Claude Code; whether each is for a tool, which a matcher names.
const EVENTS: [(&str, bool); 7] = [
    ("PreToolUse", true),
    ("PostToolUse", true),
    ("PostToolUseFailure", true),
    ("UserPromptSubmit", false),
    ("SessionStart", false),
    ("SessionEnd", false),
    ("Stop", false),
];
/// Agents that can post to an address by themselves.
pub(super) const POSTERS: [&str; 2] = ["claude-code", "qwen"];
/// Agents that hooks can be installed for.
pub(crate) const AGENTS: [&str; 11] =
    ["claude-code", "codex", "gemini", "qwen", "opencode", "copilot", "cursor", "goose", "openhands", "cline", "antigravity"];

/// Where it is installed.
#[derive(Debug, Clone)]
pub(super) struct InstallRoot {
    /// Home of the user.
    pub(super) home: PathBuf,
    /// Root of the project; absent for an installation for the user.
    pub(super) project: Option<PathBuf>,
    /// Directory that an agent's own variable names in place of one below the home.
    pub(super) moved: Option<PathBuf>,
    /// The program that agents start; absent where it is not installed.
    pub(super) program: Option<PathBuf>,
    /// Where loopwarden answers.
    pub(super) address: SocketAddr,
    /// Whether an agent that can is to post by itself, to whoever listens there.
    pub(super) posts: bool,
}

/// One file.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A file of the agent's, with entries of ours among others.
    Shared(PathBuf, Edit),
    /// A file of our own.
    Own(PathBuf, Vec<u8>, Mode),
}

/// What a file of our own is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Read.
    Plain,
    /// Started.
    Program,
}

/// The variable with which an agent moves its directory.
pub(super) fn variable(agent: &str) -> Option<&'static str> {
    match agent {
        "claude-code" => Some("CLAUDE_CONFIG_DIR"),
        "codex" => Some("CODEX_HOME"),
        "copilot" => Some("COPILOT_HOME"),
        "opencode" => Some("XDG_CONFIG_HOME"),
        _ => None,
    }
}

/// The files of an agent.
///
/// # Errors
/// The agent needs the program `loopwarden-hook`, and it is not installed.
pub(super) fn files(agent: &str, place: &InstallRoot) -> Result<Vec<Target>, String> {
    let of_user = |folder: &str| place.moved.clone().unwrap_or_else(|| place.home.join(folder));
    let at = |project: &str, user: PathBuf| place.project.as_ref().map_or(user, |root| root.join(project));
    let command = |event: &str| place.program.as_deref().map(|program| command(program, agent, event));
    let needed =
        || command("").ok_or("the program loopwarden-hook is neither beside loopwarden nor in the PATH; --program names it");
    let url = format!("http://{}/v1/hooks/{agent}", place.address);
    let http = |matcher: bool| group(matcher, json!({ "type": "http", "url": (url.as_str()), "timeout": WAIT_S }));
    let run = |command: &str, timeout: u32| json!({ "type": "command", "command": command, "timeout": timeout });
    let shared = |path, version, entries| vec![Target::Shared(path, Edit { version, under: "hooks", entries })];
    Ok(match agent {
        "claude-code" => {
            let path = at(".claude/settings.local.json", of_user(".claude").join("settings.json"));
            let command = if place.posts { command("") } else { Some(needed()?) };
            let run = command.map(|command| run(&command, WAIT_S));
            let entry = |(event, matcher)| match &run {
                // Its http hooks do not run where a session begins.
                _ if place.posts && event != "SessionStart" => Some((event, http(matcher))),
                Some(run) => Some((event, group(matcher, run.clone()))),
                None => None,
            };
            shared(path, None, EVENTS.into_iter().filter_map(entry).collect())
        }
        "qwen" => {
            let path = at(".qwen/settings.json", of_user(".qwen").join("settings.json"));
            // Milliseconds here, and seconds where it posts.
            let run = if place.posts { None } else { Some(run(&needed()?, WAIT_S * 1000)) };
            let entry = |matcher| run.as_ref().map_or_else(|| http(matcher), |run| group(matcher, run.clone()));
            shared(path, None, EVENTS.map(|(event, matcher)| (event, entry(matcher))).to_vec())
        }
        "codex" => {
            let path = at(".codex/hooks.json", of_user(".codex").join("hooks.json"));
            let run = run(&needed()?, WAIT_S);
            let events = [
                ("PreToolUse", true),
                ("PostToolUse", true),
                ("UserPromptSubmit", false),
                ("SessionStart", false),
                ("Stop", false),
            ];
            shared(path, None, events.map(|(event, matcher)| (event, group(matcher, run.clone()))).to_vec())
        }
        "gemini" => {
            let path = at(".gemini/settings.json", of_user(".gemini").join("settings.json"));
            let run = json!({ "name": "loopwarden", "type": "command", "command": (needed()?), "timeout": (WAIT_S * 1000) });
            let events = [
                ("BeforeTool", true),
                ("AfterTool", true),
                ("BeforeAgent", false),
                ("AfterAgent", false),
                ("SessionStart", false),
                ("SessionEnd", false),
            ];
            shared(path, None, events.map(|(event, matcher)| (event, group(matcher, run.clone()))).to_vec())
        }
        "openhands" => {
            let path = at(".openhands/hooks.json", of_user(".openhands").join("hooks.json"));
            let run = run(&needed()?, WAIT_S);
            let events = [
                ("PreToolUse", true),
                ("PostToolUse", true),
                ("UserPromptSubmit", false),
                ("SessionStart", false),
                ("SessionEnd", false),
            ];
            shared(path, None, events.map(|(event, matcher)| (event, group(matcher, run.clone()))).to_vec())
        }
        "antigravity" => {
            let path = at(".agents/hooks.json", of_user(".gemini").join("config/hooks.json"));
            let entries = vec![("PreToolUse", group(true, run(&needed()?, WAIT_S)))];
            vec![Target::Shared(path, Edit { version: None, under: "loopwarden", entries })]
        }
        "cursor" => {
            let path = at(".cursor/hooks.json", of_user(".cursor").join("hooks.json"));
            // One generic event per call: a shell call has special ones besides, and would count twice.
            let events = ["preToolUse", "postToolUse", "postToolUseFailure", "beforeSubmitPrompt"];
            let run = json!({ "command": (needed()?), "timeout": WAIT_S });
            shared(path, Some(1), events.map(|event| (event, run.clone())).to_vec())
        }
        "copilot" => {
            let path = at(".github/hooks/loopwarden.json", of_user(".copilot").join("hooks/loopwarden.json"));
            needed()?;
            let events = ["preToolUse", "postToolUse", "postToolUseFailure", "userPromptSubmitted", "sessionStart", "sessionEnd"];
            let lists = events.map(|event| {
                let bash = command(event).unwrap_or_default();
                serde_json::json!({ event: [{ "type": "command", "bash": bash, "timeoutSec": WAIT_S }] })
            });
            vec![Target::Own(path, pretty(&serde_json::json!({ "version": 1, "hooks": merged(&lists) })), Mode::Plain)]
        }
        "goose" => {
            let folder = at(".agents/plugins/loopwarden", of_user(".agents").join("plugins/loopwarden"));
            let command = needed()?;
            // No matcher: "*" is no pattern there, and an empty rule means all.
            let events = ["PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionStart", "SessionEnd"];
            let lists = events.map(|event| {
                serde_json::json!({ event: [{ "hooks": [{ "type": "command", "command": command, "timeout": WAIT_S }] }] })
            });
            let plugin = serde_json::json!({ "name": "loopwarden", "version": env!("CARGO_PKG_VERSION"),
                "description": "Asks loopwarden-hook before and after each call" });
            vec![
                Target::Own(folder.join("plugin.json"), pretty(&plugin), Mode::Plain),
                Target::Own(
                    folder.join("hooks/hooks.json"),
                    pretty(&serde_json::json!({ "hooks": merged(&lists) })),
                    Mode::Plain,
                ),
            ]
        }
        "cline" => {
            let folder = at(".clinerules/hooks", of_user("Documents").join("Cline/Hooks"));
            let script = format!("#!/bin/sh\n{}\n", needed()?).into_bytes();
            let events = ["PreToolUse", "PostToolUse", "UserPromptSubmit", "TaskStart", "TaskComplete", "TaskCancel"];
            events.map(|event| Target::Own(folder.join(event), script.clone(), Mode::Program)).to_vec()
        }
        _ => {
            let path = at(".opencode/plugin/loopwarden.js", of_user(".config").join("opencode/plugin/loopwarden.js"));
            needed()?;
            let program = place.program.as_deref().unwrap_or(Path::new("")).to_string_lossy();
            let text = include_str!("opencode.js").replace("\"@PROGRAM@\"", &serde_json::Value::from(program).to_string());
            vec![Target::Own(path, text.into_bytes(), Mode::Plain)]
        }
    })
}

/// A path as a word of a shell, whatever is in it.
pub(crate) fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

/// What a shell runs: nothing, with success, once the program is gone. Some agents refuse every call where a hook cannot be started.
fn command(program: &Path, agent: &str, event: &str) -> String {
    let program = quoted(program);
    let fallback = match agent {
        "antigravity" => r#"{ echo '{"decision":"allow"}'; exit 0; }"#,
        "cline" => r#"{ echo '{"cancel":false}'; exit 0; }"#,
        _ => "exit 0",
    };
    let space = if event.is_empty() { "" } else { " " };
    format!("[ -x {program} ] || {fallback}; exec {program} {agent}{space}{event}")
}

/// A handler in the group around it, for every tool where there are tools.
fn group(has_matcher: bool, handler: CstInputValue) -> CstInputValue {
    let hooks = CstInputValue::Array(vec![handler]);
    let mut members = vec![("hooks".to_owned(), hooks)];
    if has_matcher {
        members.insert(0, ("matcher".to_owned(), "*".into()));
    }
    CstInputValue::Object(members)
}

fn merged(objects: &[serde_json::Value]) -> serde_json::Value {
    let members = objects.iter().filter_map(serde_json::Value::as_object).flatten();
    serde_json::Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn pretty(value: &serde_json::Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
