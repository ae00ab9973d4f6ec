//! The route table: each route answers as its access says; metrics are what they say they are.

use std::collections::{BTreeMap, BTreeSet};
use std::{fs, sync::Arc};

use loopwarden::engine::{SourcePosition, StopState, SubjectKey, TimerKind};
use loopwarden::event::{EventTime, RecordMeta, Stage, TaskId, decode};
use loopwarden::http::routes::{Access, Group, ROUTES, Route};
use loopwarden::http::{Answered, Door, Options, Principals, Probe, ProcessStatus, Roles, Server, Token};
use loopwarden::limits::HTTP_ROWS_MAX;
use loopwarden::operate::{api::Overview, lanes::Lanes, lanes::Unanswered};
use loopwarden::store::{Change, MemoryStore, StateKey, StateStore as _, Stored as _, TimerKey};
use loopwarden::task::{Ask, Numbered, ProcessMode, TaskState, TaskView, View};
use loopwarden_settings::LocalClients;
use serde_json::{Value, json};

use crate::http::client::{Answer, Client};
use crate::http::{Running, Scratch, failed_call};
use crate::openapi;

/// A process of one lane, which holds more stops than are shown; one of them is over. Or of one that is too busy to answer.
struct OneLane {
    is_busy: bool,
}

impl OneLane {
    const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

    fn store() -> MemoryStore {
        let mut store = MemoryStore::new();
        let now = EventTime(loopwarden::clock::now_ms());
        let stops = (0..HTTP_ROWS_MAX).map(|number| (format!("stands-{number}"), now));
        for (session_id, at) in [("over".to_owned(), EventTime(0))].into_iter().chain(stops) {
            let event = json!({
                "id": "a", "kind": "stop", "scope": "session", "session_id": session_id, "reason": "r", "time": at.to_rfc3339(),
                "until": at.plus_ms(86_400_000).to_rfc3339(),
            });
            let bytes = event.to_string().into_bytes();
            let event = decode(Some(&bytes), &RecordMeta::without_place(at, 4_096)).unwrap();
            let mut state = StopState::default();
            let place = SourcePosition { topic: "t", partition: 0, offset: 0, watermark: at };
            assert!(state.apply("lw", &event, place).command.is_some());
            let key = StateKey::new(StopState::FAMILY, SubjectKey::of_event(&event).row_key().into_bytes());
            let timer = TimerKey { due: state.due(), kind: TimerKind::Stop as u8, subject: &key.bytes }.to_state_key();
            let change = |key, value| Change { task: Self::TASK, key, value: Some(value) };
            store.commit(vec![change(timer, Vec::new()), change(key, state.encode().unwrap())]).unwrap();
        }
        store
    }
}

impl Lanes for OneLane {
    fn ask(&self, question: &dyn Fn() -> Ask) -> Result<usize, Unanswered> {
        if self.is_busy {
            return Err(Unanswered("lane 0 is too busy to answer".to_owned()));
        }
        let tasks = vec![TaskView { id: Self::TASK, state: TaskState::Running, position: None }];
        question().answer(Ok(View { store: &Self::store(), tasks, policy: &crate::world::policy(), mode: ProcessMode::Live }));
        Ok(1)
    }
}

impl ProcessStatus for OneLane {
    fn live(&self) -> Probe {
        let mut probe = Probe::default();
        probe.check("lane 0 turns", Ok(()));
        probe
    }

    fn ready(&self) -> Probe {
        let mut probe = self.live();
        probe.check("joined", Err("no task assigned yet".to_owned()));
        probe
    }

    fn started(&self) -> Probe {
        self.ready()
    }

    fn metrics(&self, _: Vec<Answered>, _: u64, _: Option<loopwarden::telemetry::guard::GuardReport>) -> String {
        "# EOF\n".to_owned()
    }

    fn version(&self) -> Value {
        json!({})
    }

    fn config(&self) -> Value {
        json!({})
    }

    fn policy(&self) -> Value {
        json!({})
    }

    fn overview(&self) -> Overview {
        Overview::default()
    }

    fn log_filter(&self) -> String {
        "info".to_owned()
    }

