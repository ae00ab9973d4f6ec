//! `loopwarden hook`: settings of agents before and after, byte for byte, in a home of the test's own.

use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, process::Output};

use loopwarden::exit_code;

use super::{Scratch, program, stdout};

const AGENTS: [&str; 11] =
    ["claude-code", "codex", "gemini", "qwen", "opencode", "copilot", "cursor", "goose", "openhands", "cline", "antigravity"];

/// A settings file with all that must survive: comments, order, an odd layout, hooks of somebody else, a trailing comma.
const SETTINGS: &str = r#"{
  // how I like it
  "theme": "dark", "model":"x",
  "hooks": {
    "PreToolUse": [ {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]} ],
    "Other": []
  },
  /* last */ "z": [1,2 ],
}
"#;

struct Home(Scratch);

impl Home {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(&format!("hook-{name}"));
        for folder in ["home", "project"] {
            fs::create_dir(scratch.0.join(folder)).unwrap();
        }
        fs::write(scratch.0.join("loopwarden-hook"), "").unwrap();
        Self(scratch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.0.join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = program();
        command.env_clear().env("HOME", self.path("home")).env("PATH", "/nowhere").current_dir(self.path("project"));
        // Nobody listens on this port, so what `status` says does not depend on the machine.
        command.arg("hook").args(arguments).args(["--address", "127.0.0.1:1", "--program"]).arg(self.path("loopwarden-hook"));
        command.output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        stdout(&output)
    }

    /// Every file with its bytes, but for the file with the address, which other agents may need.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        below(&self.0.0, &mut files);
        files.retain(|path, _| !path.ends_with("hook-address"));
        files
    }
}

/// Who may read and write a file.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn below(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            below(&path, files);
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}

#[test]
fn installing_twice_is_installing_once_and_taking_away_brings_the_same_bytes_back() {
    for agent in AGENTS {
        for project in [&[][..], &["--project"]] {
            let home = Home::new(&format!("twice-{agent}-{}", project.len()));
            let empty = home.files();
            let with = |verb: &str| home.done(&[&[verb, agent], project].concat());
            with("install");
            let once = home.files();
            assert!(once.len() > empty.len(), "{agent}: nothing was written");
            with("install");
            assert_eq!(home.files(), once, "{agent}");
            assert_eq!(home.run(&[&["status", agent], project].concat()).status.code(), Some(0), "{agent}");
            with("uninstall");
            assert_eq!(home.files(), empty, "{agent}");
            assert_eq!(
                home.run(&[&["status", agent], project].concat()).status.code(),
                Some(i32::from(exit_code::ANSWER_IS_NO)),
                "{agent}"
            );
        }
    }
}

#[test]
fn what_stood_there_before_stays_and_comes_back() {
    for (agent, file) in [
        ("claude-code", ".claude/settings.json"),
        ("codex", ".codex/hooks.json"),
        ("gemini", ".gemini/settings.json"),
        ("qwen", ".qwen/settings.json"),
        ("cursor", ".cursor/hooks.json"),
        ("openhands", ".openhands/hooks.json"),
        ("antigravity", ".gemini/config/hooks.json"),
    ] {
        let home = Home::new(&format!("before-{agent}"));
        let path = home.path("home").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, SETTINGS).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let before = home.files();
        home.done(&["install", agent]);
        let installed = fs::read_to_string(&path).unwrap();
        for kept in
            ["// how I like it", "\"theme\": \"dark\", \"model\":\"x\"", "\"command\": \"mine\"", "/* last */ \"z\": [1,2 ]"]
        {
            assert!(installed.contains(kept), "{agent}: {kept} is gone: {installed}");
        }
        assert_eq!(mode(&path), 0o600, "{agent}");
        let backup = path.with_file_name(format!("{}.before-loopwarden", path.file_name().unwrap().to_string_lossy()));
        assert_eq!(fs::read_to_string(&backup).unwrap(), SETTINGS, "{agent}");
        // A backup of an older version, open to all, is closed by whatever comes next.
        assert_eq!(mode(&backup), 0o600, "{agent}");
        fs::set_permissions(&backup, fs::Permissions::from_mode(0o644)).unwrap();
        home.done(&["install", agent]);
        assert_eq!(mode(&backup), 0o600, "{agent}");
        home.done(&["uninstall", agent]);
        assert_eq!(home.files(), before, "{agent}");
    }
}

