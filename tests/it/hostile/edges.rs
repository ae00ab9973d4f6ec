//! Somebody else on the machine, or whoever sets a variable: what leaves a process, and the files that it writes for others.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver as Told, sync_channel};
use std::{fs, os::unix::fs::PermissionsExt as _, os::unix::process::CommandExt as _};

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_uid;

use crate::cli::{program, stderr, stdout};
use crate::http::client::PATIENCE;
use crate::http::{Running, Scratch, failed_call};
use crate::receiver::{Receiver, TAKES, taken};

/// A user that owns nothing.
const OTHER: u32 = 65_534;

/// A proxy that refuses everybody; what it was asked, to the first line's end.
fn proxy() -> (String, Told<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = sync_channel(64);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = Vec::new();
            let mut byte = [0];
            while !line.ends_with(b"\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                line.push(byte[0]);
            }
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
            let _ = tell.send(String::from_utf8_lossy(&line).trim().to_owned());
        }
    });
    (url, told)
}

/// An address of documentation: nobody is there.
const NOWHERE: &str = "https://192.0.2.1/hook";

#[test]
fn whoever_sets_a_proxy_in_the_environment_reads_no_token_and_no_command() {
    let scratch = Scratch::new();
    let receiver = Receiver::start(|_, _| TAKES);
    let (of_environment, seen) = proxy();
    let (wanted, by_wish) = proxy();
    let token = scratch.0.join("token");
    fs::write(&token, "s3cret").unwrap();
    let token = format!("token_file = \"{}\"\n", token.display());
    let near = format!("http://{}/hook", receiver.address);
    let soon = "connect_ms_max = 50\nrequest_ms_max = 100\n";
    let table = |name: &str, url: &str, more: &str| format!("[[webhook]]\nname = \"{name}\"\nurl = \"{url}\"\n{token}{more}\n");
    let config = scratch.0.join("loopwarden.toml");
    // The last one asks for a proxy, so that it is seen that proxies see what is sent by them.
    let tables =
        table("near", &near, "") + &table("far", NOWHERE, soon) + &table("wish", NOWHERE, &format!("proxy = \"{wanted}\"\n"));
    fs::write(&config, tables).unwrap();
    let variables = ["ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "http_proxy", "https_proxy"]
        .map(|name| (name, of_environment.as_str()));
    let arguments = ["--log-level", "warn", "--config", &config.to_string_lossy()];
    let running = Running::within(&scratch.0, &variables, ("run", &arguments), &[]);
    (1..=4).for_each(|number| running.accept(&failed_call("s", number)));
    let requests = receiver.until("a command", |seen| !taken(seen).is_empty());
    assert_eq!(requests[0].header("authorization"), Some("Bearer s3cret"));
    assert_eq!(by_wish.recv().unwrap(), "CONNECT 192.0.2.1:443 HTTP/1.1");
    let failed = "loopwarden_webhook_requests_total{webhook=\"far\",answer=\"none\"} ";
    running.until("/metrics", |answer| {
        answer.text.lines().find_map(|line| line.strip_prefix(failed)).is_some_and(|count| count != "0")
    });
    assert_eq!(running.terminate(), Some(0));
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
}

/// Whoever gives out tokens: it has none. What it was asked, head by head.
fn issuer() -> (String, Told<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = sync_channel(64);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let _ = stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = tell.send(String::from_utf8_lossy(&head).to_lowercase());
        }
    });
    (url, told)
}