    fn set_log_filter(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn tasks(&self) -> Vec<(TaskView, usize, Option<u64>)> {
        Vec::new()
    }

    fn recent(&self, after: u64) -> (Vec<Numbered>, u64) {
        let command: Arc<[u8]> = Arc::from(&br#"{"id":"one"}"#[..]);
        (if after == 0 { vec![(1, command)] } else { Vec::new() }, 1)
    }

    fn place_of(&self, _: &str) -> String {
        String::new()
    }
}

fn door(token: Option<&str>) -> Door {
    let mut principals = Principals::default();
    if let Some(token) = token {
        assert!(principals.add(Token::new(token.to_owned()), "token", Roles::ALL, None));
    }
    Door::new(principals, LocalClients::OwnUser)
}

fn with_one_lane(token: Option<&str>, is_busy: bool) -> (Server, Client) {
    let options = Options {
        mapping: None,
        listen: "127.0.0.1:0".parse().unwrap(),
        door: door(token),
        embedded: None,
        topic_writer: None,
        links: None,
        event_bytes_max: 1_024,
        topic: "t".to_owned(),
        quality: Arc::default(),
    };
    let server = Server::of_process(options, Arc::new(OneLane { is_busy })).unwrap();
    let client = Client::new(&server.address().unwrap().to_string());
    (server, client)
}

fn routes() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().filter(|route| route.is_of_process())
}

/// Whether it asks nobody who he is. A link says itself what may be done by it.
fn is_open(route: &Route) -> bool {
    matches!(route.access, Access::Open | Access::Link)
}

/// Asks a route, with something for its parameters.
fn ask(client: &Client, route: &Route, headers: &[(&str, &str)]) -> Answer {
    let path: String = route
        .path
        .replace("{stage}", "session")
        .split('/')
        .map(|part| if part.starts_with('{') { "0" } else { part })
        .collect::<Vec<_>>()
        .join("/");
    // A stream has no end to wait for; a poll has.
    let path = if path == "/v1/commands" { format!("{path}?wait=0") } else { path };
    let body: &[u8] = if route.method == "PUT" { b"info" } else { b"" };
    client.send(route.method, &path, headers, body)
}

#[test]
fn every_route_answers_as_its_access_says() {
    let scratch = Scratch::new();
    let token = scratch.0.join("token");
    fs::write(&token, "s3cret\n").unwrap();
    let running = Running::start(&scratch.0, &[&format!("http.token_file={}", token.display())]);
    // Agents of a swarm, a session among them, both of the name that the routes are asked for.
    for number in 0..8 {
        for session in ["0", "1"] {
            let mut event = failed_call(session, number);
            event["swarm_id"] = "0".into();
            running.accept(&event);
        }
    }
    running.json_until("/v1/commands?wait=0", |found| found["commands"].as_array().is_some_and(|commands| !commands.is_empty()));
    running.json_until("/swarms/0", |found| found["counters"].as_array().is_some_and(|counters| !counters.is_empty()));
    let page = openapi::page();
    let documented = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/http.md")).unwrap();
    for route in routes() {
        let name = format!("{} {}", route.method, route.path);
        assert!(documented.contains(&format!("`{}", route.path)), "{name} is not in src/docs/http.md");
        let local = ask(&running.client, route, &[]);
        assert!(!matches!(local.status, 401 | 403 | 405), "{name}: {}", local.text);
        assert!(!local.text.contains("there is no such route"), "{name}");
        assert_eq!(local.header("x-content-type-options"), Some("nosniff"), "{name}");
        // By way of a proxy: this host is not where the client sits.
        let elsewhere = ("x-forwarded-for", "10.0.0.1");
        let stranger = ask(&running.client, route, &[elsewhere]);
        let wrong = ask(&running.client, route, &[elsewhere, ("authorization", "Bearer s3cre")]);
        let known = ask(&running.client, route, &[elsewhere, ("authorization", "Bearer s3cret")]);
        assert_eq!(known.status, local.status, "{name}: {}", known.text);
        for answer in [&local, &stranger, &wrong, &known] {
            assert_eq!(openapi::departure(&page, route, answer), None, "{name}: the page of the interface has no such answer");
        }
        if is_open(route) {
            assert_eq!((stranger.status, wrong.status), (local.status, local.status), "{name}");
        } else {
            assert_eq!((stranger.status, wrong.status), (401, 401), "{name}: {}", stranger.text);
            assert!(stranger.head.contains("Bearer realm"), "{name}: {}", stranger.head);
        }
        // A page of the web whose name was made to lead here.
        let rebound = ask(&running.client, route, &[("host", "evil.example")]);
        assert_eq!(rebound.status == 401, !is_open(route), "{name}: {}", rebound.text);
    }
}

#[test]
fn without_a_token_other_hosts_are_told_how_to_be_let_in() {
    let (server, client) = with_one_lane(None, false);
    for route in routes() {
        let stranger = ask(&client, route, &[("forwarded", "for=10.0.0.1"), ("authorization", "Bearer ")]);
        assert_eq!(stranger.status == 403, !is_open(route), "{}: {}", route.path, stranger.text);
        assert!(is_open(route) || stranger.text.contains("http.token_file"));
    }
    server.stop();
}

#[test]
fn a_process_has_its_own_pages_and_they_lead_to_one_another() {
    let (server, client) = with_one_lane(None, false);
    let list = client.get("/docs/");
    assert_eq!(list.header("content-type"), Some("text/markdown; charset=utf-8"));
    let links: Vec<&str> = list.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.contains(&"agents.md") && links.contains(&"errors/E0102.md"), "{}", list.text);
    assert!(list.text.contains("- [Detection](detection.md)\n"), "{}", list.text);
    for link in links {
        let page = client.get(&format!("/docs/{link}"));
        assert_eq!((page.status, page.header("content-type")), (200, list.header("content-type")), "{link}");
        assert!(page.text.contains("\n# ") || page.text.starts_with("# "), "{link}");
    }
    for unknown in ["/docs/nothing.md", "/docs/agents", "/docs/errors/E9999.md", "/docs/..%2Fagents.md"] {
        let answer = client.get(unknown);
        assert!(answer.status == 404 && answer.text.contains("/docs/ lists them"), "{unknown}: {}", answer.text);
    }
    server.stop();
}

