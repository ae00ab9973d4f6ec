//! The real binary on a broker that wants tokens: from an issuer, from a file, ending while it runs, refused.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::{collections::BTreeMap, fs, path::PathBuf};

use loopwarden::{clock, clock::Deadline};

use crate::bounded::{START_WAIT, bounded};
use crate::issuer::{CLIENT, CLIENT_SECRET, Issuer, Mood, TOKEN_USER, token};
use crate::secured::{Listener, Secured, secured};
use crate::security::{Scratch, both, documented, ended, program, set, translated, world};
use crate::world::{PATIENCE, World};

/// Of tokens that end while a test runs: short enough to wait for.
const LIFE_MS: i64 = 10_000;
/// Of a token that a process starts with: a busy machine takes longer than [`LIFE_MS`] for that, and a process that brokers refuse at its start ends.
const FIRST_LIFE_MS: i64 = 40_000;

/// A command with the issuer's settings.
fn with_issuer(secured: &Secured, world: &World, issuer: &Issuer, arguments: &[&str]) -> Command {
    let secret = secured.secret("client-secret", CLIENT_SECRET);
    let mut command = with_token(secured, world, arguments);
    set(&mut command, &of_issuer(&issuer.url, &secret, &secured.file("ca.pem")));
    command
}

fn of_issuer<'a>(url: &'a str, secret: &'a str, ca: &'a str) -> [(&'static str, &'a str); 4] {
    [("oauth.token_url", url), ("oauth.client_id", CLIENT), ("oauth.client_secret_file", secret), ("oauth.ca_file", ca)]
}

fn with_token(secured: &Secured, world: &World, arguments: &[&str]) -> Command {
    let mut command = program(&secured.address(Listener::Token), &world.options, arguments);
    set(&mut command, &[("ca_file", &secured.file("ca.pem")), ("sasl_mechanism", "OAUTHBEARER")]);
    command
}

fn granted(secured: &Secured) -> World {
    let world = world(secured);
    secured.grant(&translated(&documented(), TOKEN_USER, &world.options));
    world
}

/// A process that runs.
pub(crate) struct Run {
    child: Child,
    log: PathBuf,
    _scratch: Scratch,
}

impl Run {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(name: &str, mut command: Command) -> Self {
        let scratch = Scratch::new(name);
        fs::create_dir_all(&scratch.0).expect("a directory");
        let log = scratch.0.join("log");
        command.arg("--data-dir").arg(scratch.0.join("data"));
        let mut child =
            command.stderr(fs::File::create(&log).expect("a log")).stdout(Stdio::piped()).spawn().expect("the program");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        bounded(child.id(), START_WAIT, || output.read_line(&mut line)).expect("a line");
        assert!(line.starts_with("ready: mode live"), "{line:?}\n{}", fs::read_to_string(&log).unwrap_or_default());
        Self { child, log, _scratch: scratch }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a process").is_none()
    }

    /// Waits for something.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let deadline = Deadline::after(PATIENCE * 3);
        while !is_so(self) {
            assert!(self.is_alive(), "it ended before {what}: {}", self.log());
            assert!(!deadline.is_over(), "{what} never came: {}", self.log());
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
    }

    /// A session goes round in a circle; waits for its command.
    pub(crate) fn finds(&mut self, world: &World, session: &str) {
        circle(world, session);
        self.until(&format!("the command for {session}"), |_| sessions(world).contains_key(session));
    }

