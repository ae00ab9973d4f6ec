//! How the process ends: by itself, and by a signal while it starts.

use std::process::{Command, Output, Stdio};
use std::{fs, net::TcpListener};

use loopwarden::exit_code;

use super::{Scratch, program};

/// Starts it with brokers that take connections and say nothing on them, and tells it to end.
fn told_to_end_while_it_starts(scratch: &Scratch, change: impl FnOnce(&mut Command)) -> Output {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let brokers = format!("kafka.bootstrap_servers={}", silent.local_addr().unwrap());
    let data_dir = scratch.0.join("data");
    let mut command = program();
    command.args(["run", "--data-dir", &data_dir.to_string_lossy(), "--set", &brokers, "--set", "instance=lw-0"]);
    change(&mut command);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // It asks its broker, so that it has long been listening to signals.
    drop(silent.accept().unwrap());
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    child.wait_with_output().unwrap()
}

#[test]
fn a_start_that_waits_for_brokers_ends_when_it_is_told_to() {
    let output = told_to_end_while_it_starts(&Scratch::new("early-stop"), |_| {});
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(!told.contains("E0101"), "{told}");
}

/// OpenSSL and RocksDB have such handlers; threads that are still at work would crash after them.
#[test]
#[cfg(target_os = "linux")]
fn no_handler_of_a_library_runs_when_the_process_ends() {
    let scratch = Scratch::new("handlers");
    let (source, library) = (scratch.write("crash.c", CRASH), scratch.0.join("crash.so"));
    let compiled = Command::new("cc").args(["-shared", "-fPIC", &source, "-o"]).arg(&library).status();
    assert!(compiled.is_ok_and(|status| status.success()), "a C compiler");
    let preload = |command: &mut Command| _ = command.env("LD_PRELOAD", &library);
    let ended = |arguments: &[&str]| {
        let mut command = program();
        preload(&mut command);
        command.args(arguments).output().unwrap()
    };
    // What was printed is out before.
    let version = ended(&["version"]);
    assert!(!version.stdout.is_empty());
    let cases = [
        ("an answer", version, exit_code::DONE),
        ("a mistake", ended(&["check", "--set", "lanes=none"]), exit_code::CONFIG),
        ("a usage", ended(&["rnu"]), exit_code::USAGE),
        ("a signal", told_to_end_while_it_starts(&scratch, preload), exit_code::DONE),
    ];
    for (what, output, code) in cases {
        assert_eq!(output.status.code(), Some(i32::from(code)), "{what}: {}", output.status);
    }
    // A program that runs them crashes.
    let other = Command::new("true").env("LD_PRELOAD", &library).status().unwrap();
    assert_eq!(other.code(), None, "the library has no handler: {other}");
    fs::remove_file(library).unwrap();
}

const CRASH: &str = "#include <stdlib.h>\n__attribute__((destructor)) static void at_exit(void) { abort(); }\n";
