//! The page of the interface against the routes there are, and the forms in it against what is read and written.
#![expect(clippy::expect_used, reason = "a helper that panics fails its test")]

mod structs;

use std::{collections::BTreeMap, collections::BTreeSet, fs, path::Path};

use jsonschema::Validator;
use loopwarden::engine::AgentState;
use loopwarden::http::routes::{Group, ROUTES, Route};
use loopwarden::operate::api::{DryRun, Released, Stop, StopList, StopName, Stopped, TakenAnswer, WouldStop};
use loopwarden::task::{SessionOrder, SessionState};
use loopwarden_core::{event::EventTime, whom::Kind};
use loopwarden_guard::{Answer, Check};
use loopwarden_sources::Sessions;
use loopwarden_sources::cloudevents::{self, Transport};
use loopwarden_sources::otlp::{self, Form, Signal};
use serde_json::{Value, json};

use crate::http::client;

/// Where the page has the schema of events.
const EVENT: &str = "config/schemas/tool-event.v1.schema.json";

/// The page, with the schema of events among its own.
pub(crate) fn page() -> Value {
    let read = |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path);
    let text = read("src/docs/openapi.yaml");
    assert!(text.contains(EVENT));
    let mut page: Value =
        serde_yaml_ng::from_str(&text.replace(&format!("../../{EVENT}"), "#/components/schemas/Event")).expect("YAML");
    let event = read(EVENT).replace("#/$defs/", "#/components/schemas/Event/$defs/");
    page["components"]["schemas"]["Event"] = serde_json::from_str(&event).expect("JSON");
    page["components"]["schemas"]["Event"].as_object_mut().expect("a schema").remove("$id");
    page
}

/// A schema among the components, with all others beside it.
fn validator(page: &Value, name: &str) -> Validator {
    let schema = json!({ "$ref": format!("#/components/schemas/{name}"), "components": page["components"] });
    jsonschema::validator_for(&schema).expect("a schema")
}

fn operations(page: &Value) -> BTreeSet<(String, String)> {
    let paths = page["paths"].as_object().expect("paths");
    let of = |(path, item): (&String, &Value)| -> Vec<(String, String)> {
        item.as_object().expect("operations").keys().map(|method| (method.to_uppercase(), path.clone())).collect()
    };
    paths.iter().flat_map(of).collect()
}

/// A part of the page, or the component that it refers to.
fn resolved<'a>(page: &'a Value, part: &'a Value) -> &'a Value {
    part["$ref"].as_str().map_or(part, |name| page.pointer(name.trim_start_matches('#')).expect("a component"))
}

/// What of an answer the page does not have: its status, its media type, its form.
pub(crate) fn departure(page: &Value, route: &Route, answer: &client::Answer) -> Option<String> {
    let responses = &page["paths"][route.path][route.method.to_lowercase()]["responses"];
    let media = answer.header("content-type").and_then(|media| media.split(';').next()).unwrap_or_default();
    let schema = &resolved(page, &responses[answer.status.to_string()])["content"][media]["schema"];
    if schema.is_null() {
        return Some(format!("{} as {media:?}: {}", answer.status, answer.text));
    }
    if media != "application/json" && !media.ends_with("+json") {
        return None;
    }
    let whole = json!({ "allOf": [schema], "components": page["components"] });
    let form = jsonschema::validator_for(&whole).expect("a schema");
    form.validate(&answer.json()).err().map(|error| format!("{error} at {}: {}", error.instance_path(), answer.text))
}

#[test]
fn the_page_names_each_route_and_no_other() {
    let of = |is_served: fn(&Route) -> bool, groups: Option<&[Group]>| -> BTreeSet<(String, String)> {
        let routes = ROUTES.iter().filter(|route| is_served(route) && groups.is_none_or(|groups| groups.contains(&route.group)));
        routes.map(|route| (route.method.to_owned(), route.path.to_owned())).collect()
    };
    let all = of(Route::is_of_process, None);
    assert_eq!(operations(&page()), all);
    assert!(of(Route::is_of_guard, None).is_subset(&all));
    let mut of_agents = of(Route::is_of_process, Some(&[Group::Checks]));
    of_agents.extend(["traces", "logs", "metrics"].map(|signal| ("POST".to_owned(), format!("/v1/{signal}"))));
    let of_guard = of(Route::is_of_guard, Some(&[Group::Checks, Group::Events]));
    assert_eq!(of_guard, of_agents, "a guard beside an agent answers the same");
}

