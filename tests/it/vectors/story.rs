//! Stories: commands that come in any order, and questions of agents in between. The guard answers.

use std::collections::BTreeMap;

use loopwarden::event::EventTime;
use loopwarden_guard::{Answer, Check, Guard, Knowledge, Options, Source};
use serde_json::{Value, json};

use super::value::{Json, TOOLS, object, written};
use super::{fingerprint, identity};
use crate::random::Random;

const BEGIN: EventTime = EventTime(1_795_700_000_000);
const STEPS: usize = 60;
/// The guard forgets an agent that was silent for longer. Milliseconds.
const STORY_MS_MAX: i64 = 3_000_000;

const SESSIONS: [&str; 3] = ["s", "S", "größe"];
const AGENTS: [&str; 2] = ["main", "helper"];
const SWARMS: [Option<&str>; 3] = [Some("w"), None, Some("v")];
const TENANTS: [Option<&str>; 3] = [None, None, Some("t")];
const LEVELS: [u8; 6] = [1, 2, 3, 4, 4, 4];
const ABILITIES: [&[&str]; 12] = [
    &["deny"],
    &["deny"],
    &["deny"],
    &["deny", "context_after", "replace_result", "stop"],
    &["deny", "context_before", "context_after", "replace_result", "stop"],
    &["deny", "context_after"],
    &["deny", "context_after"],
    &["deny", "context_before", "sing"],
    &["context_before"],
    &["replace_result"],
    &["deny", "stop", "context_after"],
    &[],
];

/// A command or a question is about one of these.
struct Scene {
    calls: Vec<(&'static str, Json)>,
    /// Numbers so large that a double cannot tell them apart.
    is_large: bool,
    /// The last order of each subject, and when its last command ends.
    orders: BTreeMap<String, (u64, u64, i64)>,
    sent: Vec<Value>,
    now: EventTime,
}

/// Mostly the first, so that commands and questions are about the same.
fn mostly<T: Copy>(random: &mut Random, list: &[T]) -> T {
    list[if random.below(5) < 3 { 0 } else { random.below(list.len()) }]
}

fn guard_answer(guard: &mut Guard, event: Value, can: &[&str], now: EventTime) -> Answer {
    let check = json!({ "event": event, "record": false, "client": { "name": "vectors", "can": can } });
    let mut opened = guard.open(Check::read(check.to_string().as_bytes()).unwrap(), now).unwrap();
    guard.decide(&mut opened, Knowledge { as_of: Some(now), late_ms: 0, source: Source::Kafka }, now)
}

/// Whether the guard refuses a call under a block of that fingerprint.
pub(super) fn is_refused(tool: &str, args: &str, fingerprint: &str, identity: &Value) -> bool {
    let mut guard = Guard::new(Options::default());
    let mut scope = json!({ "kind": "session", "agent_id": "main", "tool": tool, "fingerprint": fingerprint });
    if !identity.is_null() {
        scope["identity"] = identity.clone();
    }
    let command = json!({
        "v": 1, "id": "c", "action": "block", "session_id": "s", "scope": scope, "level": 2, "epoch": 1, "seq": 1, "episode": "e",
        "issued_at": BEGIN.to_rfc3339(), "expires_at": EventTime(BEGIN.0 + 1).to_rfc3339(), "mode": "live",
        "reason": { "code": "exact_repeat" }, "message": "m", "trigger": {}, "engine": {}
    });
    guard.command(command.to_string().as_bytes(), BEGIN);
    // As text, so that the arguments stay as they are written.
    let event = format!(
        r#"{{"event":{{"id":"i","kind":"tool_call","session_id":"s","tool":{},"args":{args}}},"record":false}}"#,
        json!(tool)
    );
    let mut opened = guard.open(Check::read(event.as_bytes()).unwrap(), BEGIN).unwrap();
    let answer = guard.decide(&mut opened, Knowledge { as_of: Some(BEGIN), late_ms: 0, source: Source::Kafka }, BEGIN);
    serde_json::to_value(answer).unwrap()["decision"] == "deny"
}

impl Scene {
    fn scope(&self, random: &mut Random, is_block: bool) -> Value {
        let kind = ["session", "session", "session", "session", "swarm", "swarm", "tenant"][random.below(7)];
        let (tool, args) = &self.calls[mostly(random, &[0, 1, 2])];
        let is_of_others = kind != "session";
        let mut scope = json!({ "kind": kind });
        if !is_of_others || random.below(4) == 0 {
            scope["agent_id"] = json!(mostly(random, &AGENTS));
        }
        if random.below(5) > 0 {
            scope["tool"] = json!(tool);
        }
        if is_of_others || random.below(3) > 0 {
            let recipe = if random.below(3) == 0 { identity(random) } else { json!({ "kind": "call" }) };
            let print = fingerprint(tool, args, &recipe);
            // What nobody can make is mostly a nudge.
            let recipe = if print.is_none() && is_block && random.below(4) > 0 { json!({ "kind": "call" }) } else { recipe };
            let print = fingerprint(tool, args, &recipe).unwrap_or_else(|| "0f".repeat(16));
            scope["fingerprint"] = json!(if random.below(10) == 0 { print.to_uppercase() } else { print });
            if !recipe.is_null() {
                scope["identity"] = recipe;
            }
        }
        if is_of_others && random.below(2) == 0 {
            let only = (0..random.below(3))
                .map(|_| json!({ "session_id": mostly(random, &SESSIONS), "agent_id": mostly(random, &AGENTS), "new": 1 }));
            scope["only"] = json!(only.collect::<Vec<_>>());
        }
        scope
    }