#[test]
fn nothing_is_left_of_an_installation_not_even_a_folder() {
    for agent in AGENTS {
        let home = Home::new(&format!("left-{agent}"));
        for place in [&["--local"][..], &["--project"]] {
            home.done(&[&["install", agent], place].concat());
            home.done(&[&["uninstall", agent], place].concat());
        }
        // The address is for other agents too; the folder of settings was not ours to make.
        let mut left: Vec<String> = folders(&home.0.0).iter().map(|path| path.display().to_string()).collect();
        left.sort();
        assert_eq!(left, ["home", "home/.config", "home/.config/loopwarden", "project"], "{agent}");
    }
    // A folder with something else in it stays.
    let home = Home::new("left-other");
    home.done(&["install", "claude-code"]);
    fs::write(home.path("home/.claude/mine"), "").unwrap();
    home.done(&["uninstall", "claude-code"]);
    assert!(home.path("home/.claude/mine").exists());
}

/// Every folder below one, relative to it.
fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
            found.push(entry.path().strip_prefix(root).unwrap().to_owned());
            open.push(entry.path());
        }
    }
    found
}

#[test]
fn what_was_changed_since_is_not_undone() {
    let home = Home::new("since");
    let path = home.path("home/.claude/settings.json");
    home.done(&["install", "claude-code"]);
    let installed = fs::read_to_string(&path).unwrap();
    fs::write(&path, installed.replacen('{', "{\n  \"model\": \"new\", // since", 1)).unwrap();
    home.done(&["uninstall", "claude-code"]);
    let left = fs::read_to_string(&path).unwrap();
    assert!(left.contains("\"model\": \"new\"") && left.contains("// since") && !left.contains("hooks"), "{left}");
}

#[test]
fn a_dry_run_shows_everything_and_writes_nothing() {
    for agent in AGENTS {
        let home = Home::new(&format!("dry-{agent}"));
        let before = home.files();
        let said = home.done(&["install", agent, "--dry-run", "--local"]);
        assert!(said.contains("would write ") && said.contains("\n+"), "{agent}: {said}");
        assert_eq!(home.files(), before, "{agent}");
        home.done(&["install", agent]);
        let installed = home.files();
        let said = home.done(&["uninstall", agent, "--dry-run"]);
        assert!(said.contains("\n-") || said.contains("would remove "), "{agent}: {said}");
        assert_eq!(home.files(), installed, "{agent}");
    }
}

#[test]
fn the_service_is_written_and_shown() {
    let home = Home::new("local");
    let said = home.done(&["install", "claude-code", "--local"]);
    let unit = fs::read_to_string(home.path("home/.config/systemd/user/loopwarden.service")).unwrap();
    assert!(unit.contains(" run --data-dir %S/loopwarden --set http.listen=127.0.0.1:1 --set mode=live\n"), "{unit}");
    assert!(said.contains("ExecStart=") && said.contains("systemctl --user"), "{said}");
    assert!(unit.contains("UMask=0077\n") && unit.contains("LimitNOFILE=65536\n"), "{unit}");
    home.done(&["install", "claude-code", "--uid", "998"]);
    assert_eq!(fs::read_to_string(home.path("home/.config/loopwarden/hook-uid")).unwrap(), "998\n");
    // Programs find the address in a file.
    assert_eq!(fs::read_to_string(home.path("home/.config/loopwarden/hook-address")).unwrap(), "127.0.0.1:1\n");
}

