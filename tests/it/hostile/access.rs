//! Whoever reaches the listener, with and without a token: what each role may do, and of which tenants.

use std::{collections::BTreeSet, fs};

use loopwarden::http::routes::ROUTES;
use serde_json::{Value, json};

use crate::hostile::neighbours::{NOBODY, as_user, is_root};
use crate::http::client::{Answer, Client};
use crate::http::{Running, Scratch, failed_call};

/// Tokens of these tests: name, roles, tenants. Each is its name with `-secret` behind it.
const TOKENS: [(&str, &str, Option<&str>); 5] = [
    ("source-acme", "source", Some("acme")),
    ("reader-acme", "reader", Some("acme")),
    ("operator-acme", "operator", Some("acme")),
    ("source-globex", "source", Some("globex")),
    ("operator", "operator", None),
];

/// A live process with those tokens.
pub(super) fn with_tokens(scratch: &Scratch, settings: &[&str]) -> Running {
    let mut text = String::new();
    for (name, roles, tenants) in TOKENS {
        fs::write(scratch.0.join(name), format!("{name}-secret\n")).unwrap();
        let tenants = tenants.map(|tenants| format!("tenants = {tenants:?}\n")).unwrap_or_default();
        text.push_str(&format!("[[token]]\nname = {name:?}\nfile = {name:?}\nroles = {roles:?}\n{tenants}"));
    }
    // For everything: the greeting has a line to try that shows it.
    fs::write(scratch.0.join("everything"), "everything-secret\n").unwrap();
    let text = format!("[http]\ntoken_file = \"everything\"\n{text}");
    let file = scratch.0.join("tokens.toml");
    fs::write(&file, text).unwrap();
    let arguments = ["--log-level", "warn", "--config", file.to_str().unwrap()];
    Running::start_with(&scratch.0, &arguments, &[&["mode=live"], settings].concat())
}

/// The header that shows a token.
pub(super) fn bearer(name: &str) -> String {
    format!("Bearer {name}-secret")
}

pub(super) fn send(client: &Client, token: &str, method: &str, path: &str, body: &str) -> Answer {
    let media = if path.starts_with("/v1/events") { "application/x-ndjson" } else { "application/json" };
    client.send(method, path, &[("authorization", &bearer(token)), ("content-type", media)], body.as_bytes())
}

pub(super) fn of_tenant(tenant: &str, mut event: Value) -> Value {
    event["tenant"] = tenant.into();
    event
}

/// An address for a route, with something for its parameters. A stream has no end to wait for; a poll has.
pub(super) fn address_of(path: &str) -> String {
    let filled: Vec<&str> = path.split('/').map(|part| if part.starts_with('{') { "0" } else { part }).collect();
    let path = filled.join("/");
    if path == "/v1/commands" { format!("{path}?wait=0") } else { path }
}

