//! The table of binding over HTTP and from the command line: a check, a dry run, the list of sessions and the state of a session agree on whom
//! a stop binds, and a state shows the budgets that bind its agents.

use std::collections::BTreeSet;
use std::process::Command;

use loopwarden::whom::Kind;
use serde_json::{Value, json};

use crate::http::{Running, Scratch};
use crate::vectors::binding::{Place, TARGETS, call, places};

/// One call of an agent that has run.
fn ran(place: &Place, number: usize) -> Value {
    let mut event = call(place, number, "Read");
    (event["kind"], event["result"]) = ("tool".into(), "r".into());
    event
}

/// Tenant, session and agent.
fn name_of(event: &Value) -> (String, String, String) {
    let text = |pointer: &str, none: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or(none).to_owned();
    (text("/tenant", ""), text("/session_id", ""), text("/agent/id", "main"))
}

/// Agents of a list of sessions.
fn listed(found: &Value) -> BTreeSet<(String, String, String)> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let rows = found["sessions"].as_array().unwrap();
    rows.iter().map(|row| (text(row, "tenant"), text(row, "session_id"), text(row, "agent_id"))).collect()
}

/// Sends a call of each agent, and waits until all are judged.
fn fleet(running: &Running, places: &[Place]) -> BTreeSet<(String, String, String)> {
    let all: BTreeSet<_> = places.iter().map(|place| name_of(&place.event)).collect();
    places.iter().enumerate().for_each(|(number, place)| running.accept(&ran(place, number)));
    running.json_until("/sessions?limit=100", |found| listed(found) == all);
    all
}

/// The view of an agent's session.
fn state_of(place: &Place) -> String {
    let (tenant, session, _) = name_of(&place.event);
    if tenant.is_empty() { format!("/sessions/{session}") } else { format!("/sessions/{session}?tenant={tenant}") }
}

fn cli(arguments: &[&str], address: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    let output = command.args(arguments).args(["--address", address]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_way_to_ask_says_the_same_of_whom_a_stop_binds() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    // Of two agents with one name the table has what both are: `sessions` shows an agent once.
    let places: Vec<Place> = places().into_iter().filter(|place| place.what != "inside of all").collect();
    let all = fleet(&running, &places);
    assert_eq!(all.len(), places.len());
    for (scope, name) in TARGETS.into_iter().filter(|(kind, _)| Kind::from_name(kind).is_some_and(Kind::can_stop)) {
        let field = match scope {
            "tree" => Some("root_id"),
            "session" => Some("session_id"),
            "agent" => Some("agent_id"),
            "swarm" => Some("swarm_id"),
            _ => None,
        };
        let mut body = json!({ "scope": scope, "dry_run": true });
        if let Some(field) = field {
            body[field] = name.into();
        }
        if scope != "all" {
            body["tenant"] = "acme".into();
        }
        let bound: BTreeSet<_> =
            places.iter().filter(|place| place.kinds.contains(&scope)).map(|place| name_of(&place.event)).collect();
        let post = |body: &Value| running.client.post("/v1/stops", "application/json", body.to_string().as_bytes()).json();
        assert_eq!(post(&body)["would_stop"], json!({ "agents": bound.len(), "more": false }), "dry run of {scope}");
        let named = if scope == "all" {
            vec!["--all"]
        } else if name.is_empty() {
            vec![]
        } else {
            vec![field_flag(scope), name]
        };
        let tenant = if scope == "all" { vec![] } else { vec!["--tenant", "acme"] };
        let told = cli(&[&["stop", "--dry-run"], &named[..], &tenant].concat(), &running.client.address);
        let agents = if bound.len() == 1 { "1 agent ".to_owned() } else { format!("{} agents ", bound.len()) };
        assert!(told.contains(&agents), "{scope}: {told}");

        (body["dry_run"], body["reason"], body["for"]) = (false.into(), "r".into(), "30m".into());
        let taken = post(&body);
        assert_eq!(taken["in_force"], true, "{scope}: {taken}");
        let found = running.client.get("/sessions?state=stopped&limit=100").json();
        assert_eq!(listed(&found), bound, "sessions stopped by {scope}");
        // Who follows one session hears of all that binds it.
        let (tenant, session, _) = bound.iter().next().unwrap();
        let hears = |all: &[Value]| all.iter().any(|one| one["action"] == "block" && one["trigger"]["event_id"] == taken["id"]);
        running.commands_until(&format!("tenant={tenant}&session_id={session}"), hears);
        let told = cli(&["sessions", "--stopped"], &running.client.address);
        let by = [scope, if scope == "tenant" { "acme" } else { name }].join(" ");
        let shown = told.lines().filter(|line| line.trim_end().ends_with(by.trim_end())).count();
        assert_eq!(shown, bound.len(), "{by}:\n{told}");
        for (number, place) in places.iter().enumerate() {
            let is_bound = place.kinds.contains(&scope);
            let check = json!({ "event": call(place, number, "Look"), "record": false }).to_string();
            let answer = running.client.post("/v1/check", "application/json", check.as_bytes()).json();
            assert_eq!(answer["decision"] == "deny", is_bound, "a check under {scope}, {}", place.what);
            // The view is of a session: of any agent of it.
            let (tenant, session, _) = name_of(&place.event);
            let binds_one = bound.iter().any(|(of, id, _)| (of, id) == (&tenant, &session));
            running.json_until(&state_of(place), |state| state["stops"].as_array().map(Vec::len) == Some(usize::from(binds_one)));
        }
        let pairs: Vec<String> = ["scope", "tenant"]
            .into_iter()
            .chain(field)
            .filter_map(|name| Some(format!("{name}={}", body[name].as_str()?)))
            .collect();
        let released = running.client.send("DELETE", &format!("/v1/stops?{}", pairs.join("&")), &[], b"");
        assert_eq!(released.json()["released"], true, "{}", released.text);
        assert_eq!(listed(&running.client.get("/sessions?state=stopped").json()), BTreeSet::new(), "released: {scope}");
    }
}

fn field_flag(scope: &str) -> &'static str {
    match scope {
        "session" => "--session",
        "agent" => "--agent",
        "tree" => "--tree",
        _ => "--swarm",
    }
}