    fn command(&mut self, random: &mut Random, number: usize) -> Value {
        let action = ["nudge", "nudge", "nudge", "block", "block", "block", "unblock"][random.below(7)];
        let scope = self.scope(random, action == "block");
        let tenant = mostly(random, &TENANTS);
        let (session, swarm) = (mostly(random, &SESSIONS), mostly(random, &["w", "v"]));
        let is_opaque = ["opaque", "smell"].iter().any(|kind| scope["identity"]["kind"] == *kind);
        let mode = ["live", "live", "live", "live", "live", "live", "live", "live", "shadow", "replay"][random.below(10)];
        let print = scope["fingerprint"].as_str().unwrap_or_default().to_lowercase();
        let subject = match scope["kind"].as_str().unwrap() {
            "swarm" => format!("{tenant:?} {swarm} {print}"),
            "tenant" => format!("{tenant:?} {print}"),
            _ => format!("{tenant:?} {session} {}", scope["agent_id"]),
        };
        let first = if self.is_large { 9_007_199_254_740_990 } else { 1 };
        let (epoch, seq, ends_ms) = self.orders.get(&subject).copied().unwrap_or((first, first - 1, 0));
        let mut expires_ms = self.now.0 + [-1, 0, 1, 5_000, 60_000, 600_000, 600_000, 600_000, 1_200_000][random.below(9)];
        let (epoch, seq) = match random.below(12) {
            0 => (epoch + 1, 1),
            // Late or twice: it ends no later than the last one, for then the order of that one may be forgotten.
            1 | 2 => {
                expires_ms = expires_ms.min(ends_ms);
                if random.below(2) == 0 { (epoch - 1, seq + 5) } else { (epoch, seq - seq.min(random.below(3) as u64)) }
            }
            _ => (epoch, seq + 1),
        };
        let is_newer = self.orders.get(&subject).is_none_or(|(known, last, _)| (epoch, seq) > (*known, *last));
        if is_newer && mode == "live" && !(action == "block" && is_opaque) && expires_ms > self.now.0 {
            self.orders.insert(subject, (epoch, seq, expires_ms));
        }
        let issued = EventTime(self.now.0 - [0, 0, 1, 400, 90_000][random.below(5)]);
        let message = match random.below(8) {
            0 => "[System] You've called it 3 times.".to_owned(),
            1 => format!("Reminder: [System] {number}, größe \u{1f600}.\n\tThen: \"stop\"."),
            2 => "é\u{1f600}".repeat(400 + random.below(200)),
            3 => ["", " ", "[System] "][random.below(3)].to_owned(),
            _ => format!("text {number}"),
        };
        let mut command = json!({
            "v": 1, "id": format!("C{number}"), "action": action, "scope": scope, "level": LEVELS[random.below(LEVELS.len())],
            "epoch": epoch, "seq": seq, "episode": format!("e{}", random.below(3)),
            "issued_at": issued.to_rfc3339(), "expires_at": time_text(EventTime(expires_ms), random),
            "mode": mode,
            "reason": { "code": "exact_repeat", "summary": "sum", "evidence": { "count": 3 } },
            "message": message, "trigger": { "id": "x" }, "engine": { "version": "9.9.9" }, "new": [1, { "a": null }],
        });
        match command["scope"]["kind"].as_str() {
            Some("session") => command["session_id"] = json!(session),
            Some("swarm") => command["swarm_id"] = json!(swarm),
            _ => {}
        }
        if let Some(tenant) = tenant {
            command["tenant"] = json!(tenant);
        } else if random.below(4) == 0 {
            command["tenant"] = [json!(null), json!("")][random.below(2)].clone();
        }
        if random.below(5) > 0 {
            command["advice"] = json!(mostly(random, &[Some("stop"), Some("retry"), None]));
        }
        if action == "unblock" && random.below(2) == 0 {
            command.as_object_mut().unwrap().remove("message");
        }
        command
    }

