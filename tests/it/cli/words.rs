//! Words that the command line knows, and what it says to those that it does not know.

use std::io::{BufRead as _, BufReader};
use std::{fs, process::Stdio};

use loopwarden::exit_code;

use crate::cli::{Scratch, expect, program, signal, stderr, stdout};

#[test]
fn help_is_a_command_too_also_for_a_command_of_a_command() {
    let run = stdout(&expect(&["help", "run"], exit_code::DONE));
    assert!(run.contains("loopwarden run --data-dir ./lw"), "{run}");
    assert!(stdout(&expect(&["help", "topics", "create"], exit_code::DONE)).contains("--partitions"));
    assert!(!stdout(&expect(&["man"], exit_code::DONE)).contains(".SH HELP"));
}

#[test]
fn a_command_that_is_none_is_answered_with_the_one_that_was_meant_or_with_all_of_its_place() {
    for (written, told) in [
        (&["rnu"][..], "a similar subcommand exists: 'run'"),
        (&["topics", "craete"], "a similar subcommand exists: 'create'"),
        (&["topics", "diff"], "commands there: print, create, grow, check"),
        (&["help", "dcotor"], "a similar subcommand exists: 'doctor'"),
        (&["hook", "isntall", "codex"], "similar subcommands exist: 'uninstall', 'install'"),
    ] {
        let said = stderr(&expect(written, exit_code::USAGE));
        assert!(said.contains(told), "{written:?}: {said}");
    }
}

#[test]
fn where_no_process_answers_every_command_that_asks_one_has_the_command_that_starts_it() {
    let commands: [&[&str]; 7] = [
        &["doctor"],
        &["tail"],
        &["sessions", "--looping"],
        &["inspect", "session", "s"],
        &["inspect", "swarm", "s"],
        &["reset", "session", "s"],
        &["healthcheck"],
    ];
    for command in commands {
        let shown = stderr(&expect(&[command, &["--address", "127.0.0.1:1"]].concat(), exit_code::FAILED));
        assert!(
            shown.contains("start one: loopwarden run --data-dir ./lw --set http.listen=127.0.0.1:1\n"),
            "{command:?}: {shown}"
        );
    }
}

/// launchd starts again after each end that is no success.
#[test]
fn a_service_of_launchd_is_not_started_again_for_what_no_start_mends() {
    let arguments = ["run", "--set", "moed=live"];
    let shown = stderr(&expect(&arguments, exit_code::CONFIG));
    assert_eq!(stderr(&expect(&[&arguments[..], &["--launchd"]].concat(), exit_code::DONE)), shown);
    let scratch = Scratch::new("launchd");
    let store = scratch.write("no-folder", "");
    expect(&["run", "--launchd", "--data-dir", &store], exit_code::STORE);
}

#[test]
fn a_mistake_in_a_setting_names_the_flag_that_has_it() {
    let fleet = crate::cli::fleet();
    for command in [&["replay", &fleet][..], &["inspect", "session", "s", "--file", &fleet], &["learn", &fleet]] {
        let shown = stderr(&crate::cli::run(&[command, &["--set", "scor.nudge_at=3"]].concat()));
        assert!(shown.contains("unknown key \"scor\"") && shown.contains("set by --set"), "{command:?}: {shown}");
    }
}

#[test]
fn a_flag_that_is_a_setting_is_answered_with_the_setting() {
    for (written, told) in [
        (&["run", "--mode", "live"][..], "--set mode=live"),
        (&["run", "--mode=shadow"], "--set mode=shadow"),
        (&["run", "--data-dir", "lw", "--port", "8080"], "--set http.listen=127.0.0.1:8080"),
        (&["run", "--listen", "0.0.0.0:80"], "--set http.listen=0.0.0.0:80"),
        (&["check", "--policy", "mine.toml"], "--set policy=mine.toml"),
    ] {
        let said = stderr(&expect(written, exit_code::USAGE));
        assert!(said.contains(&format!("it is a setting: {told}\n")), "{written:?}: {said}");
        assert_eq!(said.matches("tip:").count(), 1, "{said}");
    }
    // Of another command it is no setting.
    assert!(!stderr(&expect(&["demo", "--mode", "live"], exit_code::USAGE)).contains("--set"));
}

