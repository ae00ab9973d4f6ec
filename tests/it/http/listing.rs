//! A question over all sessions: over HTTP and from the command line.

use std::fs;

use loopwarden::exit_code;
use serde_json::{Value, json};

use crate::cli::{expect, stdout};
use crate::http::{Running, Scratch, failed_call};

/// Sessions that cost, one that loops and is blocked, one of another tenant.
fn fleet(scratch: &Scratch) -> Running {
    let policy = scratch.0.join("policy.toml");
    let shared = "[[budget]]\nname = \"each\"\nscope = \"tenant\"\nper = \"session\"\ncalls = 10\nmode = \"shadow\"\n";
    let budget = format!("[detectors.budget]\nmode = \"nudge\"\ncalls = 1_000_000\n{shared}");
    fs::write(&policy, format!("profile = \"ours\"\nbase = \"default\"\n{budget}")).unwrap();
    let running = Running::start(&scratch.0, &["mode=live", &format!("policy={}", policy.display())]);
    for (session, tenant, calls, cost_usd) in
        [("cheap", "acme", 2, 0.01), ("dear", "acme", 2, 3.5), ("loops", "acme", 10, 0.02), ("theirs", "globex", 2, 9.0)]
    {
        for number in 1..=calls {
            let mut event = failed_call(session, number);
            event["tenant"] = tenant.into();
            event["usage"] = json!({ "input_tokens": 10, "output_tokens": 1, "cost_usd": cost_usd });
            running.accept(&event);
        }
    }
    running.commands_until("session_id=loops", |commands| commands.iter().any(|command| command["action"] == "block"));
    running.json_until("/sessions", |found| found["looked_at"] == 4 && found["sessions"][0]["calls"] == 2);
    running
}

fn names(found: &Value) -> Vec<&str> {
    found["sessions"].as_array().unwrap().iter().map(|row| row["session_id"].as_str().unwrap()).collect()
}

#[test]
fn sessions_come_in_the_order_that_is_asked_for_and_only_those_that_are_wanted() {
    let scratch = Scratch::new();
    let running = fleet(&scratch);
    let list = |query: &str| running.client.get(&format!("/sessions?{query}")).json();
    for (query, expected) in [
        ("", &["theirs", "dear", "loops", "cheap"][..]),
        ("sort=calls&tenant=acme", &["loops", "dear", "cheap"]),
        ("sort=tokens&tenant=acme&limit=1", &["loops"]),
        ("sort=loop&limit=1", &["loops"]),
        ("state=looping", &["loops"]),
        ("state=blocked&tenant=globex", &[]),
        ("tenant=", &[]),
        ("state=stopped", &[]),
    ] {
        assert_eq!(names(&list(query)), expected, "{query}");
    }
    let first = list("tenant=acme&limit=2");
    assert_eq!((&first["found"], &first["looked_at"], &first["more"]), (&json!(3), &json!(3), &json!(true)), "{first}");
    let row = &first["sessions"][0];
    assert_eq!(
        (&row["agent_id"], &row["tenant"], &row["state"], &row["cost_micro_usd"], &row["tokens"], &row["stop"]),
        (&json!("main"), &json!("acme"), &json!("running"), &json!(7_000_000), &json!(22), &Value::Null),
        "{row}"
    );
    let looping = list("state=looping")["sessions"][0].clone();
    assert_eq!((&looping["state"], looping["code"].is_string()), (&json!("blocked"), true), "{looping}");
    assert!(looping["loops_since"].as_str() <= looping["seen"].as_str() && looping["loops_since"].is_string(), "{looping}");
    // A stop is seen whatever its scope, the narrowest first; what a release names is what the row shows.
    for (stop, expected) in [
        (json!({ "scope": "tenant", "tenant": "acme" }), &["dear", "loops", "cheap"][..]),
        (json!({ "scope": "session", "session_id": "dear", "tenant": "acme" }), &["dear", "loops", "cheap"]),
    ] {
        let mut body = stop.clone();
        body["reason"] = "r".into();
        body["for"] = "30m".into();
        let answer = running.client.post("/v1/stops", "application/json", body.to_string().as_bytes());
        assert_eq!(answer.status, 202, "{}", answer.text);
        let found = list("state=stopped");
        assert_eq!(names(&found), expected);
        assert_eq!((&found["sessions"][0]["state"], &found["sessions"][0]["stop"]), (&json!("stopped"), &stop));
    }
    for query in ["scope=tenant&tenant=acme", "scope=session&session_id=dear&tenant=acme"] {
        running.client.send("DELETE", &format!("/v1/stops?{query}"), &[], b"");
    }
    assert_eq!(names(&list("state=stopped")), [""; 0]);
    assert_eq!(list("state=blocked")["sessions"][0]["state"], "blocked", "what was beneath");
    for bad in ["state=odd", "sort=name", "limit=0", "limit=1001", "limit=x", "tenant=a%1fb", "stat=all", "sort=cost&sort=cost"] {
        assert_eq!(running.client.get(&format!("/sessions?{bad}")).status, 400, "{bad}");
    }
}

#[test]
fn a_person_at_a_terminal_finds_the_dearest_loop() {
    let scratch = Scratch::new();
    let running = fleet(&scratch);
    let ask = |more: &[&str]| {
        let arguments = [&["sessions", "--address", running.client.address()], more].concat();
        stdout(&expect(&arguments, exit_code::DONE))
    };
    let text = ask(&["--looping", "--sort", "cost", "--tenant", "acme"]);
    assert!(text.starts_with("1 agent of 3 looked at\n") && text.contains("blocked") && !text.contains("dear"), "{text}");
    let text = ask(&["--limit", "1"]);
    assert!(text.starts_with("4 agents of 4 looked at, the first 1 shown") && text.contains("18"), "{text}");
    let read: Value = serde_json::from_str(&ask(&["--sort", "calls", "--output", "json"])).unwrap();
    assert_eq!(names(&read)[0], "loops");
    assert_eq!(ask(&["--stopped"]).trim(), "0 agents of 4 looked at");
    for bad in [&["--looping", "--stopped"][..], &["--limit", "0"], &["--sort", "name"]] {
        expect(&[&["sessions", "--address", running.client.address()], bad].concat(), exit_code::USAGE);
    }
}

#[test]
fn a_session_shows_the_budgets_that_it_counts_in_and_what_is_used_of_them() {
    let scratch = Scratch::new();
    let running = fleet(&scratch);
    let path = "/sessions/dear?tenant=acme";
    running.json_until(path, |found| found["budgets"].as_array().is_some_and(|budgets| !budgets.is_empty()));
    let budget = json!({
        "budget": "each", "per": "session", "group": { "kind": "session", "name": "dear" }, "mode": "shadow", "blocks": false,
        "parts": [{ "quantity": "calls", "used": 2, "limit": 10, "share": 0.2 }],
    });
    assert_eq!(running.client.get(path).json()["budgets"], json!([budget]));
    let inspected = ["inspect", "session", "dear", "--tenant", "acme", "--address", running.client.address()];
    let text = stdout(&expect(&inspected, exit_code::DONE));
    assert!(text.contains("budget each of session dear, a session: 2 of 10 calls (20 %)"), "{text}");
}
