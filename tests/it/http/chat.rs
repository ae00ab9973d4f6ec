//! Commands as messages for people: what is posted is what each provider has published, and `webhook test` shows what a receiver answers.

use std::process::{Command, Output};
use std::{fs, path::Path};

use jsonschema::Validator;
use loopwarden::exit_code;
use serde_json::{Value, json};

use crate::http::{Running, Scratch, failed_call};
use crate::receiver::{Receiver, Reply, Request, TAKES};

/// Calls of a session: enough for a nudge and a block.
const CALLS: usize = 10;
/// Session whose name mentions everybody.
const SESSION: &str = "<!channel> @everyone **b** [x](https://e.vil)";

/// Incoming webhooks and Block Kit of Slack: api.slack.com/messaging/webhooks, api.slack.com/reference/block-kit/blocks.
fn slack() -> Value {
    let plain = |chars: usize| {
        json!({ "type": "object", "additionalProperties": false, "required": ["type", "text"], "properties": {
            "type": { "const": "plain_text" }, "text": { "type": "string", "minLength": 1, "maxLength": chars }, "emoji": { "type": "boolean" } } })
    };
    json!({ "type": "object", "additionalProperties": false, "required": ["text", "blocks"], "properties": {
        "text": { "type": "string", "minLength": 1, "maxLength": 40_000, "not": { "pattern": "[<>]" } },
        "mrkdwn": { "type": "boolean" }, "link_names": { "type": "boolean" },
        "unfurl_links": { "type": "boolean" }, "unfurl_media": { "type": "boolean" },
        "blocks": { "type": "array", "minItems": 1, "maxItems": 50, "items": { "oneOf": [
            { "additionalProperties": false, "required": ["type", "text"],
                "properties": { "type": { "const": "header" }, "text": plain(150) } },
            { "additionalProperties": false, "required": ["type", "text"],
                "properties": { "type": { "const": "section" }, "text": plain(3_000) } },
            { "additionalProperties": false, "required": ["type", "fields"], "properties": { "type": { "const": "section" },
                "fields": { "type": "array", "minItems": 1, "maxItems": 10, "items": plain(2_000) } } },
            { "additionalProperties": false, "required": ["type", "elements"], "properties": { "type": { "const": "actions" },
                "elements": { "type": "array", "minItems": 1, "maxItems": 25, "items": { "type": "object", "additionalProperties": false,
                    "required": ["type", "text", "url"], "properties": { "type": { "const": "button" }, "text": plain(75),
                        "url": { "type": "string", "maxLength": 3_000, "pattern": "^https://" }, "style": { "enum": ["primary", "danger"] } } } } } },
        ] } },
    } })
}

/// A message with a card: learn.microsoft.com/microsoftteams, "Create incoming webhooks"; adaptivecards.io, schema 1.2.
fn teams() -> Value {
    let run = json!({ "type": "object", "additionalProperties": false, "required": ["type", "text"], "properties": {
        "type": { "const": "TextRun" }, "text": { "type": "string" }, "weight": { "enum": ["Default", "Lighter", "Bolder"] } } });
    let block = json!({ "type": "object", "additionalProperties": false, "required": ["type", "inlines"], "properties": {
        "type": { "const": "RichTextBlock" }, "inlines": { "type": "array", "minItems": 1, "items": run } } });
    let open = json!({ "type": "object", "additionalProperties": false, "required": ["type", "url"], "properties": {
        "type": { "const": "Action.OpenUrl" }, "title": { "type": "string" }, "url": { "type": "string", "pattern": "^https://" } } });
    let card = json!({ "type": "object", "additionalProperties": false, "required": ["type", "version", "body"], "properties": {
        "$schema": { "const": "http://adaptivecards.io/schemas/adaptive-card.json" }, "type": { "const": "AdaptiveCard" },
        "version": { "enum": ["1.2", "1.3", "1.4", "1.5"] }, "body": { "type": "array", "minItems": 1, "items": block },
        "actions": { "type": "array", "items": open } } });
    json!({ "type": "object", "additionalProperties": false, "required": ["type", "attachments"], "properties": {
        "type": { "const": "message" },
        "attachments": { "type": "array", "minItems": 1, "maxItems": 1, "items": { "type": "object", "additionalProperties": false,
            "required": ["contentType", "content"], "properties": {
                "contentType": { "const": "application/vnd.microsoft.card.adaptive" }, "contentUrl": { "type": "null" }, "content": card } } },
    } })
}