    fn who(&self, random: &mut Random) -> Value {
        let mut who = json!({ "session_id": mostly(random, &SESSIONS), "agent_id": mostly(random, &AGENTS) });
        if let Some(swarm) = mostly(random, &SWARMS) {
            who["swarm_id"] = json!(swarm);
        }
        if let Some(tenant) = mostly(random, &TENANTS) {
            who["tenant"] = json!(tenant);
        }
        who
    }

    fn question(&mut self, guard: &mut Guard, random: &mut Random, number: usize) -> Value {
        let who = self.who(random);
        let phase = [
            "before", "before", "before", "before", "before", "before", "before", "after", "after", "after", "turn", "turn",
            "anew",
        ][random.below(13)];
        let can = ABILITIES[random.below(ABILITIES.len())];
        let mut event =
            json!({ "id": format!("q{number}"), "session_id": who["session_id"], "agent": { "id": who["agent_id"] } });
        for field in ["swarm_id", "tenant"] {
            if let Some(value) = who.get(field) {
                event[field] = value.clone();
            }
        }
        let mut step = json!({ "now": self.now.0, "phase": phase, "who": who });
        match phase {
            "before" | "after" => {
                let (tool, args) = &self.calls[mostly(random, &[0, 1, 2])];
                let args = written(args, random);
                step["tool"] = json!(tool);
                step["args"] = json!(args);
                event["kind"] = json!(if phase == "before" { "tool_call" } else { "tool_result" });
                event["call_id"] = json!(format!("call{number}"));
                event["tool"] = json!(tool);
                // Another way to write the same, which keeps what JSON values of this library would lose.
                event["args"] = json!(args);
            }
            "turn" => event["kind"] = json!("message"),
            _ => event["kind"] = json!(["session_start", "reset"][random.below(2)]),
        }
        if phase == "turn" {
            event["role"] = json!("assistant");
        }
        if phase == "anew" {
            if event["kind"] == "reset" {
                event["kind"] = json!("message");
                event["role"] = json!("user");
            }
            guard_answer(guard, event, can, self.now);
            return step;
        }
        step["can"] = json!(can);
        let answer = guard_answer(guard, event, can, self.now);
        // The answer has reached its agent: its next event says so.
        let next = json!({ "id": format!("n{number}"), "kind": "progress", "session_id": step["who"]["session_id"],
            "agent": { "id": step["who"]["agent_id"] }, "tenant": step["who"]["tenant"] });
        guard_answer(guard, next, can, self.now);
        let all = serde_json::to_value(answer).unwrap();
        let mut told = json!({ "decision": all["decision"], "action": all["action"], "stop": all["stop"] });
        for field in ["message", "placement", "command_id", "level"] {
            if let Some(value) = all.get(field) {
                told[field] = value.clone();
            }
        }
        step["answer"] = told;
        step
    }
}

/// A moment in one of its spellings.
fn time_text(time: EventTime, random: &mut Random) -> String {
    let text = time.to_rfc3339();
    match random.below(4) {
        0 => text.replace('Z', "9999+00:00"),
        1 => {
            let there = EventTime(time.0 + 2 * 3_600_000).to_rfc3339();
            there.replace('Z', "+02:00")
        }
        2 => text.to_lowercase(),
        _ => text,
    }
}

/// The command with a fault: nobody is bound by it, or it is another good one.
fn spoiled(command: &Value, random: &mut Random) -> String {
    let faults = [
        ("/v", json!(2)),
        ("/v", json!("1")),
        ("/v", json!(true)),
        ("/id", Value::Null),
        ("/id", json!(7)),
        ("/action", json!("forbid")),
        ("/action", json!(["block"])),
        ("/mode", json!("rehearsal")),
        ("/mode", Value::Null),
        ("/level", json!(256)),
        ("/level", json!(-1)),
        ("/level", json!("1")),
        ("/epoch", json!(-1)),
        ("/epoch", json!("1")),
        ("/seq", json!(1.5)),
        ("/seq", Value::Null),
        ("/episode", json!({})),
        ("/scope", json!(7)),
        ("/scope", json!({})),
        ("/scope/kind", json!("galaxy")),
        ("/scope/kind", json!("Session")),
        ("/scope/kind", json!("agent")),
        ("/scope/by", json!(7)),
        ("/scope/name", json!(7)),
        ("/scope/agent_id", json!(7)),
        ("/scope/tool", json!(["Bash"])),
        ("/scope/fingerprint", json!("A4")),
        ("/scope/fingerprint", json!("+4404e81f177a67db9d08a78ed566b3")),
        ("/scope/fingerprint", json!("４404e81f177a67db9d08a78ed566b35")),
        ("/scope/fingerprint", json!(7)),
        ("/scope/identity", json!("call")),
        ("/scope/identity", json!({ "kind": 7 })),
        ("/scope/identity", json!({ "args": null })),
        ("/scope/identity", json!({ "args": ["a", 7] })),
        ("/scope/identity", json!({ "args_ignored": "a" })),
        ("/scope/only", Value::Null),
        ("/scope/only", json!({})),
        ("/scope/only", json!(["s"])),
        ("/scope/only", json!([{ "session_id": "s" }])),
        ("/expires_at", json!("soon")),
        ("/expires_at", json!("2027-01-05T09:10:00")),
        ("/expires_at", json!(1_900_000_000_000_u64)),
        ("/issued_at", json!("2026-02-30T00:00:00Z")),
        ("/reason", Value::Null),
        ("/reason", json!("exact_repeat")),
        ("/reason", json!({ "summary": "s" })),
        ("/reason", json!({ "code": "c", "summary": 7 })),
        ("/message", json!(7)),
        ("/message", Value::Null),
        ("/advice", json!(["stop"])),
        ("/tenant", json!(7)),
        ("/session_id", Value::Null),
        ("/session_id", json!(7)),
        ("/swarm_id", json!(7)),
    ];
    let whole = command.to_string();
    match random.below(12) {
        0 => whole.chars().take(whole.chars().count() / 2).collect(),
        1 => format!("{whole} x"),
        2 => ["", "null", "[]", "7", "\"x\"", "NaN", "{}"][random.below(7)].to_owned(),
        3 => whole.replacen("\"new\":", "\"new\":NaN,\"newer\":", 1),
        4 => whole.replacen("\"episode\":\"", "\"episode\":\"\\ud800", 1),
        _ => {
            let (pointer, value) = &faults[random.below(faults.len())];
            let mut command = command.clone();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            command.pointer_mut(parent).unwrap()[field] = value.clone();
            command.to_string()
        }
    }
}

fn is_understood(command: &str) -> bool {
    let mut guard = Guard::new(Options::default());
    guard.command(command.as_bytes(), BEGIN);
    guard.counts(BEGIN).not_understood == 0
}

/// One story.
pub(super) fn story(random: &mut Random, number: usize) -> Value {
    let calls = (0..3).map(|_| (TOOLS[random.below(2)], object(random, 2))).collect();
    let mut scene = Scene { calls, is_large: number.is_multiple_of(4), orders: BTreeMap::new(), sent: Vec::new(), now: BEGIN };
    let mut guard = Guard::new(Options::default());
    let mut steps = Vec::new();
    for at in 0..STEPS {
        if scene.now.0 - BEGIN.0 < STORY_MS_MAX {
            scene.now.0 += [0, 1, 100, 3_000, 3_000, 3_000, 3_000, 20_000, 20_000, 120_000][random.below(10)];
        }
        if random.below(2) == 0 {
            let text = match random.below(14) {
                0 if !scene.sent.is_empty() => scene.sent[random.below(scene.sent.len())].to_string(),
                1 | 2 => {
                    let orders = scene.orders.clone();
                    let command = scene.command(random, at);
                    let text = spoiled(&command, random);
                    if !is_understood(&text) {
                        // Its number stays free.
                        scene.orders = orders;
                    }
                    text
                }
                _ => {
                    let command = scene.command(random, at);
                    scene.sent.push(command.clone());
                    command.to_string()
                }
            };
            guard.command(text.as_bytes(), scene.now);
            steps.push(json!({ "now": scene.now.0, "command": text }));
        } else {
            let step = scene.question(&mut guard, random, at);
            steps.push(step);
        }
    }
    json!({ "is": "story", "steps": steps })
}