#[test]
fn a_detector_is_explained_by_its_name() {
    let page = stdout(&expect(&["explain", "similar_repeat"], exit_code::DONE));
    for part in [
        "# similar_repeat\n\nOne call, or nearly the same one, with much the same answer.\n",
        "The score reaches `score.nudge_at`",
        "Its mode in the policy `default`: block",
        "[detectors.similar_repeat]\n",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    assert!(stdout(&expect(&["explain", "Exact-Repeat"], exit_code::DONE)).contains("threshold = "));
    assert!(stdout(&expect(&["explain"], exit_code::DONE)).contains("similar_repeat"));
    let said = stderr(&expect(&["explain", "similar_repaet"], exit_code::USAGE));
    assert!(said.contains("did you mean similar_repeat?"), "{said}");
}

#[test]
fn a_key_is_explained_by_its_path_and_a_table_by_its_name() {
    let page = stdout(&expect(&["explain", "budget.agents"], exit_code::DONE));
    assert!(page.starts_with("# budget.agents\n") && page.contains("\nDefault: 0\nIt is a key of a policy.\n"), "{page}");
    assert!(stdout(&expect(&["explain", "[[budget]]"], exit_code::DONE)).contains("- budget.agents: "));
    assert!(stdout(&expect(&["explain", "http.listen"], exit_code::DONE)).contains("Default: \"127.0.0.1:9464\"\n"));
    let said = stderr(&expect(&["explain", "budget.agnets"], exit_code::USAGE));
    assert!(said.contains("did you mean budget.agents?"), "{said}");
}

#[test]
fn a_process_is_named_by_its_url_or_its_address_wherever_one_is_asked() {
    for command in [&["inspect", "session", "s"][..], &["doctor"], &["healthcheck"], &["reset", "session", "s"]] {
        let written = [command, &["--url", "http://127.0.0.1:1/"]].concat();
        let said = stderr(&expect(&written, exit_code::FAILED));
        assert!(said.contains("127.0.0.1:1") && said.contains("refused"), "{written:?}: {said}");
    }
}

#[test]
fn who_starts_without_a_directory_is_told_the_flag_for_it() {
    let said = stderr(&expect(&["run"], exit_code::CONFIG));
    assert!(said.contains("error[E0202]") && said.contains("--data-dir ./lw"), "{said}");
}

#[test]
fn a_doctor_without_a_process_says_what_to_start() {
    let said = stderr(&expect(&["doctor", "--address", "127.0.0.1:1"], exit_code::FAILED));
    assert!(said.contains("start one: loopwarden run --data-dir ./lw --set http.listen=127.0.0.1:1\n"), "{said}");
    assert!(said.contains("loopwarden doctor --try FILE"), "{said}");
}

#[test]
fn an_address_that_is_taken_ends_with_the_code_after_which_no_supervisor_starts_again() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let scratch = Scratch::new("taken");
    let (dir, listen) = (scratch.0.join("lw"), format!("http.listen={}", taken.local_addr().unwrap()));
    let output = expect(&["run", "--data-dir", &dir.to_string_lossy(), "--set", &listen], exit_code::FENCED);
    assert!(stderr(&output).contains("error[E0702]"), "{}", stderr(&output));
    for unit in ["deploy/systemd/loopwarden.service", "src/loopwarden/cli/hook/manager.rs"] {
        let text = fs::read_to_string(crate::cli::root(unit)).unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("RestartPreventExitStatus=")).unwrap();
        let codes = line.trim_end_matches("\\n\\").split(' ');
        assert!(codes.map(str::parse).any(|code| code == Ok(exit_code::FENCED)), "{unit}: {line}");
    }
}