#[test]
fn with_kafka_the_embedded_routes_say_where_the_topics_are() {
    let (server, client) = with_one_lane(None, false);
    // Whom operators stop the lanes know, whatever log they have.
    let is_of_lanes = |route: &Route| route.path == "/v1/stops" && route.method == "GET";
    for route in routes().filter(|route| route.path.starts_with("/v1/") && !is_of_lanes(route)) {
        let answer = ask(&client, route, &[("content-type", "application/json")]);
        let (word, said) = match route.path {
            // Exporters read codes of gRPC.
            "/v1/traces" | "/v1/logs" | "/v1/metrics" => ("code", json!(5)),
            // The routes of agents have errors of the standard form.
            _ if route.group == Group::Checks => ("title", json!("embedded_only")),
            _ => ("error", json!("embedded_only")),
        };
        assert_eq!((answer.status, &answer.json()[word]), (404, &said), "{}", route.path);
        assert!(answer.text.contains("Kafka"));
    }
    server.stop();
}

#[test]
fn with_kafka_the_overview_has_the_commands_that_came_since() {
    let (server, client) = with_one_lane(None, false);
    let first = client.get("/overview").json();
    assert_eq!((&first["recent"], &first["recent_last"]), (&json!([{ "id": "one" }]), &json!(1)));
    // What the lanes hold stands there whoever said it, the process before this one, too; what is over does not.
    let active = first["active"].as_array().unwrap();
    assert_eq!((active.len(), &first["active_more"]), (HTTP_ROWS_MAX - 1, &json!(true)));
    assert!(active.iter().all(|row| row["subject"]["session_id"] != "over"), "{first}");
    assert_eq!(client.get("/sessions/nobody").status, 404);
    assert_eq!(client.get("/overview?after=1").json()["recent"], json!([]));
    assert_eq!(client.get("/overview?after=-1").status, 400);
    assert_eq!(client.get("/swarms/nobody").status, 404);
    server.stop();
}

#[test]
fn a_probe_says_no_with_its_reasons_and_a_busy_lane_is_no_missing_session() {
    let (server, client) = with_one_lane(None, true);
    let ready = client.get("/readyz");
    assert_eq!((ready.status, ready.text.as_str()), (503, "[-] joined: no task assigned yet\nnot ok\n"));
    let verbose = client.get("/ready?verbose");
    assert_eq!(verbose.text, "[+] lane 0 turns\n[-] joined: no task assigned yet\nnot ok\n");
    assert_eq!((client.get("/livez").status, client.get("/livez").text.as_str()), (200, "ok\n"));
    let session = client.get("/sessions/a");
    assert_eq!((session.status, session.header("retry-after")), (503, Some("1")));
    server.stop();
}

