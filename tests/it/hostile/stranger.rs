//! Another user who has taken the address of a process that is away: no command sends him a token, or believes him.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Output, Stdio};
use std::{fs, sync::mpsc};

use rustix::thread::set_thread_uid;

use crate::cli::{Scratch, program, stderr};
use crate::hostile::neighbours::{NOBODY, is_root};

/// A request with all of its body, or what came until the end: of what is not read the client would hear a reset.
fn request(stream: &mut TcpStream) -> String {
    let (mut sent, mut part) = (String::new(), [0; 4_096]);
    loop {
        let read = stream.read(&mut part).unwrap_or_default();
        sent.push_str(&String::from_utf8_lossy(&part[..read]));
        let lower = sent.to_lowercase();
        let is_whole = lower.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            body.len() >= length.unwrap_or(0)
        });
        if read == 0 || is_whole {
            return sent;
        }
    }
}

/// What each connection of a listener of another user has sent; it answers that all is well.
fn listener() -> (String, mpsc::Receiver<String>) {
    let (tell, told) = mpsc::sync_channel(1_024);
    // The user is that of a thread, and of what it opens.
    std::thread::spawn(move || {
        set_thread_uid(rustix::process::Uid::from_raw(NOBODY)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        tell.send(listener.local_addr().unwrap().to_string()).unwrap();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let sent = request(&mut stream);
            let body = r#"{"id":"i","until":"2099-01-01T00:00:00Z","in_force":true,"released":true,"judged":true}"#;
            let _ = write!(stream, "HTTP/1.1 202 Accepted\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            if tell.send(sent).is_err() {
                return;
            }
        }
    });
    (told.recv().unwrap(), told)
}

/// Runs a command with the token of an operator against an address.
fn asked(home: &Path, address: &str, arguments: &[&str]) -> Output {
    let token = format!("http.token_file={}", home.join("token").display());
    let mut command = program();
    command.env("HOME", home).args(arguments).args(["--address", address]);
    // A probe has no token.
    if arguments[0] != "healthcheck" {
        command.args(["--set", &token]);
    }
    command.output().unwrap()
}

const EPISODE: &str = "0N3YD0FVQ1BGZM77K0D4YHYM5A";

#[test]
fn no_command_sends_anything_to_another_user_who_has_taken_the_address_or_believes_him() {
    if !is_root() {
        println!("skipped: a listener of another user, which root alone can make");
        return;
    }
    let (address, told) = listener();
    let scratch = Scratch::new("stranger");
    fs::write(scratch.0.join("token"), "operators-secret\n").unwrap();
    for arguments in [
        &["stop", "--session", "s", "--reason", "r", "--for", "5m"][..],
        &["stop", "--tenant", "t", "--dry-run"],
        &["release", "--session", "s"],
        &["answer", EPISODE, "--session", "s", "--right"],
        &["reset", "session", "s"],
        &["reset", "swarm", "w"],
        &["sessions"],
        &["tail"],
        &["doctor"],
        &["inspect", "session", "s"],
        &["inspect", "swarm", "w"],
        &["healthcheck"],
    ] {
        let output = asked(&scratch.0, &address, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("user 65534 listens there"), "{arguments:?}: {}", stderr(&output));
        assert_eq!(told.recv().unwrap(), "", "{arguments:?}");
    }
    // A guard beside an agent asks the same process: for commands, with what it has heard, and again and again.
    let guard =
        ["guard", "--upstream", &format!("http://{address}"), "--upstream-token-file", "token", "--listen", "127.0.0.1:0"];
    let mut child = program().current_dir(&scratch.0).env("HOME", &scratch.0).args(guard).stdout(Stdio::null()).spawn().unwrap();
    for _ in 0..3 {
        assert_eq!(told.recv().unwrap(), "", "a guard");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // All that came before this was heard.
    TcpStream::connect(&address).unwrap().write_all(b"the end").unwrap();
    let rest: Vec<String> = told.iter().take_while(|sent| sent != "the end").collect();
    assert!(rest.iter().all(String::is_empty), "{rest:?}");
    // Whom an administrator has named is spoken to, with the token.
    fs::create_dir_all(scratch.0.join(".config/loopwarden")).unwrap();
    fs::write(scratch.0.join(".config/loopwarden/hook-uid"), NOBODY.to_string()).unwrap();
    let output = asked(&scratch.0, &address, &["stop", "--session", "s", "--reason", "r", "--for", "5m"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(told.recv().unwrap().contains("Authorization: Bearer operators-secret"));
}