#[test]
fn the_examples_are_what_the_program_reads_and_writes() {
    let page = page();
    let post = &page["paths"]["/v1/check"]["post"];
    let examples = |value: &Value| -> Vec<Value> {
        let examples = value["content"]["application/json"]["examples"].as_object().expect("examples");
        examples.values().map(|example| example["value"].clone()).collect()
    };
    let checks = examples(&post["requestBody"]);
    assert!(checks.len() > 1);
    assert!(
        !validator(&page, "Check").is_valid(&json!({ "event": { "id": "a", "kind": "tool", "session_id": "s" } })),
        "no tool"
    );
    for check in checks {
        assert!(validator(&page, "Check").is_valid(&check), "{check}");
        Check::read(check.to_string().as_bytes()).expect("a check");
    }
    let answers = examples(&post["responses"]["200"]);
    assert!(answers.len() > 1);
    for answer in answers {
        assert!(validator(&page, "Answer").is_valid(&answer), "{answer}");
        let read: Answer = serde_json::from_value(answer.clone()).expect("an answer");
        assert_eq!(serde_json::to_value(&read).expect("JSON"), answer);
    }
}

/// The fields that a request may have are those of the page: each example is one, and the answer to it.
#[test]
fn the_examples_of_answers_are_requests() {
    let page = page();
    let post = &page["paths"]["/v1/answers"]["post"];
    let examples = post["requestBody"]["content"]["application/json"]["examples"].as_object().expect("examples");
    for example in examples.values() {
        assert!(validator(&page, "PersonsAnswer").is_valid(&example["value"]), "{example}");
    }
    let answered = json!({ "id": "i", "answer": "right", "session_id": "s", "episode": "e", "until": null, "judged": true });
    assert!(validator(&page, "TakenAnswer").is_valid(&answered));
}

#[test]
fn a_stop_of_the_page_names_whom_its_scope_needs_and_the_end() {
    let page = page();
    let post = &page["paths"]["/v1/stops"]["post"]["requestBody"]["content"]["application/json"]["examples"];
    let stop = validator(&page, "Stop");
    for example in post.as_object().expect("examples").values() {
        assert!(stop.is_valid(&example["value"]), "{example}");
    }
    for scope in Kind::stopped() {
        let name = scope.field().unwrap_or(if scope == Kind::Tenant { "tenant" } else { "reason" });
        let good = json!({ "scope": scope.as_str(), name: "n", "reason": "r", "for": "7d", "fail": "closed", "id": "i", "dry_run": false });
        assert!(stop.is_valid(&good), "{good}");
        for field in [name, "reason", "for", "scope"] {
            let mut bad = good.clone();
            bad.as_object_mut().expect("an object").remove(field);
            assert!(!stop.is_valid(&bad), "{bad}");
        }
        for (field, value) in [("for", json!("8d")), ("fail", json!("ajar")), ("more", json!(1)), (name, json!("a\u{7}"))] {
            let mut bad = good.clone();
            bad[field] = value;
            assert!(!stop.is_valid(&bad), "{bad}");
        }
    }
}

/// What differs between a schema and what is written where everything is known (`full`) and where as little as may be (`least`): a property
/// that is never written, a field that is no property, one that is required and may be left out or the other way round.
fn differences(page: &Value, schema: &Value, [full, least]: [&Value; 2], at: &str) -> Vec<String> {
    let schema = resolved(page, schema);
    if let (Some(full), Some(least)) = (full.as_array(), least.as_array()) {
        let (full, least) = (full.first().expect("an item"), least.first().expect("an item"));
        return differences(page, &schema["items"], [full, least], &format!("{at}[]"));
    }
    let (Some(written), Some(surely)) = (full.as_object(), least.as_object()) else { return Vec::new() };
    let names = |object: &serde_json::Map<String, Value>| object.keys().cloned().collect::<BTreeSet<_>>();
    let properties = schema["properties"].as_object().expect("properties");
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let mut found: Vec<String> = Vec::new();
    for (what, one, other) in [("properties", names(properties), names(written)), ("required", required, names(surely))] {
        found.extend(one.symmetric_difference(&other).map(|name| format!("{what} {at}/{name}")));
    }
    for (name, schema) in properties {
        if let (Some(full), Some(least)) = (written.get(name), surely.get(name)) {
            found.extend(differences(page, schema, [full, least], &format!("{at}/{name}")));
        }
    }
    found
}