#[test]
fn too_many_requests_are_told_to_come_later_and_health_never_is() {
    let (server, client) = with_one_lane(None, false);
    let flood = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(600);
        let last = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answers = client.raw((request + &last).as_bytes()).unwrap();
        let text = answers.head + "\r\n" + &answers.text;
        (text.matches("HTTP/1.1 200").count(), text.matches("HTTP/1.1 429").count(), text.matches("retry-after: 1").count())
    };
    let (well, refused, told) = flood("/version");
    assert!(well >= 100, "the burst was not answered: {well}");
    assert!(refused > 0, "nothing was refused");
    assert_eq!(refused, told);
    assert_eq!(flood("/livez"), (601, 0, 0));
    server.stop();
}

/// Families and series of a page of OpenMetrics; panics where it is none.
fn read_metrics(text: &str) -> (BTreeMap<String, String>, BTreeMap<String, f64>) {
    let (mut families, mut series) = (BTreeMap::new(), BTreeMap::new());
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (keyword, name, value) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
            assert!(["TYPE", "HELP", "UNIT"].contains(&keyword), "{line}");
            if keyword == "TYPE" {
                assert!(families.insert(name.to_owned(), value.to_owned()).is_none(), "{name} twice");
            }
            continue;
        }
        let (name_and_labels, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let name = name_and_labels.split('{').next().unwrap();
        let family = ["_total", "_bucket", "_count", "_sum"]
            .iter()
            .find_map(|end| name.strip_suffix(end).filter(|name| families.contains_key(*name)));
        let family = family.unwrap_or(name);
        match families.get(family).unwrap_or_else(|| panic!("{line}: of no family")).as_str() {
            "counter" => assert_eq!(name, format!("{family}_total"), "{line}"),
            "gauge" => assert_eq!(name, family, "{line}"),
            "histogram" => assert_ne!(name, family, "{line}"),
            other => panic!("{line}: of type {other}"),
        }
        let number: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(series.insert(name_and_labels.to_owned(), number).is_none(), "{line}: twice");
    }
    (families, series)
}

#[test]
fn metrics_are_open_metrics_and_no_name_from_the_wire_is_a_label() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let lines: Vec<String> = (0..2_000)
        .map(|number| {
            let mut call = failed_call(&format!("fuzzed-session-{}", number % 40), number);
            call["tool"] = format!("fuzzed-tool-{number}\"}} 1\\n").into();
            call["agent"] = json!({ "id": format!("fuzzed-agent-{number}") });
            call["swarm_id"] = format!("fuzzed-swarm-{number}").into();
            call.to_string()
        })
        .collect();
    assert_eq!(running.client.post("/v1/events", "application/x-ndjson", lines.join("\n").as_bytes()).status, 202);
    for number in 0..30 {
        running.client.get(&format!("/fuzzed-path-{number}"));
        running.client.send(&format!("FUZZED{number}"), "/livez", &[], b"");
    }
    (1..=4).for_each(|number| running.accept(&failed_call("plain", number)));
    running.commands("wait=30s&session_id=plain");
    let page = running.client.get("/metrics");
    assert_eq!(page.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(!page.text.to_ascii_lowercase().contains("fuzzed"), "a name from the wire is a label");
    let (families, series) = read_metrics(&page.text);
    assert!(series.len() < 1_000, "{} series", series.len());
    assert!(families.len() > 40, "{} families", families.len());
    for (name, count) in series.iter().filter(|(name, _)| name.split('{').next().is_some_and(|name| name.ends_with("_count"))) {
        let labels = name.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
        let bucket = name.split('{').next().unwrap().replace("_count", "_bucket");
        let last = series
            .iter()
            .find(|(other, _)| other.starts_with(&bucket) && other.contains("le=\"+Inf\"") && other.contains(labels));
        assert_eq!(last.map(|(_, value)| value), Some(count), "{name} has no last bucket");
    }
    let routes: BTreeSet<&str> = ROUTES.iter().map(|route| route.path).chain(["other"]).collect();
    let answered = series.iter().filter(|(name, _)| name.starts_with("loopwarden_http_requests_total"));
    for (name, _) in answered {
        let route = name.split("route=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert!(routes.contains(route), "{name}");
    }
    let other: f64 = series
        .iter()
        .filter(|(name, _)| name.contains("http_requests_total") && name.contains("\"other\""))
        .map(|(_, value)| value)
        .sum();
    assert!(other >= 30.0, "{other} requests for what does not exist");
}
