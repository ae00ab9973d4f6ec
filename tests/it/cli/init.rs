//! `loopwarden init`: from an empty home to a process that answers, and back by the commands that it prints.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{collections::BTreeMap, fs, io::Write as _, os::unix::fs::PermissionsExt as _};

use loopwarden::exit_code;

use super::{Scratch, program, stderr, stdout};

/// A home, and a folder of programs that stand for those of the machine.
struct Home {
    scratch: Scratch,
    address: String,
}

impl Home {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(&format!("init-{name}"));
        for folder in ["home", "bin"] {
            fs::create_dir(scratch.0.join(folder)).unwrap();
        }
        fs::write(scratch.0.join("loopwarden-hook"), "").unwrap();
        // Free a moment ago: the service of this test is to have it.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        Self { scratch, address }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.0.join(name)
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.path(&format!("bin/{name}"));
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A manager of services that starts what the unit says, waits until it is ready, and stops it.
    fn with_systemctl(self) -> Self {
        let (unit, pid) = (self.path("home/.config/systemd/user/loopwarden.service"), self.path("pid"));
        let text = format!(
            "PATH=/usr/bin:/bin\ncase \"$*\" in\n\
             *'enable --now'*) [ -e '{pid}' ] && kill -0 $(cat '{pid}') && exit 0\n\
               line=$(sed -n 's/^ExecStart=//p' '{unit}')\n\
               eval \"exec $line\" > '{log}' 2>&1 &\n echo $! > '{pid}'\n\
               for i in $(seq 600); do grep -q '^ready' '{log}' && exit 0; kill -0 $! || exit 1; sleep 0.1; done; exit 1;;\n\
             *'disable --now'*) kill $(cat '{pid}'); while kill -0 $(cat '{pid}'); do sleep 0.1; done; rm '{pid}';;\n\
             *is-active*) kill -0 $(cat '{pid}');;\nesac",
            unit = unit.display(),
            log = self.path("log").display(),
            pid = pid.display(),
        );
        self.script("systemctl", &text);
        self
    }

    fn within<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let own = Path::new(env!("CARGO_BIN_EXE_loopwarden")).parent().unwrap();
        command.env_clear().env("HOME", self.path("home")).env("HOSTNAME", "host-7");
        command.env("PATH", format!("{}:{}", self.path("bin").display(), own.display())).current_dir(self.path("home"))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = program();
        self.within(&mut command).arg("init").args(arguments).args(["--address", &self.address, "--program"]);
        command.arg(self.path("loopwarden-hook")).output().unwrap()
    }

    #[track_caller]
    fn expect(&self, arguments: &[&str], code: u8) -> (String, String) {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(i32::from(code)), "{arguments:?}\n{}\n{}", stdout(&output), stderr(&output));
        (stdout(&output), stderr(&output))
    }

    /// A command that was printed, as a person would copy it.
    #[track_caller]
    fn copied(&self, line: &str) -> String {
        let output = self.within(Command::new("/bin/sh").args(["-c", line])).env("PATH", self.shell_path()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        stdout(&output)
    }

    fn shell_path(&self) -> String {
        let own = Path::new(env!("CARGO_BIN_EXE_loopwarden")).parent().unwrap();
        format!("{}:{}:/usr/bin:/bin", self.path("bin").display(), own.display())
    }

    /// Every file below the home with its bytes, but for events and state.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        below(&self.path("home"), &mut files);
        files.retain(|path, _| !path.starts_with(self.path("home/.local")));
        files
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Ok(pid) = fs::read_to_string(self.path("pid")) {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
    }
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

/// The commands that undo what was done.
fn undoing(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.trim().strip_prefix("undo: ")).collect()
}

const LAPTOP: [&str; 7] = ["--on", "laptop", "--agent", "claude-code", "--mode", "live", "--yes"];

