//! What an operator names on a command line or in a file: the same thing has the same answer however it is spelled, and nothing is waited for
//! that may never come.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, process::Command};

use crate::cli::{Scratch, program, stderr, stdout};

/// A directory below the temporary one, removed at its end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lw-named-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a configuration is taken that a user names so from a directory.
fn is_taken(from: &Path, config: &str, more: &[&str]) -> bool {
    let output = program().current_dir(from).args(["check", "--config", config]).args(more).output().unwrap();
    let (code, told) = (output.status.code(), stderr(&output));
    assert!(matches!(code, Some(0 | 78)), "{config} {more:?}: {code:?} {}{told}", stdout(&output));
    assert_eq!(code == Some(78), told.contains("must not be a temporary directory"), "{config} {more:?}: {told}");
    code == Some(0)
}

#[test]
fn a_data_directory_below_tmp_is_taken_or_refused_by_where_it_is_and_not_by_how_it_is_named() {
    let (temporary, elsewhere) = (Temporary::new("data"), Scratch::new("named-data"));
    let (root, home) = (temporary.0.as_path(), elsewhere.0.as_path());
    fs::create_dir_all(root.join("x/deep")).unwrap();
    fs::create_dir_all(root.join("other")).unwrap();
    symlink(root.join("x"), home.join("link")).unwrap();
    symlink(root.join("other"), root.join("x/out")).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let file = root.join("x/c.toml");
    let names = [
        (home, text(&file)),
        (home, text(&home.join("link/c.toml"))),
        (home, text(&root.join("other/../x/c.toml"))),
        (home, "link/c.toml".to_owned()),
        (root.join("x").as_path(), "c.toml".to_owned()),
        (root.join("x").as_path(), "./c.toml".to_owned()),
        (root.join("x/deep").as_path(), "../c.toml".to_owned()),
    ]
    .map(|(from, config)| (from.to_owned(), config));
    // Beside the file, whose owner works there.
    let beside = [
        "lw".to_owned(),
        "./lw".to_owned(),
        "deep/../lw".to_owned(),
        text(&root.join("x/lw")),
        text(&root.join("x/deep/../lw")),
        text(&home.join("link/lw")),
    ];
    // Where neither the file nor the user is.
    let others = [
        "../other/lw".to_owned(),
        "out/lw".to_owned(),
        text(&root.join("other/lw")),
        text(&root.join("x/../other/lw")),
        text(&root.join("x/out/lw")),
        text(&home.join("link/../other/lw")),
    ];
    for (written, expected) in beside.iter().map(|beside| (beside, true)).chain(others.iter().map(|other| (other, false))) {
        fs::write(&file, format!("data_dir = {written:?}\n")).unwrap();
        for (from, config) in &names {
            assert_eq!(is_taken(from, config, &[]), expected, "{written} in {config}, from {}", from.display());
        }
    }
    // The same on the command line, from a directory of the user and from elsewhere.
    fs::write(home.join("c.toml"), "").unwrap();
    let own = text(&home.join("c.toml"));
    for given in ["lw".to_owned(), "./lw".to_owned(), text(&root.join("x/lw")), text(&home.join("link/lw"))] {
        let set = format!("data_dir={given}");
        assert!(is_taken(&root.join("x"), &own, &["--set", &set]), "{given}");
        let is_here = !Path::new(&given).is_absolute();
        assert_eq!(is_taken(home, &own, &["--set", &set]), is_here, "{given}");
    }
}

/// A command that must not wait: what it says, with its exit code; 124 where it had to be ended.
fn at_once(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("timeout");
    let output = command.args(["60", env!("CARGO_BIN_EXE_loopwarden")]).args(arguments).output().unwrap();
    (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
}

#[test]
fn a_pipe_by_its_name_and_a_device_are_refused_at_once_by_each_command_that_reads_a_file() {
    let scratch = Scratch::new("named-pipe");
    let pipe = scratch.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let events = scratch.0.join("events.ndjson");
    fs::write(&events, "{\"id\":\"1\",\"kind\":\"tool\",\"session_id\":\"s\",\"tool\":\"t\"}\n").unwrap();
    let (pipe, events) = (pipe.to_str().unwrap(), events.to_str().unwrap());
    for endless in [pipe, "/dev/zero"] {
        for (arguments, coded) in [
            (&["replay", endless][..], "E0302"),
            (&["replay", events, endless], "E0302"),
            (&["inspect", "session", "s", "--file", endless], "E0302"),
            (&["replay", events, "--labels", endless], ""),
            (&["test", endless], "E0602"),
            (&["doctor", "--try", endless], ""),
        ] {
            let (code, told) = at_once(arguments);
            assert!(matches!(code, Some(1..=78)), "{arguments:?}: {code:?} {told}");
            assert!(told.contains("may have no end") && told.contains(coded), "{arguments:?}: {told}");
        }
    }
    // What a shell has opened is meant.
    let script = format!(
        "timeout 60 $0 replay /dev/stdin < {events} && timeout 60 $0 replay <(cat {events}) && cat {events} | timeout 60 $0 replay -"
    );
    let output = Command::new("bash").args(["-c", &script, env!("CARGO_BIN_EXE_loopwarden")]).output().unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
}

/// Whether a policy file is taken, and what is said.
fn checked(scratch: &Scratch, policy: &str) -> (Option<i32>, String) {
    let file = scratch.0.join("policy.toml");
    fs::write(&file, format!("profile = \"ours\"\nbase = \"default\"\n{policy}")).unwrap();
    at_once(&["check", "--set", &format!("policy={}", file.display()), "--set", "data_dir=lw"])
}

#[test]
fn each_limit_of_a_budget_that_is_documented_is_taken_by_itself() {
    let scratch = Scratch::new("named-budget");
    for limit in ["cost_usd = 50.0", "calls = 9", "tokens = 9", "wall_ms = 9", "agents = 9"] {
        let (code, told) = checked(&scratch, &format!("[[budget]]\nname = \"acme\"\nscope = \"tenant\"\n{limit}\n"));
        assert_eq!(code, Some(0), "{limit}: {told}");
    }
}

#[test]
fn a_trial_needs_what_nobody_who_names_sessions_can_guess() {
    let scratch = Scratch::new("named-salt");
    for (salt, is_hard) in
        [("", false), ("salt = \"\"", false), ("salt = \"autumn\"", false), ("salt = \"9f0c2d7be1a64853\"", true)]
    {
        let (code, told) = checked(&scratch, &format!("[trial]\nshare = 0.5\n{salt}\n"));
        assert_eq!(code, Some(if is_hard { 0 } else { 78 }), "{salt}: {told}");
        assert!(is_hard || told.contains("E0601") && told.contains("trial.salt"), "{salt}: {told}");
    }
    assert_eq!(checked(&scratch, "[trial]\nshare = 0.0\n").0, Some(0), "without a trial none is needed");
}