#[test]
fn a_start_logs_one_line_for_all_tasks_and_a_reset_says_in_one_line_what_became_of_it() {
    let scratch = Scratch::new("one-line");
    let dir = scratch.0.join("lw").to_string_lossy().into_owned();
    let mut child = program()
        .args(["run", "--data-dir", &dir, "--set", "http.listen=127.0.0.1:0", "--set", "lanes=2", "--log-level", "info"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
    let shown = lines.find(|line| line.contains("/ shows what goes on")).unwrap();
    let address = shown.trim().strip_prefix("http://").unwrap().split('/').next().unwrap();
    let told = stdout(&expect(&["reset", "session", "s-1", "--agent", "fixer", "--address", address], exit_code::ANSWER_IS_NO));
    assert_eq!(told, format!("reset of session s-1, agent fixer: taken by {address}\n"));
    let told = stdout(&expect(&["reset", "swarm", "w", "--url", &format!("http://{address}")], exit_code::ANSWER_IS_NO));
    assert_eq!(told, format!("reset of swarm w: taken by {address}\n"));
    drop(lines);
    signal(&child, "TERM");
    let logged = stderr(&child.wait_with_output().unwrap());
    assert_eq!(logged.matches("every task is restored").count(), 1, "{logged}");
    assert!(!logged.contains("\"task restored\"") && !logged.contains("policy_since"), "{logged}");
}

#[test]
fn a_quiet_command_says_nothing_but_its_answer_and_its_errors() {
    let scratch = Scratch::new("quiet");
    let file =
        scratch.write("events.ndjson", "{\"id\":1}\n{\"id\":\"a\",\"kind\":\"tool\",\"session_id\":\"s\",\"tool\":\"t\"}\n");
    let loud = expect(&["replay", &file], exit_code::DONE);
    assert!(stderr(&loud).contains("no event") && stderr(&loud).contains("1 event of 1 session"), "{}", stderr(&loud));
    for quiet in [&["-q", "replay", &file][..], &["replay", "--quiet", &file]] {
        let quiet = expect(quiet, exit_code::DONE);
        assert_eq!((stderr(&quiet), stdout(&quiet)), (String::new(), stdout(&loud)));
    }
    assert!(stderr(&expect(&["check", "-q", "--set", "lanes=-3"], exit_code::CONFIG)).contains("lanes is -3"));
    let level = |more: &[&str]| {
        let rows = stdout(&expect(&[&["config", "print", "--effective", "-o", "json"], more].concat(), exit_code::DONE));
        let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
        rows.iter().find(|row| row["key"] == "log.level").unwrap()["value"].as_str().unwrap().trim_matches('"').to_owned()
    };
    assert_eq!(
        (level(&["-q"]), level(&["-q", "--log-level", "debug"]), level(&[])),
        ("error".into(), "debug".into(), "info".into())
    );
}

#[test]
fn colours_are_where_they_are_wanted_and_nowhere_else() {
    let styled = |arguments: &[&str], variable: Option<&str>| {
        let mut command = program();
        command.args(arguments).env_remove("NO_COLOR");
        variable.map(|name| command.env(name, "1"));
        stdout(&command.output().unwrap()).contains('\u{1b}')
    };
    for command in [&["demo"][..], &["--help"]] {
        let with = |when: &[&'static str]| [command, when].concat();
        assert!(!styled(command, None), "{command:?} into a pipe");
        assert!(
            styled(&with(&["--color", "always"]), None) && styled(&with(&["--color=always"]), Some("NO_COLOR")),
            "{command:?}"
        );
    }
    // On a terminal.
    let on_terminal = |arguments: &str, variable: Option<&str>| {
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &format!("'{}' {arguments}", env!("CARGO_BIN_EXE_loopwarden")), "/dev/null"]);
        command.env("SHELL", "/bin/sh").env("TERM", "xterm").env_remove("NO_COLOR").stdin(Stdio::null());
        variable.map(|name| command.env(name, "1"));
        stdout(&command.output().unwrap()).contains('\u{1b}')
    };
    assert!(on_terminal("demo", None) && !on_terminal("demo", Some("NO_COLOR")));
    assert!(!on_terminal("demo --color never", None) && on_terminal("demo --color always", Some("NO_COLOR")));
}

#[test]
fn what_lists_something_lists_it_as_json_too_and_o_is_short_for_output() {
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&stdout(&expect(arguments, exit_code::DONE)))
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    };
    assert!(json(&["explain", "-o", "json"]).as_array().unwrap().iter().any(|row| row["name"] == "E0209"));
    assert!(json(&["explain", "E0209", "-o", "json"])["text"].as_str().unwrap().starts_with("# E0209"));
    assert_eq!(json(&["topics", "print", "-o", "json"]), json(&["topics", "print", "--format", "json"]));
    assert_eq!(json(&["version", "-o", "json"])["version"], env!("CARGO_PKG_VERSION"));
    let scratch = Scratch::new("status-json");
    let output =
        program().args(["hook", "status", "-o", "json", "--address", "127.0.0.1:1"]).env("HOME", &scratch.0).output().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(exit_code::ANSWER_IS_NO)));
    let status: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((status["agents"].as_array().unwrap().len(), &status["process"]["state"]), (11, &"absent".into()));
}

#[test]
fn whoever_waits_for_brokers_is_told_for_which_long_before_it_is_given_up() {
    for command in [&["check", "--connect"][..], &["topics", "check"]] {
        let mut child = program()
            .args(command)
            .args(["--set", "kafka.bootstrap_servers=127.0.0.1:1", "--set", "instance=a", "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let told = lines.find(|line| line.starts_with("waiting up to "));
        let is_waiting = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(told.as_ref().is_some_and(|told| told.contains("127.0.0.1:1")) && is_waiting, "{told:?}");
    }
}
