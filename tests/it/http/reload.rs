//! Another policy: by SIGHUP, all or nothing, and by a restart in the middle of an episode.

use std::path::{Path, PathBuf};
use std::{fs, process::Command, time::Duration};

use loopwarden::clock::Deadline;
use serde_json::Value;

use crate::http::{Running, Scratch, failed_call};

/// Longest wait for something that is to come at once.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what a process has said.
const LOOK: Duration = Duration::from_millis(10);

/// A policy that finds exact repeats alone.
fn policy(dir: &Path, exact_repeat: &str) -> PathBuf {
    let path = dir.join("policy.toml");
    let text =
        format!("profile = \"ours\"\nbase = \"plain\"\nonly = [\"exact_repeat\"]\n[detectors.exact_repeat]\n{exact_repeat}\n");
    fs::write(&path, text).unwrap();
    path
}

/// A configuration file that names it.
fn configuration(dir: &Path, level: &str) {
    fs::write(dir.join("loopwarden.toml"), format!("mode = \"live\"\npolicy = \"policy.toml\"\n[log]\nlevel = \"{level}\"\n"))
        .unwrap();
}

/// Sends SIGHUP and waits until the process says what came of it; what it said since the last time.
fn reload(running: &Running, dir: &Path) -> String {
    let told = || fs::read_to_string(dir.join("stderr")).unwrap();
    let before = told().len();
    assert!(Command::new("kill").args(["-HUP", &running.child.id().to_string()]).status().unwrap().success());
    let deadline = Deadline::after(PATIENCE);
    loop {
        let said = told()[before..].to_owned();
        if said.contains("reloaded: ") {
            return said;
        }
        assert!(!deadline.is_over(), "nothing came of it: {said}");
        std::thread::park_timeout(LOOK);
    }
}

fn hash(running: &Running) -> String {
    running.client.get("/version").json()["policy"]["sha256"].as_str().unwrap().to_owned()
}

fn filter(running: &Running) -> String {
    running.client.get("/log-level").json()["filter"].as_str().unwrap().to_owned()
}

fn nudges(running: &Running, session: &str) -> Vec<Value> {
    let (commands, _) = running.commands(&format!("wait=1s&session_id={session}"));
    commands.into_iter().filter(|command| command["action"] == "nudge").collect()
}

