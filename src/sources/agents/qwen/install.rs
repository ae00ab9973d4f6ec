//! Qwen Code: the entries of Claude Code, in its own settings.

use jsonc_parser::json;

use crate::agents::claude_code::install::EVENTS;
use crate::install::{Install, InstallRoot, Target, WAIT_S, group, run};

pub(super) const INSTALL: Install = Install { posts: true, ..Install::new("qwen", targets) };

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".qwen/settings.json", ".qwen", "settings.json");
    let handler = if root.posts {
        json!({ "type": "http", "url": (root.url().as_str()), "timeout": WAIT_S })
    } else {
        // Milliseconds here, and seconds where it posts.
        run(&root.command("")?, WAIT_S * 1000)
    };
    Ok(Target::hooks(path, EVENTS.map(|(event, matcher)| (event, group(matcher, handler.clone()))).to_vec()))
}