/// Who gets past the door of each route: nobody known from elsewhere, another user of this host, a source of a tenant, a reader of it, an
/// operator of all, the person at this host. `+` is an answer of the route itself, whatever it is.
pub(super) const MATRIX: [(&str, &str, &str); 35] = [
    ("GET", "/", "- - - - + +"),
    ("GET", "/livez", "+ + + + + +"),
    ("GET", "/readyz", "+ + + + + +"),
    ("GET", "/ready", "+ + + + + +"),
    ("GET", "/startupz", "+ + + + + +"),
    ("GET", "/metrics", "+ + + + + +"),
    ("GET", "/version", "+ + + + + +"),
    ("GET", "/docs/", "+ + + + + +"),
    ("GET", "/docs/{file}", "+ + + + + +"),
    ("GET", "/docs/errors/{file}", "+ + + + + +"),
    ("GET", "/config", "- - - - + +"),
    ("GET", "/policy", "- - - - + +"),
    ("GET", "/log-level", "- - - - + +"),
    ("PUT", "/log-level", "- - - - + +"),
    ("GET", "/overview", "- - - - + +"),
    ("GET", "/tasks", "- - - - + +"),
    ("GET", "/tasks/{stage}/{partition}", "- - - - + +"),
    ("GET", "/sessions", "- - - + + +"),
    ("GET", "/sessions/{id}", "- - - + + +"),
    ("GET", "/swarms/{id}", "- - - + + +"),
    ("POST", "/v1/events", "- - + - + +"),
    ("POST", "/v1/traces", "- - + - - +"),
    ("POST", "/v1/logs", "- - + - - +"),
    ("POST", "/v1/metrics", "- - + - - +"),
    ("GET", "/v1/events", "- - - + - +"),
    ("GET", "/v1/stops", "- - - + + +"),
    ("POST", "/v1/stops", "- - - - + +"),
    ("DELETE", "/v1/stops", "- - - - + +"),
    ("POST", "/v1/answers", "- - - - + +"),
    // The link is the credential, and this one is none.
    ("GET", "/a/{token}", "+ + + + + +"),
    ("POST", "/a/{token}", "+ + + + + +"),
    ("GET", "/v1/commands", "- - - + - +"),
    ("GET", "/v1/state/{session_id}", "- - - + - +"),
    ("POST", "/v1/check", "- - + - - +"),
    ("POST", "/v1/hooks/{agent}", "- - + - - +"),
];

#[test]
fn each_route_lets_in_those_it_is_for_and_nobody_else() {
    let scratch = Scratch::new();
    let running = with_tokens(&scratch, &[]);
    let client = &running.client;
    let routes = ROUTES.iter().filter(|route| route.is_of_process());
    let routes: BTreeSet<(&str, &str)> = routes.map(|route| (route.method, route.path)).collect();
    assert_eq!(routes, MATRIX.iter().map(|(method, path, _)| (*method, *path)).collect(), "a route that nobody thought of");
    if !is_root() {
        println!("skipped: requests of another user, which root alone can make");
    }
    for (method, path, who) in MATRIX {
        let address = address_of(path);
        let body: &[u8] = if method == "PUT" { b"warn" } else { b"" };
        let elsewhere = [("x-forwarded-for", "10.0.0.1")];
        let shown = |name: &str| client.send(method, &address, &[("authorization", &bearer(name))], body);
        let answers = [
            Some(client.send(method, &address, &elsewhere, body)),
            is_root().then(|| as_user(NOBODY, client, method, &address, &[], body)),
            Some(shown("source-acme")),
            Some(shown("reader-acme")),
            Some(shown("operator")),
            Some(client.send(method, &address, &[], body)),
        ];
        for (place, (answer, expected)) in answers.iter().zip(who.split(' ')).enumerate() {
            let Some(answer) = answer else { continue };
            let is_in = !matches!(answer.status, 401 | 403);
            assert_eq!(is_in, expected == "+", "{method} {path}, {place}: {} {}", answer.status, answer.text);
            if !is_in {
                // Who shows no token is told that one would help, and who has one that it is not enough.
                assert_eq!(answer.status == 401, place < 2, "{method} {path}, {place}: {}", answer.text);
            }
            assert!(answer.status < 500, "{method} {path}, {place}: {}", answer.text);
        }
    }
    assert_eq!(running.terminate(), Some(0));
}

/// What `/v1/check` says about one more of the calls that fail.
fn decision(client: &Client, token: &str, session: &str) -> Value {
    let mut event = failed_call(session, 9_999);
    event["kind"] = "tool_call".into();
    event.as_object_mut().unwrap().remove("outcome");
    let answer = send(client, token, "POST", "/v1/check", &json!({ "event": event, "record": false }).to_string());
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["decision"].clone()
}