    /// Stops it: no session has got two commands, and no secret was printed.
    pub(crate) fn stop(mut self, world: &World) -> String {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill").success());
        let status = bounded(self.child.id(), PATIENCE, || self.child.wait()).expect("ended");
        let log = self.log();
        assert_eq!(status.code(), Some(0), "{status}: {log}");
        assert!(!log.contains("xyzzy") && !log.contains("eyJ"), "a secret was printed: {log}");
        assert!(sessions(world).values().all(|commands| *commands == 1), "{:?}", sessions(world));
        log
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Four equal failures.
pub(crate) fn circle(world: &World, session: &str) {
    let call = |number: u32| {
        format!(
            r#"{{"id":"{session}-{number}","kind":"tool","session_id":"{session}","tool":"Bash","args":{{"command":"make"}},"result":"no rule","outcome":"error"}}"#
        )
    };
    let calls: Vec<String> = (0..4).map(call).collect();
    world.produce(&calls.iter().map(|call| (0, session, call.as_str())).collect::<Vec<_>>());
}

/// Commands of each session.
fn sessions(world: &World) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for command in world.read(&world.options.topics.commands) {
        *found.entry(String::from_utf8(command.key).expect("text")).or_default() += 1;
    }
    found
}

#[test]
fn a_lane_goes_on_while_its_tokens_end_one_after_the_other() {
    let Some(secured) = secured() else { return };
    let world = granted(secured);
    let issuer = Issuer::start(secured.dir(), FIRST_LIFE_MS);
    let checked = ended(with_issuer(secured, &world, &issuer, &["check", "--connect"]).spawn().expect("the program"));
    assert_eq!(checked.status.code(), Some(0), "{}", both(&checked));
    let mut run = Run::start("issued", with_issuer(secured, &world, &issuer, &["run"]));
    let given = issuer.given();
    issuer.shorten(LIFE_MS);
    run.finds(&world, "first");
    // By then the first one has ended, and two of those that came after it.
    run.until("four more tokens", |_| issuer.given() >= given + 4);
    run.finds(&world, "later");
    let _ = run.stop(&world);
}

#[test]
fn an_issuer_that_is_away_for_longer_than_a_token_lives_stops_nothing() {
    let Some(secured) = secured() else { return };
    let world = granted(secured);
    let issuer = Issuer::start(secured.dir(), FIRST_LIFE_MS);
    let mut run = Run::start("outage", with_issuer(secured, &world, &issuer, &["run"]));
    let given = issuer.given();
    issuer.shorten(LIFE_MS);
    run.finds(&world, "before");
    run.until("a token that ends soon", |_| issuer.given() > given);
    for mood in [Mood::HangsUp, Mood::Refuses] {
        issuer.turn(mood);
        let (asked, over) = (issuer.asked(), clock::now_ms() + LIFE_MS + 2_000);
        run.until("a token's end without another one", |_| issuer.asked() > asked && clock::now_ms() > over);
        // The broker has hung up by now: events come, and wait.
        let session = format!("{mood:?}");
        circle(&world, &session);
        let given = issuer.given();
        issuer.turn(Mood::Gives);
        run.until("a token", |_| issuer.given() > given);
        run.until("the command of the outage", |_| sessions(&world).contains_key(&session));
    }
    let log = run.stop(&world);
    assert!(log.contains("E0106") && log.contains("invalid_client"), "{log}");
}

#[test]
fn a_token_file_is_read_again_when_it_is_replaced() {
    let Some(secured) = secured() else { return };
    let world = granted(secured);
    let path = secured.file("projected");
    // As Kubernetes does it: a link to another file, in one step.
    let place = |token: &str| {
        fs::write(format!("{path}.new"), token).expect("written");
        fs::rename(format!("{path}.new"), &path).expect("replaced");
    };
    let over = clock::now_ms() + FIRST_LIFE_MS;
    place(&token(secured.dir(), "issuer.key", FIRST_LIFE_MS));
    let mut command = with_token(secured, &world, &["run"]);
    set(&mut command, &[("oauth.token_file", &path)]);
    let mut run = Run::start("projected", command);
    run.finds(&world, "first");
    place(&token(secured.dir(), "issuer.key", 3_600_000));
    run.until("the end of the first token", |_| clock::now_ms() > over + 2_000);
    run.finds(&world, "later");
    let _ = run.stop(&world);
}

#[test]
fn who_gets_no_token_or_a_wrong_one_is_told_why() {
    let Some(secured) = secured() else { return };
    let world = granted(secured);
    let issuer = Issuer::start(secured.dir(), LIFE_MS);
    let wrong = secured.secret("wrong-client-secret", "n0-secret-xyzzy");
    let forged = secured.secret("forged", &token(secured.dir(), "other-issuer.key", 3_600_000));
    let stale = secured.secret("stale", &token(secured.dir(), "issuer.key", -60_000));
    let start = |settings: &[(&str, &str)]| {
        let mut command = with_token(secured, &world, &["check", "--connect"]);
        set(&mut command, settings);
        command.spawn().expect("the program")
    };
    let (ca, other_ca) = (secured.file("ca.pem"), secured.file("other-ca.pem"));
    // Several at once: each mostly waits.
    let cases = [
        ("E0106", "invalid_client: nobody of that name", start(&of_issuer(&issuer.url, &wrong, &ca))),
        ("E0106", "certificate verify failed", start(&of_issuer(&issuer.url, &wrong, &other_ca))),
        ("E0106", "cannot be asked", start(&of_issuer("http://127.0.0.1:1/token", &wrong, &ca))),
        ("E0106", "who writes the file must renew it", start(&[("oauth.token_file", &stale)])),
        ("E0106", "No such file", start(&[("oauth.token_file", "/nonexistent/token")])),
        ("E0103", "invalid_token", start(&[("oauth.token_file", &forged)])),
    ];
    for (code, says, child) in cases {
        let output = ended(child);
        let told = both(&output);
        assert_eq!(output.status.code(), Some(69), "{says}: {told}");
        assert!(told.contains(&format!("error[{code}]")) && told.contains(says), "{says}: {told}");
        assert!(!told.contains("xyzzy") && !told.contains("eyJ"), "a secret was printed: {told}");
    }
}
