//! `loopwarden hook` and the process that answers: its mode, its service, and what is said where there is none.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Output};

use loopwarden::exit_code;

use super::{Scratch, program, stderr, stdout};

/// A home, and a folder of programs that stand for those of the machine.
struct Home(Scratch);

impl Home {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(&format!("answering-{name}"));
        for folder in ["home", "bin"] {
            fs::create_dir(scratch.0.join(folder)).unwrap();
        }
        fs::write(scratch.0.join("loopwarden-hook"), "").unwrap();
        Self(scratch)
    }

    /// A manager of services that writes down what it is asked, and ends with a code.
    fn with_systemctl(self, code: u8) -> Self {
        let path = self.path("bin/systemctl");
        let text = format!("#!/bin/sh\necho \"$@\" >> '{}'\nexit {code}\n", self.path("asked").display());
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.0.join(name)
    }

    fn unit(&self) -> PathBuf {
        self.path("home/.config/systemd/user/loopwarden.service")
    }

    fn run(&self, address: SocketAddr, arguments: &[&str]) -> Output {
        let mut command = program();
        command.env_clear().env("HOME", self.path("home")).env("PATH", self.path("bin")).current_dir(self.path("home"));
        command.arg("hook").args(arguments).args(["--address", &address.to_string(), "--program"]);
        command.arg(self.path("loopwarden-hook")).output().unwrap()
    }

    fn done(&self, address: SocketAddr, arguments: &[&str]) -> String {
        let output = self.run(address, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }
}

/// Nobody listens there.
fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

/// A process of this mode. It answers for as long as the test runs.
fn process(mode: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap_or_default();
            let is_version = request[..read].starts_with(b"GET /version ");
            let body = if is_version { format!("{{\"mode\":\"{mode}\"}}") } else { "ok\n".to_owned() };
            // Who only looks whether somebody is here has gone.
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{body}").as_bytes());
        }
    });
    address
}

#[test]
fn whoever_installs_or_looks_is_told_at_once_that_a_process_in_shadow_tells_agents_nothing() {
    let home = Home::new("shadow");
    let shadow = process("shadow");
    for command in [&["install", "gemini"][..], &["status", "gemini"], &["status"]] {
        let said = home.done(shadow, command);
        assert!(said.contains("in shadow mode: agents are heard, and nothing is told to them\n"), "{command:?}: {said}");
        assert!(said.contains("--set mode=live"), "{command:?}: {said}");
    }
    let live = process("live");
    for command in [&["install", "gemini"][..], &["status", "gemini"]] {
        let said = home.done(live, command);
        assert!(said.contains(", in live mode\n") && !said.contains("in shadow mode"), "{command:?}: {said}");
    }
}

#[test]
fn where_no_process_answers_the_command_that_starts_one_is_told() {
    let home = Home::new("nobody");
    for command in [&["install", "codex"][..], &["status", "codex"]] {
        let said = home.done(nobody(), command);
        assert!(said.contains("no loopwarden at 127.0.0.1:1: ") && said.contains("nothing is told to them\n"), "{said}");
        assert!(said.contains("loopwarden run --data-dir ./lw --set http.listen=127.0.0.1:1 --set mode=live\n"), "{said}");
    }
}

#[test]
fn status_without_an_agent_lists_all_of_them() {
    let home = Home::new("list");
    assert_eq!(home.run(nobody(), &["status"]).status.code(), Some(i32::from(exit_code::ANSWER_IS_NO)));
    home.done(nobody(), &["install", "gemini"]);
    home.done(nobody(), &["install", "codex"]);
    fs::create_dir(home.path("home/.qwen")).unwrap();
    fs::write(home.path("home/.qwen/settings.json"), "{ broken").unwrap();
    let said = home.done(nobody(), &["status"]);
    let line = |agent: &str| said.lines().find(|line| line.starts_with(&format!("{agent} "))).unwrap_or_default();
    assert!(line("gemini").ends_with(" installed"), "{said}");
    assert!(line("codex").contains("installed; 0 of 5 trusted"), "{said}");
    assert!(line("claude-code").ends_with(" no hooks of loopwarden"), "{said}");
    // A file that is not understood hides nothing of the others.
    assert!(line("qwen").contains("settings.json") && line("antigravity").ends_with(" no hooks of loopwarden"), "{said}");
}

#[test]
fn a_service_that_was_written_is_told_when_hooks_go_and_is_stopped_and_removed_when_it_is_asked_for() {
    let home = Home::new("service").with_systemctl(0);
    home.done(nobody(), &["install", "gemini", "--local"]);
    assert!(home.done(nobody(), &["install", "gemini", "--local"]).contains("loopwarden.service: nothing to do\n"));
    let said = home.done(nobody(), &["uninstall", "gemini"]);
    assert!(said.contains("the service that --local wrote is still there: "), "{said}");
    assert!(said.contains("loopwarden hook uninstall gemini --local\n"), "{said}");
    assert!(home.done(nobody(), &["uninstall", "gemini", "--local", "--dry-run"]).contains("would stop the service and remove"));
    assert!(home.unit().exists() && !home.path("asked").exists());
    fs::create_dir_all(home.path("home/.local/state/loopwarden")).unwrap();
    let said = home.done(nobody(), &["uninstall", "gemini", "--local"]);
    assert!(said.contains("stopped the service\n") && said.contains("its data stay: "), "{said}");
    assert!(!home.unit().exists());
    let asked = fs::read_to_string(home.path("asked")).unwrap();
    assert_eq!(asked, "--user disable --now loopwarden\n--user daemon-reload\n");
    // Twice is once.
    assert!(home.done(nobody(), &["uninstall", "gemini", "--local"]).contains("loopwarden.service: nothing to do\n"));
    assert!(!home.done(nobody(), &["uninstall", "gemini"]).contains("still there"));
}

#[test]
fn a_service_goes_without_systemctl_too_and_one_of_somebody_else_stays() {
    let home = Home::new("without");
    home.done(nobody(), &["install", "gemini", "--local"]);
    let said = home.done(nobody(), &["uninstall", "gemini", "--local"]);
    assert!(said.contains("systemctl is not here") && !home.unit().exists(), "{said}");
    fs::create_dir_all(home.unit().parent().unwrap()).unwrap();
    fs::write(home.unit(), "[Unit]\nDescription=mine\n").unwrap();
    assert!(!home.done(nobody(), &["uninstall", "gemini"]).contains("still there"));
    let output = home.run(nobody(), &["uninstall", "gemini", "--local"]);
    assert_eq!(output.status.code(), Some(i32::from(exit_code::FAILED)));
    assert!(home.unit().exists(), "{}", stderr(&output));
}

#[test]
fn a_service_whose_address_another_process_has_is_warned_of_and_one_that_runs_is_not() {
    let taken = process("shadow");
    let said = Home::new("taken").with_systemctl(3).done(taken, &["install", "gemini", "--local"]);
    assert!(said.contains(&format!("warning: another process listens at {taken} already")), "{said}");
    let said = Home::new("runs").with_systemctl(0).done(taken, &["install", "gemini", "--local"]);
    assert!(!said.contains("warning: another") && said.contains("systemctl --user restart loopwarden\n"), "{said}");
    assert!(!Home::new("free").done(nobody(), &["install", "gemini", "--local"]).contains("another process"));
}