/// Execute Webhook, embeds and allowed mentions: discord.com/developers/docs/resources/webhook and /message.
fn discord() -> Value {
    let text = |chars: usize| json!({ "type": "string", "minLength": 1, "maxLength": chars });
    json!({ "type": "object", "additionalProperties": false, "required": ["embeds", "allowed_mentions"], "properties": {
        "allowed_mentions": { "const": { "parse": [] } },
        "components": { "type": "array", "minItems": 1, "maxItems": 5, "items": { "type": "object", "additionalProperties": false,
            "required": ["type", "components"], "properties": { "type": { "const": 1 }, "components": { "type": "array", "minItems": 1,
                "maxItems": 5, "items": { "type": "object", "additionalProperties": false, "required": ["type", "style", "url"],
                    "properties": { "type": { "const": 2 }, "style": { "const": 5 }, "label": text(80),
                        "url": { "type": "string", "maxLength": 512, "pattern": "^https://" } } } } } } },
        "embeds": { "type": "array", "minItems": 1, "maxItems": 10, "items": { "type": "object", "additionalProperties": false, "properties": {
            "title": text(256), "description": text(4_096), "color": { "type": "integer", "minimum": 0, "maximum": 0x00ff_ffff },
            "timestamp": { "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$" },
            "fields": { "type": "array", "maxItems": 25, "items": { "type": "object", "additionalProperties": false,
                "required": ["name", "value"], "properties": { "name": text(256), "value": text(1_024), "inline": { "type": "boolean" } } } },
        } } },
    } })
}

/// An alert event: developer.pagerduty.com/docs/send-alert-event.
fn pagerduty() -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": ["routing_key", "event_action", "dedup_key", "payload"], "properties": {
        "routing_key": { "type": "string", "pattern": "^[0-9a-zA-Z]{32}$" },
        "event_action": { "enum": ["trigger", "acknowledge", "resolve"] },
        "dedup_key": { "type": "string", "minLength": 1, "maxLength": 255 },
        "client": { "type": "string" },
        "links": { "type": "array", "items": { "type": "object", "additionalProperties": false, "required": ["href"], "properties": {
            "href": { "type": "string", "pattern": "^https://" }, "text": { "type": "string" } } } },
        "payload": { "type": "object", "additionalProperties": false, "required": ["summary", "source", "severity"], "properties": {
            "summary": { "type": "string", "minLength": 1, "maxLength": 1_024 }, "source": { "type": "string", "minLength": 1 },
            "severity": { "enum": ["critical", "error", "warning", "info"] }, "component": { "type": "string" },
            "class": { "type": "string" }, "timestamp": { "type": "string", "minLength": 20 }, "custom_details": { "type": "object" } } },
    } })
}

fn validator(schema: &Value) -> Validator {
    assert!(jsonschema::meta::is_valid(schema), "no schema");
    jsonschema::validator_for(schema).unwrap()
}

/// A table `[[webhook]]` for each format, at its receiver.
fn tables(dir: &Path, receivers: &[(&str, &Receiver)]) -> String {
    fs::write(dir.join("routing-key"), "0123456789abcdef0123456789abcdef").unwrap();
    let table = |(format, receiver): &(&str, &Receiver)| {
        let token = if *format == "pagerduty" { "token_file = \"routing-key\"\n" } else { "" };
        format!("[[webhook]]\nname = \"to-{format}\"\nurl = \"http://{}/hook\"\nformat = \"{format}\"\n{token}", receiver.address)
    };
    receivers.iter().map(table).collect()
}