/// Sends calls of a source until its session is blocked.
fn until_blocked(running: &Running, token: &str, session: &str) {
    for number in 1..=10 {
        let answer = send(&running.client, token, "POST", "/v1/events", &failed_call(session, number).to_string());
        assert_eq!((answer.status, answer.json()["accepted"].as_u64()), (202, Some(1)), "{}", answer.text);
    }
    let is_block = |commands: &[Value]| commands.iter().any(|command| command["action"] == "block");
    running.commands_until(&format!("session_id={session}"), is_block);
    // The guard hears of a commit before the feed does.
    assert_eq!(decision(&running.client, token, session), "deny");
}

#[test]
fn an_agent_lifts_its_own_block_neither_by_a_reset_nor_by_beginning_or_ending() {
    let scratch = Scratch::new();
    let running = with_tokens(&scratch, &["http.local=token"]);
    let client = &running.client;
    let source = "source-acme";
    // The person at this host has no other way than a token of his own here.
    assert_eq!(client.get("/v1/commands?wait=0").status, 401);
    for number in 1..=10 {
        send(client, source, "POST", "/v1/events", &failed_call("s", number).to_string());
    }
    let commands = |after: &str| {
        let answer = send(client, "reader-acme", "GET", &format!("/v1/commands?wait=30s&after={after}"), "").json();
        (answer["commands"].as_array().unwrap().clone(), answer["next"].as_str().unwrap().to_owned())
    };
    let (mut all, mut next) = commands("0");
    while !all.iter().any(|command| command["action"] == "block") {
        let (more, after) = commands(&next);
        assert!(!more.is_empty(), "never blocked: {all:?}");
        (all, next) = ([all, more].concat(), after);
    }
    assert_eq!(decision(client, source, "s"), "deny");
    for scope in ["agent", "session", "swarm"] {
        let reset = json!({ "id": scope, "kind": "reset", "scope": scope, "session_id": "s", "swarm_id": "w" }).to_string();
        let answer = send(client, source, "POST", "/v1/events", &reset);
        assert_eq!((answer.status, &answer.json()["rejected"][0]["reason"]), (422, &json!("not_permitted")), "{}", answer.text);
        assert!(answer.json()["rejected"][0]["message"].as_str().unwrap().contains("role operator"), "{}", answer.text);
        let check = format!(r#"{{"event":{reset}}}"#);
        let answer = send(client, source, "POST", "/v1/check", &check);
        assert_eq!((answer.status, &answer.json()["title"]), (403, &json!("not_permitted")), "{}", answer.text);
    }
    let session = |hook: &str| json!({ "session_id": "s", "hook_event_name": hook, "source": "startup", "reason": "clear" });
    for hook in ["SessionStart", "SessionEnd", "SessionStart"] {
        assert_eq!(send(client, source, "POST", "/v1/hooks/claude-code", &session(hook).to_string()).status, 200);
    }
    for (at, kind) in ["session_start", "session_end", "session_start", "progress"].iter().enumerate() {
        let event = json!({ "id": format!("bound-{at}"), "kind": kind, "session_id": "s" }).to_string();
        assert_eq!(send(client, source, "POST", "/v1/events", &event).status, 202);
    }
    // Behind all of that in the same partition, and answered when that was judged.
    let after = json!({ "event": of_tenant("acme", failed_call("s", 77)) }).to_string();
    assert_eq!(send(client, source, "POST", "/v1/check", &after).status, 200);
    assert_eq!(decision(client, source, "s"), "deny", "it freed itself");
    // An operator can, and the command says who.
    let operator = scratch.0.join("operator-acme");
    let mut reset = std::process::Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    reset.args(["reset", "session", "s", "--tenant", "acme", "--address", client.address()]);
    let output = reset.args(["--set", &format!("http.token_file={}", operator.display())]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let is_lifted = |all: &[Value]| all.iter().any(|command| command["action"] == "unblock");
    while !is_lifted(&all) {
        let (more, after) = commands(&next);
        assert!(!more.is_empty(), "never lifted: {all:?}");
        (all, next) = ([all, more].concat(), after);
    }
    let unblock = all.iter().find(|command| command["action"] == "unblock").unwrap();
    assert_eq!(
        (&unblock["labels"]["actor"], &unblock["reason"]["code"]),
        (&json!("operator-acme"), &json!("reset")),
        "{unblock}"
    );
    assert_eq!(decision(client, source, "s"), "allow");
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn an_operator_answers_commands_of_his_tenants_and_of_no_other() {
    let scratch = Scratch::new();
    let running = with_tokens(&scratch, &[]);
    let client = &running.client;
    until_blocked(&running, "source-globex", "theirs");
    until_blocked(&running, "source-acme", "ours");
    let commands = running.commands("after=0&wait=0s").0;
    let of = |session: &str| commands.iter().find(|command| command["session_id"] == session).unwrap().clone();
    let answer = |token: &str, body: Value| {
        let answer = send(client, token, "POST", "/v1/answers", &body.to_string());
        (answer.status, answer.json()["error"].clone())
    };
    let by_id = |session: &str| json!({ "command_id": of(session)["id"], "answer": "false_alarm" });
    let by_names = |session: &str, tenant: &str| json!({ "session_id": session, "episode": of(session)["episode"], "tenant": tenant, "answer": "false_alarm" });
    // Of another tenant is as if there were none: an id says nothing.
    assert_eq!(answer("operator-acme", by_id("theirs")), (404, json!("no_such_command")));
    assert_eq!(answer("operator-acme", by_names("theirs", "globex")), (403, json!("foreign_tenant")));
    for token in ["source-globex", "source-acme", "reader-acme"] {
        assert_eq!(answer(token, by_id("ours")), (403, json!("role_missing")), "{token}");
    }
    assert_eq!([decision(client, "source-globex", "theirs"), decision(client, "source-acme", "ours")], ["deny", "deny"]);
    assert_eq!(answer("operator-acme", by_id("ours")).0, 202);
    assert_eq!([decision(client, "source-globex", "theirs"), decision(client, "source-acme", "ours")], ["deny", "allow"]);
    assert_eq!(answer("operator", by_id("theirs")).0, 202);
    assert_eq!(decision(client, "source-globex", "theirs"), "allow");
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_source_speaks_for_its_own_tenant_and_for_no_other() {
    let scratch = Scratch::new();
    let running = with_tokens(&scratch, &[]);
    let client = &running.client;
    let lines = [
        of_tenant("acme", failed_call("a", 1)),
        failed_call("a", 2),
        of_tenant("globex", failed_call("a", 3)),
        of_tenant("Acme", failed_call("a", 4)),
        json!({ "id": "r", "kind": "reset", "session_id": "a", "tenant": "globex" }),
    ];
    let body = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let answer = send(client, "source-acme", "POST", "/v1/events", &body);
    let told = answer.json();
    let reasons: Vec<&str> = told["rejected"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert_eq!((answer.status, &told["accepted"]), (202, &json!(2)), "{told}");
    assert_eq!(reasons, ["foreign_tenant", "foreign_tenant", "not_permitted"]);
    let cloud = json!({
        "specversion": "1.0", "id": "c", "source": "x", "type": "t", "datacontenttype": "application/json",
        "data": of_tenant("globex", failed_call("a", 5)),
    });
    let headers = [("authorization", bearer("source-acme")), ("content-type", "application/cloudevents+json".to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer = client.send("POST", "/v1/events", &headers, cloud.to_string().as_bytes());
    assert_eq!((answer.status, &answer.json()["rejected"][0]["reason"]), (422, &json!("foreign_tenant")), "{}", answer.text);
    for (tenant, status) in [("globex", 403), ("", 400)] {
        let check = json!({ "event": of_tenant(tenant, failed_call("a", 6)) }).to_string();
        let answer = send(client, "source-acme", "POST", "/v1/check", &check);
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let answer = send(client, "source-acme", "POST", "/v1/check", &json!({ "event": failed_call("a", 7) }).to_string());
    assert_eq!((answer.status, &answer.json()["recorded"]), (200, &json!(true)), "{}", answer.text);
    // An operator of one tenant resets nothing of another.
    for (tenant, status) in [("globex", 422), ("acme", 202)] {
        let reset = json!({ "id": tenant, "kind": "reset", "session_id": "a", "tenant": tenant }).to_string();
        assert_eq!(send(client, "operator-acme", "POST", "/v1/events", &reset).status, status, "{tenant}");
    }
    let kept = client.whole("/v1/events", None).text;
    let kept: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(kept.len(), 4, "{kept:?}");
    assert!(kept.iter().all(|event| event["tenant"] == "acme"), "{kept:?}");
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_reader_sees_what_is_of_its_tenant_and_nothing_of_others() {
    let scratch = Scratch::new();
    let running = with_tokens(&scratch, &[]);
    let client = &running.client;
    let mut stream = client.follow_as("", None, Some(&bearer("reader-acme")));
    // The same session name in two tenants, and in none.
    until_blocked(&running, "source-globex", "shared");
    (1..=4).for_each(|number| running.accept(&failed_call("shared", number)));
    running.until_said("shared", 4);
    until_blocked(&running, "source-acme", "mine");
    let (_, first) = stream.command().unwrap();
    assert_eq!((&first["tenant"], &first["session_id"]), (&json!("acme"), &json!("mine")), "the first it is told of");
    let read = |path: &str| send(client, "reader-acme", "GET", path, "");
    let commands = read("/v1/commands?wait=0").json();
    let commands = commands["commands"].as_array().unwrap().clone();
    assert!(!commands.is_empty() && commands.iter().all(|command| command["tenant"] == "acme"), "{commands:?}");
    assert_eq!(read("/v1/commands?wait=0&session_id=shared").json()["commands"], json!([]));
    assert_eq!(read("/v1/state/shared").json()["active"], json!([]));
    assert!(!read("/v1/state/mine").json()["active"].as_array().unwrap().is_empty());
    let listed = read("/sessions").json();
    let listed: Vec<&str> = listed["sessions"].as_array().unwrap().iter().map(|row| row["tenant"].as_str().unwrap()).collect();
    assert_eq!(listed, ["acme"], "one session of three");
    assert_eq!(read("/sessions?tenant=globex").json()["error"], "foreign_tenant");
    assert_eq!(read("/sessions/shared").status, 404);
    assert_eq!(read("/sessions/mine").status, 200);
    let events = client.whole("/v1/events", Some(&bearer("reader-acme"))).text;
    assert!(events.lines().count() == 10 && events.lines().all(|line| line.contains(r#""acme""#)), "{events}");
    for path in ["/v1/commands?wait=0&tenant=globex", "/v1/state/shared?tenant=globex", "/sessions/shared?tenant=globex"] {
        assert_eq!(read(path).json()["error"], "foreign_tenant", "{path}");
    }
    for path in ["/v1/state/shared?tenant=", "/swarms/w?tenant=globex", "/v1/commands?wait=0&tenant="] {
        assert_eq!(read(path).status, 403, "{path}");
    }
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_source_of_another_tenant_uses_up_no_event_id_and_begins_no_session_by_its_name() {
    let scratch = Scratch::new();
    // The beginning of a session lifts its blocks here, so that it is seen whose beginning does.
    let policy = scratch.0.join("policy.toml");
    fs::write(&policy, "profile = \"ours\"\nbase = \"default\"\n[progress]\nsession_bounds = \"all\"\n").unwrap();
    let running = with_tokens(&scratch, &[&format!("policy={}", policy.display())]);
    let client = &running.client;
    let (own, strange) = ("source-acme", "source-globex");
    let say = |token: &str, id: &str, kind: &str| {
        let event = json!({ "id": id, "kind": kind, "session_id": "victim" }).to_string();
        let answer = send(client, token, "POST", "/v1/events", &event);
        assert_eq!((answer.status, answer.json()["accepted"].as_u64()), (202, Some(1)), "{}", answer.text);
    };
    // The ids of all calls that the victim is going to make.
    (1..=10).for_each(|number| say(strange, failed_call("victim", number)["id"].as_str().unwrap(), "progress"));
    until_blocked(&running, own, "victim");
    // Answered when everything before it in the same partition was judged.
    let behind = |token: &str, number: usize| {
        let check = json!({ "event": failed_call("victim", number) }).to_string();
        assert_eq!(send(client, token, "POST", "/v1/check", &check).status, 200);
    };
    ["session_end", "session_start"].iter().for_each(|kind| say(strange, kind, kind));
    behind(strange, 50);
    assert_eq!(decision(client, own, "victim"), "deny", "another tenant freed it");
    say(own, "own", "session_start");
    behind(own, 60);
    assert_eq!(decision(client, own, "victim"), "allow", "so its own beginning would have");
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_host_that_only_looks_like_this_one_and_a_filter_of_two_lines_get_nothing() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let client = &running.client;
    let get = |hosts: &[&str]| {
        let headers: Vec<(&str, &str)> = hosts.iter().map(|host| ("host", *host)).collect();
        client.send("GET", "/overview", &headers, b"")
    };
    for host in ["localhost", "127.0.0.1:1", "[::1]:9464"] {
        assert_eq!(get(&[host]).status, 200, "{host}");
    }
    for host in ["localhost:x@evil", "localhost:80@evil", "[::1]evil", "localhost.evil.example", "evil.example", ""] {
        let answer = get(&[host]);
        assert!(matches!(answer.status, 400 | 401 | 403), "{host:?}: {} {}", answer.status, answer.text);
    }
    for hosts in [["localhost", "evil.example"], ["evil.example", "localhost"], ["localhost", "localhost"]] {
        assert_eq!(get(&hosts).status, 400, "{hosts:?}");
    }
    for filter in ["warn\nFAKE=1", "warn\r\nFAKE=1", "warn\u{85}FAKE=1", "warn\u{1b}[2J"] {
        let answer = client.send("PUT", "/log-level", &[], filter.as_bytes());
        assert_eq!(answer.status, 400, "{filter:?}: {}", answer.text);
    }
    assert_eq!(running.terminate(), Some(0));
    assert!(!fs::read_to_string(scratch.0.join("stderr")).unwrap().contains("FAKE"));
}

#[test]
fn two_tokens_that_are_equal_and_an_unreadable_one_end_the_start_with_what_to_do() {
    let scratch = Scratch::new();
    let told = |text: &str| {
        let file = scratch.0.join("c.toml");
        fs::write(&file, text).unwrap();
        let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_loopwarden"));
        let output = check.args(["check", "--config"]).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(78), "{text}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    fs::write(scratch.0.join("t"), "s3cret\n").unwrap();
    let token = |name: &str, file: &str| format!("[[token]]\nname = \"{name}\"\nfile = \"{file}\"\nroles = \"source\"\n");
    let equal = told(&(token("a", "t") + &token("b", "t")));
    assert!(equal.contains("token[1].file holds the same token as token[0].file") && !equal.contains("s3cret"), "{equal}");
    assert!(told(&format!("[http]\ntoken_file = \"t\"\n{}", token("a", "t"))).contains("as http.token_file"));
    assert!(told(&token("a", "no-such")).contains("token[0].file"));
    assert!(told(&(token("a", "t") + &token("a", "t"))).contains("which another table [[token]] has"));
    assert!(told("[[token]]\nname = \"a\"\nfile = \"t\"\nroles = \"owner\"\n").contains("must be source, reader, operator"));
}