#[test]
fn the_first_hour_ends_with_a_process_that_answers_and_each_printed_command_undoes_its_part() {
    let home = Home::new("hour").with_systemctl();
    fs::create_dir(home.path("home/.claude")).unwrap();
    fs::write(home.path("home/.claude/settings.json"), "{ \"model\": \"x\" } // mine\n").unwrap();
    let before = home.files();
    let (said, _) = home.expect(&LAPTOP, exit_code::DONE);
    let config = home.path("home/.config/loopwarden/loopwarden.toml");
    assert!(said.contains(&format!("loopwarden answers at {}, in live mode", home.address)), "{said}");
    assert!(fs::read_to_string(home.path("home/.claude/settings.json")).unwrap().contains("loopwarden-hook"));
    let checked = home.copied(&format!("loopwarden check --config {}", config.display()));
    assert!(checked.contains("configuration  ok: mode live"), "{checked}");
    // Each command finds that file by itself; what the environment names goes before it, and nothing is named by an empty variable.
    assert_eq!(home.copied("loopwarden check"), checked);
    let named = |name: &str| home.copied(&format!("LOOPWARDEN_CONFIG={name} loopwarden check"));
    assert!(named("").contains("configuration  ok: mode shadow"), "{}", named(""));
    let other = home.path("other.toml");
    fs::write(&other, "lanes = 7\n").unwrap();
    let checked = named(&other.to_string_lossy());
    assert!(checked.contains("mode shadow, instance host-7, 7 lanes"), "{checked}");
    home.copied(&format!("loopwarden healthcheck --address {}", home.address));
    // What is there already is left, word for word.
    let (again, _) = home.expect(&LAPTOP, exit_code::DONE);
    assert_eq!(again.matches("nothing to do").count(), 3, "{again}");
    let undo = undoing(&said);
    assert_eq!(undo.len(), 4, "settings, hooks, their address, service: {said}");
    for line in undo.iter().rev() {
        home.copied(line);
    }
    assert_eq!(home.files(), before);
    assert!(!home.path("pid").exists());
    assert!(TcpStream::connect(&home.address).is_err(), "the service goes on");
}

#[test]
fn without_a_terminal_every_flag_that_is_missing_is_named_and_nothing_is_written() {
    let home = Home::new("missing");
    let before = home.files();
    let all = ["--on laptop|kafka", "--agent NAME", "--mode shadow|live", "--yes"];
    for (given, missing) in [
        (&[][..], &all[..]),
        (&["--on", "kafka", "--mode", "live", "--yes"], &["--bootstrap HOST:PORT", "--agent NAME"]),
        (&["--on", "laptop", "--agent", "none", "--mode", "live"], &["--yes"]),
    ] {
        let (_, told) = home.expect(given, exit_code::USAGE);
        let named = told.lines().next().unwrap();
        for flag in all.iter().chain(missing) {
            assert_eq!(named.contains(flag), missing.contains(flag), "{given:?}: {flag}: {told}");
        }
    }
    home.expect(&["--on", "laptop", "--bootstrap", "h:1", "--agent", "none", "--mode", "live", "--yes"], exit_code::USAGE);
    home.expect(&["--on", "laptop", "--agent", "none", "--agent", "codex", "--mode", "live", "--yes"], exit_code::USAGE);
    let bad = ["--on", "kafka", "--bootstrap", "no-port", "--agent", "none", "--mode", "live", "--yes"];
    assert!(home.expect(&bad, exit_code::CONFIG).1.contains("error[E0202]"));
    assert_eq!(home.files(), before);
}

