//! Cline: a script for each event.

use crate::install::{Install, InstallRoot, Mode, Target};

pub(super) const INSTALL: Install = Install {
    program: None,
    folder: Some("Documents/Cline"),
    variable: None,
    posts: false,
    todo: Some("switch hooks on in its settings"),
    targets,
};

const EVENTS: [&str; 6] = ["PreToolUse", "PostToolUse", "UserPromptSubmit", "TaskStart", "TaskComplete", "TaskCancel"];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let folder = root.path(".clinerules/hooks", "Documents", "Cline/Hooks");
    let script = format!("#!/bin/sh\n{}\n", root.command("")?).into_bytes();
    Ok(EVENTS.map(|event| Target::Own(folder.join(event), script.clone(), Mode::Program)).to_vec())
}