#[test]
fn whoever_sets_a_proxy_in_the_environment_reads_no_secret_that_asks_for_a_token() {
    let scratch = Scratch::new();
    let (of_environment, seen) = proxy();
    let (issuer, asked) = issuer();
    let secret = scratch.0.join("secret");
    fs::write(&secret, "s3cret").unwrap();
    let (token_url, secret) = (format!("kafka.oauth.token_url={issuer}/token"), secret.display());
    let secret = format!("kafka.oauth.client_secret_file={secret}");
    let of_issuer = ["kafka.sasl_mechanism=OAUTHBEARER", &token_url, "kafka.oauth.client_id=lw", &secret];
    let of_container = ["kafka.sasl_mechanism=AWS_MSK_IAM", "kafka.aws_region=eu-west-1"];
    for (settings, path, shown) in [(&of_issuer[..], "post /token ", "basic "), (&of_container[..], "get /role ", "s3cret")] {
        let mut command = program();
        command.args(["topics", "check", "--set", "kafka.bootstrap_servers=127.0.0.1:1"]);
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        for name in ["ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "http_proxy", "https_proxy"] {
            command.env(name, &of_environment);
        }
        for name in ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "NO_PROXY", "no_proxy"] {
            command.env_remove(name);
        }
        command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{issuer}/role"));
        command.env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "s3cret");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let head = asked.recv_timeout(PATIENCE);
        let _ = child.kill();
        child.wait().unwrap();
        let head =
            head.unwrap_or_else(|error| panic!("{path}: {error}; the proxy saw {:?}", seen.try_iter().collect::<Vec<_>>()));
        assert!(head.starts_with(path) && head.contains(&format!("\r\nauthorization: {shown}")), "{head}");
    }
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn another_user_who_has_taken_the_address_reads_no_call_of_a_server_behind_the_proxy() {
    if !geteuid().is_root() {
        println!("skipped: only root can be another user");
        return;
    }
    let (tell, told) = sync_channel(64);
    // The user is that of a thread, and of what it opens.
    std::thread::spawn(move || {
        set_thread_uid(Uid::from_raw(OTHER)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        tell.send(listener.local_addr().unwrap().to_string()).unwrap();
        for stream in listener.incoming() {
            let mut bytes = String::new();
            let _ = TcpStream::read_to_string(&mut stream.unwrap(), &mut bytes);
            tell.send(bytes).unwrap();
        }
    });
    let address = told.recv().unwrap();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"s3cret"}}}"#;
    let mut child = program()
        .args(["mcp-proxy", "--address", &address, "--", "cat"])
        .env("LOOPWARDEN_HOOK_WAIT_MS", "10000")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(format!("{call}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output).trim(), call, "the call runs");
    assert!(stderr(&output).contains("user 65534 listens there"), "{}", stderr(&output));
    assert_eq!(told.recv().unwrap(), "");
    // Who has installed hooks is told whom they do not speak to.
    let home = Home::new("status");
    let output = program().args(["hook", "status", "gemini", "--address", &address]).env("HOME", &home.0).output().unwrap();
    assert!(stdout(&output).contains(&format!("no loopwarden at {address}: user 65534 listens there")), "{}", stdout(&output));
}

/// A home that other users can reach, removed at its end.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lw-edges-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn who_may_not_read_the_settings_of_an_agent_reads_no_copy_of_them() {
    for mode in [0o600, 0o640, 0o400] {
        let home = Home::new("settings");
        let folder = home.0.join(".claude");
        fs::create_dir(&folder).unwrap();
        let settings = folder.join("settings.json");
        fs::write(&settings, r#"{"env":{"KEY":"s3cret"}}"#).unwrap();
        fs::set_permissions(&settings, fs::Permissions::from_mode(mode)).unwrap();
        let done = |verb: &str| {
            // Everything that a process creates is open to all, unless it says something else.
            let script =
                format!("umask 0; exec '{}' hook {verb} claude-code --program /bin/true", env!("CARGO_BIN_EXE_loopwarden"));
            let mut command = Command::new("sh");
            let output = command.args(["-c", &script]).env_clear().env("HOME", &home.0).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
        };
        for verb in ["install", "uninstall", "install"] {
            done(verb);
            let mut found = Vec::new();
            files(&folder, &mut found);
            assert!(!found.is_empty());
            for path in &found {
                let text = fs::read_to_string(path).unwrap();
                assert!(text.contains("s3cret"), "{}: {text}", path.display());
                let rights = fs::metadata(path).unwrap().permissions().mode() & 0o777;
                assert_eq!(rights, mode, "{} after {verb}", path.display());
                if geteuid().is_root() {
                    let read = Command::new("cat").arg(path).uid(OTHER).gid(OTHER).output().unwrap();
                    assert!(!read.status.success() && read.stdout.is_empty(), "{} after {verb}", path.display());
                }
            }
        }
        let mut found = Vec::new();
        files(&folder, &mut found);
        assert_eq!(found.len(), 2, "the settings and their copy: {found:?}");
    }
}