#[test]
fn a_dry_run_shows_everything_and_writes_nothing() {
    let home = Home::new("dry").with_systemctl();
    let before = home.files();
    let (said, _) = home.expect(&["--on", "laptop", "--agent", "codex", "--mode", "shadow", "--dry-run"], exit_code::DONE);
    for part in ["+mode = \"shadow\"", "+ExecStart=", "loopwarden-hook", "would start it", ".codex/hooks.json"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert_eq!(home.files(), before);
}

#[test]
fn a_file_that_says_something_else_is_never_replaced_and_keeps_all_others_from_being_written() {
    for file in ["home/.config/loopwarden/loopwarden.toml", "home/.config/systemd/user/loopwarden.service"] {
        let home = Home::new("there").with_systemctl();
        let path = home.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "# mine\n").unwrap();
        let before = home.files();
        let (_, told) = home.expect(&LAPTOP, exit_code::CONFIG);
        assert!(told.contains("error[E0209]") && told.contains(path.to_str().unwrap()), "{told}");
        assert_eq!(home.files(), before);
    }
    let home = Home::new("theirs").with_systemctl();
    fs::create_dir_all(home.path("home/.claude")).unwrap();
    fs::write(home.path("home/.claude/settings.json"), "{ \"hooks\": ").unwrap();
    let before = home.files();
    home.expect(&LAPTOP, exit_code::FAILED);
    assert_eq!(home.files(), before, "settings of an agent that cannot be understood");
}

#[test]
fn a_fleet_gets_settings_that_pass_the_check_and_the_commands_that_come_next() {
    let home = Home::new("fleet");
    let out = home.path("home/a fleet.toml");
    let fleet = ["--on", "kafka", "--bootstrap", "b-1:9092,b-2:9092", "--agent", "none", "--mode", "shadow", "--yes", "--out"];
    let (said, _) = home.expect(&[&fleet[..], &[out.to_str().unwrap()]].concat(), exit_code::DONE);
    for verb in ["topics create", "check --connect", "run"] {
        assert!(said.contains(&format!("loopwarden {verb} --config '")), "{verb}: {said}");
    }
    let checked = home.copied(&format!("loopwarden check --config '{}'", out.display()));
    assert!(checked.contains("mode shadow") && checked.contains("settings ok: b-1:9092,b-2:9092"), "{checked}");
    for line in undoing(&said) {
        home.copied(line);
    }
    assert!(!out.exists());
}

#[test]
fn where_nothing_can_start_the_service_the_command_for_a_terminal_is_told() {
    let home = Home::new("no-systemd");
    let (said, _) = home.expect(&LAPTOP, exit_code::DONE);
    assert!(said.contains("systemd did not start the service") && said.contains("\n  loopwarden run\n"), "{said}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut other = Home::new("taken");
    other.address = taken.local_addr().unwrap().to_string();
    let (said, _) = other.expect(&LAPTOP, exit_code::DONE);
    assert!(said.contains("another process listens at"), "{said}");
}

/// What is said on a terminal that is given these keys, and the exit code.
fn typed(home: &Home, arguments: &str, keys: &str) -> (String, Option<i32>) {
    let line = format!(
        "exec '{}' init {arguments} --address {} --program '{}'",
        env!("CARGO_BIN_EXE_loopwarden"),
        home.address,
        home.path("loopwarden-hook").display()
    );
    let mut command = Command::new("script");
    home.within(&mut command).env("PATH", home.shell_path()).env("SHELL", "/bin/sh");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (stdout(&output), output.status.code())
}

#[test]
fn on_a_terminal_three_questions_are_asked_and_nothing_is_done_without_a_yes() {
    let home = Home::new("terminal").with_systemctl();
    home.script("codex", "exit 1");
    let before = home.files();
    let (said, code) = typed(&home, "", "\n\n\nno\n");
    assert_eq!(code, Some(i32::from(exit_code::ANSWER_IS_NO)), "{said}");
    for part in ["Where do events come from?", "  1  codex  (found on this machine)", "[codex] >", "In which mode?", "Do this?"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert_eq!(home.files(), before, "{said}");
    let (said, code) = typed(&home, "--on laptop --mode shadow", "none\nyes\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("In which mode?") && said.contains("in shadow mode: agents are heard"), "{said}");
    let config = fs::read_to_string(home.path("home/.config/loopwarden/loopwarden.toml")).unwrap();
    assert!(config.contains("mode = \"shadow\""), "{config}");
}