/// A configuration with these tables, and with links.
fn configured(dir: &Path, tables: &str) -> String {
    let config = dir.join("loopwarden.toml");
    fs::write(dir.join("link-secret"), "0123456789abcdef0123456789abcdef").unwrap();
    let links = "http.public_url = \"https://warden.example\"\nhttp.link_secret_file = \"link-secret\"\n";
    fs::write(&config, format!("{links}{tables}")).unwrap();
    config.to_string_lossy().into_owned()
}

/// `webhook test` with these arguments.
fn test(config: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    command.env_clear().args(["webhook", "test", "--config", config]).args(arguments).output().unwrap()
}

fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Each body is valid, plain JSON, and has nothing of what only CloudEvents have.
fn expect_published(format: &str, schema: &Value, seen: &[Request]) {
    let validator = validator(schema);
    for request in seen {
        let json = request.json();
        let problems: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
        assert_eq!(problems, Vec::<String>::new(), "{format}: {json}");
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert!(request.headers.iter().all(|(name, _)| !name.starts_with("ce-") && name != "authorization"), "{request:?}");
    }
}

#[test]
fn what_a_chat_or_pager_gets_is_what_its_provider_has_published() {
    let scratch = Scratch::new();
    let formats = [("slack", slack()), ("teams", teams()), ("discord", discord()), ("pagerduty", pagerduty())];
    let receivers = formats.each_ref().map(|_| Receiver::start(|_, _| TAKES));
    let named: Vec<(&str, &Receiver)> = formats.iter().map(|(format, _)| *format).zip(&receivers).collect();
    let config = configured(&scratch.0, &tables(&scratch.0, &named));
    let running = Running::start_with(&scratch.0, &["--config", &config], &[]);
    (1..=CALLS).for_each(|number| running.accept(&failed_call(SESSION, number)));
    running.json_until("/overview", |overview| overview["commands"]["block"] == 1);
    let commands = running.commands("after=0&wait=0s").0;
    for ((format, schema), receiver) in formats.iter().zip(&receivers) {
        let seen = receiver.until("all commands", |seen| seen.len() >= commands.len());
        expect_published(format, schema, &seen);
        for (request, command) in seen.iter().zip(&commands) {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            assert!(body.contains(command["action"].as_str().unwrap()) || *format == "pagerduty", "{format}: {body}");
            assert!(!body.contains("cargo test"), "no content of calls: {body}");
            let has_links = body.contains("https://warden.example/a/");
            assert_eq!(has_links, command["action"] != "unblock", "{format}: {body}");
        }
    }
    let keys: Vec<Value> = receivers[3]
        .until("all", |seen| seen.len() >= commands.len())
        .iter()
        .map(|seen| seen.json()["dedup_key"].clone())
        .collect();
    for (key, command) in keys.iter().zip(&commands) {
        assert_eq!(key, &format!("loopwarden-{}", command["episode"].as_str().unwrap()));
    }
    let log = fs::read_to_string(scratch.0.join("stderr")).unwrap();
    assert!(!log.contains("0123456789abcdef"), "{log}");
}

