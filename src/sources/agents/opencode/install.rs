//! opencode: a plugin.

use crate::install::{Install, InstallRoot, Mode, Target};

pub(super) const INSTALL: Install = Install { variable: Some("XDG_CONFIG_HOME"), ..Install::new("opencode", targets) };

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".opencode/plugin/loopwarden.js", ".config", "opencode/plugin/loopwarden.js");
    let program = serde_json::Value::from(root.program()?.to_string_lossy());
    let text = include_str!("plugin.js").replace("\"@PROGRAM@\"", &program.to_string());
    Ok(vec![Target::Own(path, text.into_bytes(), Mode::Plain)])
}