#[test]
fn the_page_has_each_field_of_the_answers_about_acts_and_no_other() {
    let page = page();
    let text = || "2026-01-01T00:00:00Z".to_owned();
    let names = Kind::stopped().filter_map(Kind::field).chain(["tenant"]).map(|field| (field.to_owned(), text())).collect();
    let whom = StopName { scope: "session".to_owned(), names };
    let stop = Stop {
        whom: whom.clone(),
        actor: Some(text()),
        reason: text(),
        fail: Some("closed".to_owned()),
        since: text(),
        until: text(),
        command_id: text(),
    };
    let least = Stop { whom: StopName { names: BTreeMap::new(), ..whom }, actor: None, fail: None, ..stop.clone() };
    let stops = |stop: Stop| json!(StopList { stops: vec![stop], more: true });
    let alike = |value: Value| [value.clone(), value];
    let answered = TakenAnswer {
        id: text(),
        answer: "allow".to_owned(),
        session_id: text(),
        episode: text(),
        until: Some(text()),
        judged: true,
    };
    let answers = [
        ("Stops", [stops(stop), stops(least)]),
        ("WouldStop", alike(json!(DryRun { would_stop: WouldStop { agents: 1, more: false } }))),
        ("Stopped", alike(json!(Stopped { id: text(), until: text(), in_force: true }))),
        ("Released", alike(json!(Released { id: text(), released: true }))),
        ("TakenAnswer", alike(json!(answered))),
    ];
    for (name, [full, least]) in answers {
        let schema = &page["components"]["schemas"][name];
        assert_eq!(differences(&page, schema, [&full, &least], name), Vec::<String>::new());
        for value in [full, least] {
            assert!(validator(&page, name).is_valid(&value), "{name}: {value}");
        }
    }
}

/// What is reported in each form makes the event that the page means.
#[test]
fn the_examples_of_reports_are_events() {
    const NOW: EventTime = EventTime(1_795_700_000_000);
    let page = page();
    let example = |path: &str, media: &str| {
        let example = &page["paths"][path]["post"]["requestBody"]["content"][media]["examples"]["call"]["value"];
        example.to_string().into_bytes()
    };
    for (path, signal) in [("/v1/traces", Signal::Traces), ("/v1/logs", Signal::Logs)] {
        let body = example(path, "application/json");
        let batch = otlp::read((signal, Form::Json), &body, &mut Sessions::default(), NOW, 1 << 18).expect("an export");
        assert_eq!((batch.records, batch.events.len(), batch.warning()), (1, 1, None), "{path}");
        assert_eq!(batch.events.first().map(|made| made.session_id.as_str()), Some("sess-42"), "{path}");
        let answer: Value = serde_json::from_slice(&otlp::success(Form::Json, signal, &batch)).expect("JSON");
        assert!(validator(&page, "Exported").is_valid(&answer), "{answer}");
    }
    let media = "application/cloudevents+json";
    let body = example("/v1/events", media);
    assert!(validator(&page, "CloudEvent").is_valid(&serde_json::from_slice(&body).expect("JSON")));
    let batch = cloudevents::read(Transport::Http, &[("content-type", media.as_bytes())], &body, None, NOW, 1 << 18);
    let batch = batch.expect("a body").expect("a CloudEvent");
    assert_eq!((batch.events.len(), batch.refused.as_slice()), (1, &[][..]));
}

#[test]
fn the_words_of_the_page_are_those_of_the_program() {
    let page = page();
    let answer = &page["components"]["schemas"]["Answer"]["properties"];
    let base = json!({ "v": 1, "decision": "allow", "action": "none", "stop": false, "state": { "stale": false, "source": "kafka" }, "recorded": true });
    for pointer in ["/decision", "/action", "/placement", "/dropped", "/state/properties/source"] {
        let words = answer.pointer(pointer).expect("a property")["enum"].as_array().expect("words");
        for word in words {
            let mut told = base.clone();
            match pointer {
                "/state/properties/source" => told["state"]["source"] = word.clone(),
                _ => told[&pointer[1..]] = word.clone(),
            }
            let read: Answer = serde_json::from_value(told.clone()).unwrap_or_else(|error| panic!("{word}: {error}"));
            assert_eq!(serde_json::to_value(&read).expect("JSON"), told);
        }
    }
    let refused = json!({ "v": 1, "decision": "deny", "action": "block", "stop": false, "state": { "stale": false, "source": "kafka" }, "recorded": true });
    assert!(!validator(&page, "Answer").is_valid(&refused), "a refusal without a text");
}

#[test]
fn the_states_and_orders_of_the_page_are_those_of_the_lists() {
    let page = page();
    let sessions = page["paths"]["/sessions"]["get"]["parameters"].as_array().expect("parameters");
    let words = |name: &str| sessions.iter().find(|parameter| parameter["name"] == name).expect(name)["schema"].clone();
    let states: Vec<&str> = SessionState::WORDS.iter().map(|(word, _)| *word).collect();
    let orders: Vec<&str> = SessionOrder::WORDS.iter().map(|(word, _)| *word).collect();
    assert_eq!((&words("state")["enum"], &words("sort")["enum"]), (&json!(states), &json!(orders)));
    assert_eq!((&words("state")["default"], &words("sort")["default"]), (&json!(states[0]), &json!(orders[0])));
    for agent in ["SessionRow", "Agent"] {
        let state = &page["components"]["schemas"][agent]["properties"]["state"];
        assert_eq!(state["enum"], json!(AgentState::ALL.map(AgentState::as_str)), "{agent}");
    }
}