#[test]
fn a_test_sends_one_command_of_each_action_that_binds_nobody() {
    let scratch = Scratch::new();
    let formats =
        [("slack", slack()), ("teams", teams()), ("discord", discord()), ("pagerduty", pagerduty()), ("structured", json!(true))];
    let receivers = formats.each_ref().map(|_| Receiver::start(|_, _| TAKES));
    let named: Vec<(&str, &Receiver)> = formats.iter().map(|(format, _)| *format).zip(&receivers).collect();
    let config = configured(&scratch.0, &tables(&scratch.0, &named));
    let output = test(&config, &[]);
    assert_eq!(output.status.code(), Some(i32::from(exit_code::DONE)), "{}", both(&output));
    for ((format, schema), receiver) in formats.iter().zip(&receivers) {
        let seen = receiver.until("three actions", |seen| seen.len() >= 3);
        for action in ["nudge", "block", "unblock"] {
            assert!(both(&output).contains(&format!("to-{format}: {action} taken, status 204\n")), "{}", both(&output));
        }
        if *format == "structured" {
            let schema: Value = serde_json::from_str(include_str!("../../../config/schemas/command.v1.schema.json")).unwrap();
            let validator = validator(&schema);
            for request in &seen {
                let command = &request.json()["data"];
                let problems: Vec<String> = validator.iter_errors(command).map(|error| error.to_string()).collect();
                assert_eq!((problems, &command["mode"]), (Vec::new(), &json!("replay")), "{command}");
            }
        } else {
            expect_published(format, schema, &seen);
        }
    }
    let token = receivers[0].seen()[0].json()["blocks"].to_string();
    let token = token.split("https://warden.example/a/").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
    let key = loopwarden_webhook::LinkKey::of("0123456789abcdef0123456789abcdef").unwrap();
    let link = key.read(token, loopwarden::event::EventTime(loopwarden::clock::now_ms())).unwrap();
    assert!(link.is_test && link.session_id == "loopwarden-webhook-test", "a link of a test does nothing: {link:?}");
    let incident: Vec<Value> = receivers[3].until("all", |seen| seen.len() >= 3).iter().map(Request::json).collect();
    assert_eq!(
        incident.iter().map(|event| event["event_action"].as_str().unwrap()).collect::<Vec<_>>(),
        ["trigger", "trigger", "resolve"]
    );
    assert!(
        incident.iter().all(|event| event["dedup_key"] == incident[0]["dedup_key"] && event["payload"]["severity"] == "info")
    );
    let one = test(&config, &["to-teams"]);
    assert_eq!(both(&one).lines().count(), 3, "{}", both(&one));
}

#[test]
fn what_a_receiver_does_not_take_is_shown_with_its_reason() {
    let scratch = Scratch::new();
    let strict = Receiver::start(|_, _| Reply::Body(400, "no_text\u{1b}[31m\nline"));
    let config = configured(&scratch.0, &tables(&scratch.0, &[("slack", &strict)]));
    let output = test(&config, &[]);
    assert_eq!(output.status.code(), Some(i32::from(exit_code::FAILED)));
    let shown = both(&output);
    assert!(shown.contains("error: to-slack: nudge not taken: status 400: no_text [31m line\n"), "{shown}");
    assert!(shown.contains("does `url` fit `format`") && !shown.contains('\u{1b}'), "{shown}");
    let unknown = test(&config, &["to-slak"]);
    assert_eq!(unknown.status.code(), Some(i32::from(exit_code::USAGE)));
    assert!(both(&unknown).contains("(did you mean \"to-slack\"?); those there: to-slack\n"), "{}", both(&unknown));
    let none = test(&configured(&scratch.0, "lanes = 1\n"), &[]);
    assert!(both(&none).contains("no table [[webhook]]; name their file: --config FILE\n"), "{}", both(&none));
    // And in the log of a process.
    let config = configured(&scratch.0, &tables(&scratch.0, &[("slack", &strict)]));
    let running = Running::start_with(&scratch.0, &["--config", &config], &[]);
    (1..=CALLS).for_each(|number| running.accept(&failed_call("s", number)));
    let refused = "loopwarden_webhook_requests_total{webhook=\"to-slack\",answer=\"refused\"} ";
    let count = |text: &str| text.lines().find_map(|line| line.strip_prefix(refused)?.parse::<f64>().ok());
    running.until("/metrics", |answer| count(&answer.text).is_some_and(|count| count >= 1.0));
    drop(running);
    let log = fs::read_to_string(scratch.0.join("stderr")).unwrap();
    assert!(log.contains("\"status\":400,\"answer\":\"no_text [31m line\""), "{log}");
}

#[test]
fn a_pager_needs_the_file_with_its_key() {
    let scratch = Scratch::new();
    for more in ["", "token_file = \"key\"\ntoken_header = \"x-key\"\n"] {
        let table = format!(
            "[[webhook]]\nname = \"p\"\nurl = \"https://events.pagerduty.com/v2/enqueue\"\nformat = \"pagerduty\"\n{more}"
        );
        let output = test(&configured(&scratch.0, &table), &[]);
        assert_eq!(output.status.code(), Some(i32::from(exit_code::CONFIG)), "{}", both(&output));
        assert!(both(&output).contains("must name the file with the routing key"), "{}", both(&output));
    }
}