#[test]
fn a_reload_takes_everything_or_nothing_and_keeps_what_decided() {
    let scratch = Scratch::new();
    let dir = &scratch.0;
    policy(dir, "threshold = 5");
    configuration(dir, "warn");
    let running = Running::start_with(dir, &["--config", &dir.join("loopwarden.toml").to_string_lossy()], &[]);
    let first = hash(&running);
    (1..=3).for_each(|number| running.accept(&failed_call("a", number)));
    running.until_said("a", 3);
    assert_eq!(nudges(&running, "a").len(), 0, "five are needed");

    // Each half alone is fine; together nothing changes.
    policy(dir, "threshold = 3");
    configuration(dir, "loud=loud");
    let said = reload(&running, dir);
    assert!(said.contains("E0202") && said.contains("not reloaded"), "{said}");
    assert_eq!((hash(&running), filter(&running).as_str()), (first.clone(), "warn"));
    policy(dir, "threshold = \"three\"");
    configuration(dir, "info");
    let said = reload(&running, dir);
    assert!(said.contains("E0601") && said.contains("policy.toml:5:") && said.contains("not reloaded"), "{said}");
    assert_eq!((hash(&running), filter(&running).as_str()), (first.clone(), "warn"));
    // What a full disk leaves of a policy.
    fs::write(dir.join("policy.toml"), "").unwrap();
    let said = reload(&running, dir);
    assert!(said.contains("E0601") && said.contains("policy.toml holds no key") && said.contains("not reloaded"), "{said}");
    assert_eq!((hash(&running), filter(&running).as_str()), (first.clone(), "warn"));

    policy(dir, "threshold = 3");
    configuration(dir, "info");
    let said = reload(&running, dir);
    assert!(said.contains("reloaded: policy ours"), "{said}");
    let second = hash(&running);
    assert_ne!(first, second);
    assert_eq!(filter(&running), "info");
    // Where it begins to decide is told for each of the eight tasks; a lane that waits for records learns of it a moment later.
    let told = || fs::read_to_string(dir.join("stderr")).unwrap();
    let deadline = Deadline::after(PATIENCE);
    while told().matches("another policy is in force").count() < 8 {
        assert!(!deadline.is_over(), "{}", told());
        std::thread::park_timeout(LOOK);
    }
    assert!(told().contains("\"next\":\""), "{}", told());
    // The history goes on: the fourth call is judged by the new threshold.
    running.accept(&failed_call("a", 4));
    let (commands, _) = running.commands("wait=30s&session_id=a");
    assert_eq!(commands[0]["engine"]["policy_sha256"], second.as_str());
    assert_eq!(commands[0]["reason"]["evidence"]["count"], 4);
    // Both policies can be given to a replay.
    for hash in [&first, &second] {
        let kept = dir.join(format!("data/policies/{hash}.toml"));
        let kept = loopwarden::config::policy::load(&kept.to_string_lossy()).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(kept.hash.to_string(), *hash);
    }
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_setting_that_needs_a_restart_is_named() {
    let scratch = Scratch::new();
    let dir = &scratch.0;
    policy(dir, "threshold = 5");
    configuration(dir, "warn");
    let running = Running::start_with(dir, &["--config", &dir.join("loopwarden.toml").to_string_lossy()], &[]);
    let text = fs::read_to_string(dir.join("loopwarden.toml")).unwrap();
    fs::write(dir.join("loopwarden.toml"), text.replace("live", "shadow")).unwrap();
    let said = reload(&running, dir);
    assert!(said.contains("a restart is needed for mode"), "{said}");
    assert_eq!(running.client.get("/version").json()["mode"], "live");
}

#[test]
fn an_open_episode_survives_a_restart_with_another_policy_and_a_block_ends_where_nothing_blocks_any_more() {
    let scratch = Scratch::new();
    let dir = &scratch.0;
    let path = policy(dir, "threshold = 3\nblock_at = 6");
    let set = format!("policy={}", path.display());
    let settings = ["mode=live", &set];
    let running = Running::start(dir, &settings);
    (1..=3).for_each(|number| running.accept(&failed_call("nudged", number)));
    let first = running.commands("wait=30s&session_id=nudged").0.remove(0);
    (1..=6).for_each(|number| running.accept(&failed_call("blocked", number)));
    running.commands_until("session_id=blocked", |commands| commands.iter().any(|command| command["action"] == "block"));
    let metrics_until = |running: &Running, wanted: &[&str]| {
        running.until("/metrics", |page| wanted.iter().all(|line| page.text.lines().any(|found| found == *line)));
    };
    let held = ["loopwarden_sessions{} 2.0", "loopwarden_sessions_blocked{} 1.0"];
    metrics_until(&running, &held);
    assert_eq!(running.terminate(), Some(0));

    // As a rolling restart: the same directory, a policy that is stricter and never blocks.
    policy(dir, "mode = \"nudge\"\nthreshold = 2\nblock_at = 0");
    let running = Running::start(dir, &settings);
    metrics_until(&running, &held);
    running.accept(&failed_call("nudged", 4));
    running.accept(&failed_call("blocked", 7));
    let is_lifted = |command: &Value| command["action"] == "unblock";
    let commands = running.commands_until("session_id=blocked", |commands| commands.iter().any(is_lifted));
    let lifted = commands.into_iter().find(is_lifted).unwrap();
    assert_eq!(lifted["reason"]["code"], "policy", "{lifted}");
    metrics_until(&running, &["loopwarden_sessions{} 2.0", "loopwarden_sessions_blocked{} 0.0"]);
    // The episode is the one of before, whatever is said of it now.
    let session = running.json_until("/sessions/nudged", |session| session["agents"][0]["episodes"][0]["count"] == 4);
    assert_eq!(session["agents"][0]["loops_total"], 1, "{session}");
    running.json_until("/v1/state/nudged", |state| state["active"].is_array());
    assert!(nudges(&running, "nudged").iter().all(|nudge| nudge["episode"] == first["episode"]));
    assert_eq!(running.terminate(), Some(0));
}