#[test]
fn codex_is_said_to_trust_only_what_it_says_it_trusts() {
    let home = Home::new("trust");
    home.done(&["install", "codex"]);
    assert!(home.done(&["status", "codex"]).contains("0 of 5 trusted"));
    let hooks = home.path("home/.codex/hooks.json").to_string_lossy().into_owned();
    let states: String = ["pre_tool_use", "post_tool_use", "user_prompt_submit", "session_start", "stop"]
        .map(|event| format!("[hooks.state.\"{hooks}:{event}:0:0\"]\ntrusted_hash = \"sha256:1\"\n"))
        .concat();
    fs::write(home.path("home/.codex/config.toml"), states).unwrap();
    assert!(home.done(&["status", "codex"]).contains("trusted in Codex"));
}

#[test]
fn files_that_are_not_understood_or_not_ours_are_refused() {
    let home = Home::new("refused");
    for (agent, file, text) in [
        ("claude-code", "home/.claude/settings.json", "{ \"hooks\": "),
        ("gemini", "home/.gemini/settings.json", "{\"hooks\": []}"),
        ("cline", "home/Documents/Cline/Hooks/PreToolUse", "#!/bin/sh\nmine\n"),
        ("opencode", "home/.config/opencode/plugin/loopwarden.js", "export const Mine = 1;\n"),
    ] {
        let path = home.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let before = home.files();
        let output = home.run(&["install", agent]);
        assert_eq!(output.status.code(), Some(i32::from(exit_code::FAILED)), "{agent}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(path.to_str().unwrap()), "{agent}");
        assert_eq!(home.files(), before, "{agent}");
    }
    let output = program().args(["hook", "install", "gemini", "--address", "10.0.0.1:80"]).output().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(exit_code::USAGE)));
}

#[test]
fn a_link_to_the_settings_stays_a_link() {
    let home = Home::new("link");
    let real = home.path("project/settings.json");
    fs::write(&real, "{}\n").unwrap();
    fs::create_dir(home.path("home/.claude")).unwrap();
    let link = home.path("home/.claude/settings.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    home.done(&["install", "claude-code"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("loopwarden-hook' claude-code"));
}

#[test]
fn agents_that_could_post_start_the_program_unless_it_is_wanted() {
    let settings = |home: &Home, agent: &str| fs::read_to_string(home.path(&format!("home/.{agent}/settings.json"))).unwrap();
    for (agent, folder, timeout) in [("claude-code", "claude", 5), ("qwen", "qwen", 5_000)] {
        let home = Home::new(&format!("posts-{agent}"));
        home.done(&["install", agent]);
        let text = settings(&home, folder);
        assert!(!text.contains("/v1/hooks/"), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let groups: Vec<_> = read["hooks"].as_object().unwrap().values().collect();
        assert_eq!(groups.len(), 7, "{text}");
        assert!(groups.iter().all(|group| group[0]["hooks"][0]["timeout"] == timeout), "{text}");
        let said = home.done(&["install", agent, "--http"]);
        assert!(said.contains("does not look who listens") && said.contains("While no loopwarden answers"), "{said}");
        let text = settings(&home, folder);
        assert!(text.contains("http://127.0.0.1:1/v1/hooks/") && text.matches("\"http\"").count() >= 6, "{text}");
        home.done(&["install", agent]);
        assert!(!settings(&home, folder).contains("/v1/hooks/"));
    }
    let output = Home::new("posts-not").run(&["install", "gemini", "--http"]);
    assert_eq!(output.status.code(), Some(i32::from(exit_code::USAGE)));
}

#[test]
fn a_program_that_is_gone_stops_nobody() {
    // The shell runs what was installed, with the program taken away.
    let home = Home::new("gone");
    home.done(&["install", "gemini"]);
    home.done(&["install", "antigravity"]);
    fs::remove_file(home.path("loopwarden-hook")).unwrap();
    for (file, said) in [("home/.gemini/settings.json", ""), ("home/.gemini/config/hooks.json", "{\"decision\":\"allow\"}\n")] {
        let text = fs::read_to_string(home.path(file)).unwrap();
        let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
        let events = settings.get("hooks").or(settings.get("loopwarden")).unwrap();
        let group = &events.as_object().unwrap().values().next().unwrap()[0];
        let command = group["hooks"][0]["command"].as_str().unwrap();
        let output = std::process::Command::new("sh").args(["-c", command]).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), said), "{command}");
    }
}
