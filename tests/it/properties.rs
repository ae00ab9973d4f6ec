//! What holds for every stream: bounded memory, the same answers however a stream is written, cut or restarted. Streams come from a
//! seed and a small alphabet, so that loops happen.

use std::{collections::BTreeSet, sync::Arc};

use loopwarden::engine::{
    Action, Command, CommandId, Effects, Fact, Input, RecipeForm, Session, SessionEngine, SourcePosition, SubjectKey, SwarmCall,
    SwarmCallKey, SwarmCounter, SwarmEngine, SwarmInput, SwarmReport, SwarmReset, SwarmSums,
};
use loopwarden::event::{EventTime, RecordMeta, decode};
use loopwarden::policy::{Detector, Policy};
use loopwarden::{config::policy::load_with_overrides, detect::Finding, identity::Hash128, limits::SWARM_STEPS_MAX};
use loopwarden_lab::cases::SteppedLane;
use serde_json::{Value, json};

use crate::{decode::record, golden::RULES, invariants::Invariant, random::Random};

/// 2026-01-01, a boundary of every fixed window.
const START: i64 = 1_767_225_600_000;

fn policy(profile: &str, overrides: &Value) -> Arc<Policy> {
    Arc::new(load_with_overrides(profile, overrides).unwrap_or_else(|problems| panic!("{problems}")))
}

/// What a command says, whatever its number.
type Said = (Action, String, u8, Option<String>);

/// An event before it is written down.
#[derive(Debug, Clone)]
struct Draft {
    fields: Vec<(&'static str, Value)>,
    time: EventTime,
}

impl Draft {
    fn written(&self) -> String {
        let fields: serde_json::Map<String, Value> =
            self.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Value::Object(fields).to_string()
    }

    /// The same event: keys the other way round, white space everywhere, another call id.
    fn written_otherwise(&self) -> String {
        let fields: Vec<String> = self
            .fields
            .iter()
            .rev()
            .map(|(name, value)| match (*name, value.as_str()) {
                ("call_id", Some(id)) => format!(" \"{name}\" : {}", json!(format!("other-{id}"))),
                _ => format!(" \"{name}\" :\t{}", backwards(value)),
            })
            .collect();
        format!("{{{} \n}}", fields.join(" ,\r\n"))
    }
}

fn backwards(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().rev().map(|(name, value)| format!("{} : {}", json!(name), backwards(value))).collect();
            format!("{{ {} }}", fields.join(" , "))
        }
        Value::Array(items) => format!("[ {} ]", items.iter().map(backwards).collect::<Vec<_>>().join(" , ")),
        other => other.to_string(),
    }
}

const TOOLS: [&str; 7] = ["search", "Bash", "read_file", "Edit", "check_status", "fetch", "log"];
const ARGS: [&str; 6] = [
    r#"{"q":"alpha beta gamma","p":{"b":1,"a":[1,2]}}"#,
    r#"{"path":"src/a.rs"}"#,
    r#"{"path":"src/a.rs","encoding":"utf-8"}"#,
    r#"{"command":"cargo test"}"#,
    r#"{"command":"cat notes.md"}"#,
    r#"{"command":"sed -i s/a/b/ x"}"#,
];
const RESULTS: [&str; 5] =
    ["ok", "nothing was found here", "2 failed, 3 passed", "5 passed and all is well", "a page about something"];
const ERRORS: [&str; 4] = ["it broke in some way", "429 too many requests", "exit 1", "no such file or directory"];
const OUTCOMES: [&str; 6] = ["ok", "error", "denied", "timeout", "cancelled", "unknown"];

/// A stream of one session. Few tools, arguments and answers, each often the one before again.
fn stream(random: &mut Random, name: &str, length: usize) -> Vec<Draft> {
    let mut time = START;
    let mut drafts: Vec<Draft> = Vec::new();
    let mut last: Option<(&str, &str)> = None;
    // Now and then the agent tries something new at each step, and learns the same.
    let mut stuck = 0;
    for at in 0..length {
        time += [0, 1, 500, 1_000, 20_000, 700_000][random.below(6)];
        let id = if random.below(40) == 0 && at > 0 { at - 1 } else { at };
        let mut fields =
            vec![("id", json!(format!("{name}{id}"))), ("session_id", json!("s")), ("time", json!(EventTime(time).to_rfc3339()))];
        stuck = if stuck == 0 && random.below(25) == 0 { 10 } else { stuck.max(1) - 1 };
        if stuck > 0 {
            fields.extend([
                ("kind", json!("tool")),
                ("tool", json!("search")),
                ("args", json!({"q": format!("wording {name}{at}")})),
                ("result", json!(RESULTS[1])),
            ]);
            drafts.push(Draft { fields, time: EventTime(time) });
            continue;
        }
        let (tool, args) = match last {
            Some(last) if random.below(4) > 0 => last,
            _ => (random.pick(&TOOLS), random.pick(&ARGS)),
        };
        let tool = if args.contains("command") { "Bash" } else { tool };
        last = Some((tool, args));
        let kind = ["tool", "tool", "tool", "tool", "tool_call", "tool_result", "message", "rare"][random.below(8)];
        let call_id = format!("{name}c{}", random.below(3));
        match kind {
            "tool" | "tool_call" => {
                fields.push(("kind", json!(kind)));
                fields.push(("tool", json!(tool)));
                fields.push(("args", serde_json::from_str(args).unwrap()));
                if kind == "tool_call" || random.below(3) == 0 {
                    fields.push(("call_id", json!(call_id)));
                }
            }
            "tool_result" => {
                fields.push(("kind", json!(kind)));
                fields.push(("call_id", json!(call_id)));
            }
            "message" => {
                fields.push(("kind", json!("message")));
                fields.push(("role", json!(["assistant", "assistant", "assistant", "user", "system"][random.below(5)])));
                fields.push(("text", json!(format!("text {}", random.below(9)))));
            }
            _ => match random.below(8) {
                0 => fields.extend([("kind", json!("reset")), ("scope", json!("agent"))]),
                1 => fields.push(("kind", json!("session_start"))),
                2 => fields.push(("kind", json!("session_end"))),
                3 => fields.extend([("kind", json!("progress")), ("state", json!(format!("tree{}", random.below(2))))]),
                _ => fields.extend([("kind", json!("ack")), ("command_id", json!("C")), ("ack", json!("applied"))]),
            },
        }
        if matches!(kind, "tool" | "tool_result") {
            match random.below(10) {
                0 => fields.push(("outcome", json!(random.pick(&OUTCOMES)))),
                1..=3 => fields.extend([("outcome", json!("error")), ("error", json!(random.pick(&ERRORS)))]),
                4 => fields.extend([("result", json!({"stdout": random.pick(&RESULTS), "pid": at})), ("outcome", json!("ok"))]),
                5..=8 if args.contains("cargo test") => fields.push(("result", json!(RESULTS[2]))),
                _ => fields.push(("result", json!(random.pick(&RESULTS)))),
            }
        }
        if random.below(4) == 0 {
            fields.push(("turn", json!(at / 3)));
        }
        drafts.push(Draft { fields, time: EventTime(time) });
    }
    drafts
}

/// Policies under which different paths are taken.
fn policies() -> Vec<Arc<Policy>> {
    let mut policies: Vec<Arc<Policy>> = ["default", RULES, "hackeurope", "attocode", "cortex", "rockbot", "ironcurtain"]
        .map(|name| policy(name, &json!({})))
        .into();
    policies.push(policy("default", &json!({"score": {"nudge_at": 1.0, "block_at": 2.0}})));
    let own = json!({"own_words": {"mode": "nudge", "threshold": 2}, "cycle": {"threshold": 2}, "budget": {"mode": "block", "calls": 9, "turns_block": 9}});
    policies.push(policy("default", &json!({ "detectors": own })));
    policies.push(policy(
        "default",
        &json!({"history_steps": 120, "episodes": {"kept": 2, "relapse_steps": 3, "renudge_hits": 2}, "tool": [{"names": ["log"], "class": "exempt"}],
            "detectors": {
                "exact_repeat": {"block_at": 4, "evaluate": "turn"}, "near_repeat": {"mode": "block"}, "stagnation": {"block_at": 4, "block_scope": "session"},
                "stuck": {"mode": "block", "block_at": 5}, "outcome_repeat": {"block_at": 6, "block_scope": "tool"}, "call_rate": {"limit": 4},
                "semantic_repeat": {"mode": "nudge"}, "exploration": {"mode": "nudge", "threshold": 2}, "dead_end": {"mode": "shadow"}}}),
    ));
    policies
}

fn answers(policy: &Arc<Policy>, payloads: impl IntoIterator<Item = (String, EventTime)>) -> Vec<Vec<Command>> {
    let mut lane = SteppedLane::new("loopwarden", Arc::clone(policy));
    payloads.into_iter().map(|(payload, time)| lane.feed(payload.as_bytes(), time).unwrap().commands).collect()
}

fn written(drafts: &[Draft]) -> impl Iterator<Item = (String, EventTime)> {
    drafts.iter().map(|draft| (draft.written(), draft.time))
}

/// Commands but for the call they name, which is not part of any identity.
fn without_call_ids(commands: &[Vec<Command>]) -> String {
    let text = format!("{commands:?}");
    text.replace("other-", "")
}

#[test]
fn no_stream_of_events_panics_or_breaks_an_invariant() {
    let policies = policies();
    let mut found = BTreeSet::new();
    let mut blocks = 0;
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let policy = &policies[random.below(policies.len())];
        let engine = SessionEngine::new("loopwarden", Arc::clone(policy));
        let mut session = Session::new(policy.history_steps);
        let mut effects = Effects::default();
        for draft in stream(&mut random, "e", 80) {
            let payload = draft.written();
            let mut meta = record(&[]);
            meta.timestamp = draft.time;
            let event = decode(Some(payload.as_bytes()), &meta).unwrap_or_else(|rejected| panic!("{rejected}: {payload}"));
            let subject = SubjectKey::of_event(&event);
            effects.clear();
            let before = (session.head.board.seq, session.head.shadow_seq);
            engine.apply(
                &subject,
                &mut session,
                Input::Event(&event, SourcePosition { topic: "t", partition: 0, offset: 0, watermark: event.time }),
                &mut effects,
            );
            let broken = Invariant::broken(policy, &session, &effects, before);
            assert_eq!(broken, [], "seed {seed}, {}: {payload}", policy.profile);
            found.extend(effects.findings.iter().map(|finding| finding.detector.as_str()));
            blocks += effects.commands.iter().filter(|command| command.action == Action::Block).count();
        }
    }
    // The streams are worth something: every detector of the session stage found something.
    for detector in Detector::ALL
        .into_iter()
        .filter(|detector| !matches!(detector, Detector::FleetRate | Detector::SwarmRepeat | Detector::Tree))
    {
        assert!(found.contains(detector.as_str()), "{} never found anything", detector.as_str());
    }
    assert!(blocks > 100, "only {blocks} blocks");
}

#[test]
fn order_of_keys_white_space_and_call_ids_change_no_command() {
    for policy in policies() {
        for seed in 0..60 {
            let drafts = stream(&mut Random(seed), "e", 60);
            let one = answers(&policy, written(&drafts));
            let two = answers(&policy, drafts.iter().map(|draft| (draft.written_otherwise(), draft.time)));
            assert_eq!(without_call_ids(&one), without_call_ids(&two), "{} seed {seed}", policy.profile);
        }
    }
}

#[test]
fn the_beginning_of_a_stream_gives_the_beginning_of_its_commands_and_two_runs_the_same_bytes() {
    for policy in policies() {
        for seed in 0..20 {
            let drafts = stream(&mut Random(seed), "e", 60);
            let whole = answers(&policy, written(&drafts));
            assert_eq!(format!("{whole:?}"), format!("{:?}", answers(&policy, written(&drafts))));
            let cut = Random(seed).below(drafts.len());
            assert_eq!(whole[..cut], answers(&policy, written(&drafts[..cut])), "{} seed {seed} cut {cut}", policy.profile);
        }
    }
}

#[test]
fn a_restart_anywhere_changes_no_command() {
    for policy in policies() {
        for seed in 0..40 {
            let drafts = stream(&mut Random(seed), "e", 60);
            let straight = answers(&policy, written(&drafts));
            let mut lane = SteppedLane::new("loopwarden", Arc::clone(&policy));
            let mut restarts = Random(seed);
            for ((payload, time), expected) in written(&drafts).zip(&straight) {
                if restarts.below(3) == 0 {
                    lane.restart(None);
                }
                let got = lane.feed(payload.as_bytes(), time).unwrap().commands;
                assert_eq!(got, *expected, "{} seed {seed}: {payload}", policy.profile);
            }
        }
    }
}

#[test]
fn a_reset_leaves_nothing_of_what_was_before() {
    let said = |commands: &[Vec<Command>]| -> Vec<Vec<Said>> {
        let of = |command: &Command| (command.action, command.reason.as_str().to_owned(), command.level, command.message.clone());
        commands.iter().map(|commands| commands.iter().map(of).collect()).collect()
    };
    for policy in policies() {
        for seed in 0..60 {
            let mut random = Random(seed);
            let before = stream(&mut random, "before", 50);
            let after = stream(&mut random, "after", 50);
            let shift = before.last().unwrap().time.0 - START + 1_000;
            let after: Vec<Draft> = after
                .into_iter()
                .map(|draft| {
                    let time = EventTime(draft.time.0 + shift);
                    let fields = draft.fields.into_iter();
                    let fields =
                        fields.map(|(name, value)| if name == "time" { (name, json!(time.to_rfc3339())) } else { (name, value) });
                    Draft { fields: fields.collect(), time }
                })
                .collect();
            let reset = Draft {
                fields: vec![
                    ("id", json!("reset")),
                    ("session_id", json!("s")),
                    ("kind", json!("reset")),
                    ("time", json!(EventTime(START + shift).to_rfc3339())),
                ],
                time: EventTime(START + shift),
            };
            let whole: Vec<Draft> = before.iter().chain([&reset]).chain(&after).cloned().collect();
            let got = answers(&policy, written(&whole));
            let fresh = answers(&policy, written(&after));
            assert_eq!(said(&got[before.len() + 1..]), said(&fresh), "{} seed {seed}", policy.profile);
        }
    }
}

/// Findings of one detector, event by event. In shadow, so that no block gets in the way of the events that follow.
fn findings(overrides: &Value, detector: Detector, drafts: &[Draft]) -> Vec<Vec<Finding>> {
    let mut lane = SteppedLane::new("loopwarden", policy("default", overrides));
    written(drafts)
        .map(|(payload, time)| {
            let findings = lane.feed(payload.as_bytes(), time).unwrap().findings;
            findings.into_iter().filter(|finding| finding.detector == detector).collect()
        })
        .collect()
}

#[test]
fn what_a_detector_finds_does_not_depend_on_the_others() {
    let in_session = Detector::ALL.into_iter().filter(|one| !matches!(one, Detector::FleetRate | Detector::SwarmRepeat));
    let shadows: serde_json::Map<String, Value> =
        in_session.clone().map(|detector| (detector.as_str().to_owned(), json!({"mode": "shadow"}))).collect();
    let mut found = 0;
    for detector in in_session {
        // `near_repeat` is asked where `exact_repeat` has no finding: the one rule between two detectors.
        let only: Vec<&str> = match detector {
            Detector::NearRepeat => vec!["exact_repeat", "near_repeat"],
            other => vec![other.as_str()],
        };
        for seed in 0..40 {
            let drafts = stream(&mut Random(seed), "e", 60);
            let together = findings(&json!({"detectors": shadows}), detector, &drafts);
            let alone = findings(&json!({"detectors": shadows, "only": only}), detector, &drafts);
            assert_eq!(together, alone, "{} seed {seed}", detector.as_str());
            found += together.iter().flatten().count();
        }
    }
    assert!(found > 1_000, "only {found} findings");
}

/// Stated in `src/docs/policies.md`: bytes of a step of a session, and of a session beside its steps, whatever comes.
const STEP_BYTES_MAX: usize = 5 * 1024;
const HEAD_BYTES_MAX: usize = 128 * 1024;

#[test]
fn memory_of_a_session_is_bounded_whatever_comes() {
    for (profile, steps) in [("default", 128), (RULES, 512)] {
        let most = most_bytes_of_a_session(profile);
        assert!(most < steps * STEP_BYTES_MAX + HEAD_BYTES_MAX, "{profile}: {most} bytes");
        // And the estimate counts what there is: the steps alone, with their ids.
        assert!(most > steps * 1024, "{profile}: {most} bytes");
    }
}

fn most_bytes_of_a_session(profile: &str) -> usize {
    let policy = policy(profile, &json!({}));
    let engine = SessionEngine::new("loopwarden", Arc::clone(&policy));
    let mut session = Session::new(policy.history_steps);
    let mut effects = Effects::default();
    let long = "\u{1F980}".repeat(240);
    let mut most = 0;
    for at in 0..100_000u32 {
        // Ids, tools and call ids of 256 characters of four bytes, each new; every third event repeats a call, so that loops are told.
        let (tool, q) = if at % 30 < 12 { (0, at / 30) } else { (at, at) };
        let payload = json!({
            "id": format!("{at:016}{long}"), "kind": if at % 7 == 0 { "tool_call" } else { "tool" }, "session_id": "s",
            "tool": format!("{tool:016}{long}"), "call_id": format!("{at:016}{long}"), "turn": at,
            "args": {"q": q, "words": (0..80).map(|word| format!("w{q}x{word}")).collect::<Vec<_>>()},
            "result": format!("an answer to {q}"), "outcome": if at % 2 == 0 { "ok" } else { "error" },
        });
        let payload = if at % 7 == 0 {
            let mut open = payload;
            open.as_object_mut().unwrap().retain(|name, _| name != "result" && name != "outcome");
            open
        } else {
            payload
        };
        let payload = payload.to_string();
        let meta = RecordMeta { timestamp: EventTime(START + i64::from(at)), ..record(&[]) };
        let event = decode(Some(payload.as_bytes()), &meta).unwrap();
        let place = SourcePosition { topic: "t", partition: 0, offset: u64::from(at), watermark: event.time };
        effects.clear();
        engine.apply(&SubjectKey::of_event(&event), &mut session, Input::Event(&event, place), &mut effects);
        if at % 500 == 0 {
            most = most.max(session.bytes());
        }
    }
    most
}

/// One call as the swarm stage counts it.
fn swarm_call(minute: i64, second: i64, agent: usize) -> SwarmCall {
    let time = EventTime(START + minute * 60_000 + second * 1_000);
    SwarmCall {
        key: key(),
        tool: "fetch".to_owned(),
        form: RecipeForm::Coarse,
        session_id: format!("s{agent}"),
        agent_id: "main".to_owned(),
        time,
        record_time: time,
    }
}

fn key() -> SwarmCallKey {
    SwarmCallKey::Swarm { tenant: String::new(), swarm_id: "sw".to_owned(), fingerprint: Hash128(7) }
}

fn reports(policy: &Policy, calls: &[SwarmCall]) -> Vec<SwarmReport> {
    let mut sums = SwarmSums::default();
    for call in calls {
        sums.add(policy, call.clone());
    }
    sums.drain_sorted().into_iter().map(|(_, report)| report).collect()
}

#[test]
fn reports_come_by_pane_then_swarms_by_their_names_then_fleets() {
    let policy = policy(RULES, &json!({}));
    let mut sums = SwarmSums::default();
    for (tenant, swarm_id) in [("b", "w1"), ("a", "w2"), ("", "w1"), ("a", "w1"), ("a", "w")] {
        for (fingerprint, minute) in [(2, 1), (1, 0), (2, 0), (1, 1)] {
            let (tenant, fingerprint) = (tenant.to_owned(), Hash128(fingerprint));
            let swarm = SwarmCallKey::Swarm { tenant: tenant.clone(), swarm_id: swarm_id.to_owned(), fingerprint };
            for key in [SwarmCallKey::Fleet { tenant, fingerprint }, swarm] {
                sums.add(&policy, SwarmCall { key, ..swarm_call(minute, 0, 0) });
            }
        }
    }
    let places = |reports: Vec<(SwarmCallKey, SwarmReport)>| -> Vec<(EventTime, SwarmCallKey)> {
        reports.into_iter().map(|(key, report)| (report.entries[0].pane, key)).collect()
    };
    let taken = places(sums.take(&SwarmReset { tenant: "a".to_owned(), swarm_id: "w1".to_owned(), time: EventTime(0) }));
    assert_eq!(taken.len(), 4);
    assert!(taken.is_sorted(), "{taken:?}");
    let is_its =
        |key: &SwarmCallKey| matches!(key, SwarmCallKey::Swarm { tenant, swarm_id, .. } if tenant == "a" && swarm_id == "w1");
    assert!(taken.iter().all(|(_, key)| is_its(key)));
    let rest = places(sums.drain_sorted());
    assert_eq!(rest.len(), 4 * 4 + 3 * 2, "four swarms are left, and the fleets of three tenants, whose panes are longer");
    assert!(rest.is_sorted(), "{rest:?}");
    assert!(sums.is_empty());
}

/// Commands of a counter that is given calls lane by lane, cut and interleaved as the seed says.
fn swarm_commands(policy: &Arc<Policy>, calls: &[SwarmCall], random: Option<&mut Random>) -> Vec<Command> {
    let engine = SwarmEngine::new("loopwarden", Arc::clone(policy));
    let mut counter = SwarmCounter::default();
    let mut effects = Effects::default();
    let mut order: Vec<SwarmReport> = Vec::new();
    match random {
        None => order.extend(calls.iter().flat_map(|call| reports(policy, std::slice::from_ref(call)))),
        Some(random) => {
            // Three lanes; each keeps the order of its calls and cuts them anywhere.
            let mut lanes: Vec<Vec<SwarmReport>> = Vec::new();
            for lane in 0..3 {
                let mine: Vec<SwarmCall> =
                    calls.iter().enumerate().filter(|(at, _)| at % 3 == lane).map(|(_, call)| call.clone()).collect();
                let mut rest = mine.as_slice();
                let mut cuts = Vec::new();
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(1 + random.below(rest.len().min(6)));
                    cuts.extend(reports(policy, now));
                    rest = later;
                }
                cuts.reverse();
                lanes.push(cuts);
            }
            while lanes.iter().any(|lane| !lane.is_empty()) {
                let lane = random.below(3);
                order.extend(lanes[lane].pop());
            }
        }
    }
    for report in order {
        engine.apply(&key(), &mut counter, SwarmInput::Report(report), &mut effects);
    }
    effects.commands
}

fn ids(commands: &[Command]) -> BTreeSet<CommandId> {
    commands.iter().map(|command| command.id).collect()
}

#[test]
fn how_calls_of_a_swarm_are_cut_into_reports_changes_no_id() {
    let mut told = 0;
    for (at, overrides) in [
        json!({}),
        json!({"steps": "double", "threshold": 4}),
        json!({"steps": "each", "threshold": 5, "workers_min": 3}),
        json!({"mode": "block", "threshold": 6, "block_at": 9}),
        json!({"window_ms": 0, "cooldown_ms": 0, "steps": "double"}),
        json!({"window_ms": 0, "threshold": 5, "steps": "each"}),
        json!({"window_ms": 300_000, "threshold": 5, "cooldown_ms": 300_000}),
    ]
    .into_iter()
    .enumerate()
    {
        let policy = policy(RULES, &json!({"detectors": {"swarm_repeat": overrides}}));
        for seed in 0..60 {
            let mut random = Random(seed);
            // Within the life of a pane: what comes later than that is dropped, and counted.
            let mut times: Vec<(i64, i64)> = (0..40).map(|_| (random.below(50) as i64, random.below(60) as i64)).collect();
            times.sort_unstable();
            let calls: Vec<SwarmCall> =
                times.into_iter().map(|(minute, second)| swarm_call(minute, second, random.below(4))).collect();
            let straight = swarm_commands(&policy, &calls, None);
            let expected = ids(&straight);
            assert_eq!(expected.len(), straight.len(), "an id twice");
            for _ in 0..5 {
                let cut = swarm_commands(&policy, &calls, Some(&mut random));
                assert_eq!(ids(&cut), expected, "settings {at}, seed {seed}");
                assert_eq!(cut.len(), straight.len());
            }
            told += straight.len();
        }
    }
    assert!(told > 300, "only {told} commands");
}

#[test]
fn each_step_is_told_once_a_period_and_commands_count_up() {
    let policy = policy(RULES, &json!({"detectors": {"swarm_repeat": {"steps": "double", "threshold": 4}}}));
    let calls: Vec<SwarmCall> = (0..40).map(|at| swarm_call(0, at, at as usize % 5)).collect();
    let commands = swarm_commands(&policy, &calls, None);
    let told: Vec<u64> = commands.iter().map(|command| command.seq).collect();
    assert_eq!(told, [1, 2, 3, 4], "at 4, 8, 16 and 32");
    assert!(commands.iter().all(|command| command.epoch == START && command.episode == commands[0].id));
    let next = [calls, vec![swarm_call(10, 0, 0)]].concat();
    let later = swarm_commands(&policy, &next, None);
    assert_eq!(later.len(), 8, "the next period tells the same four steps of the window again");
    assert_eq!(later[4].epoch, START + 600_000);
}

#[test]
fn an_endless_window_is_one_sum_however_long_the_swarm_lives() {
    let policy = policy("attocode", &json!({}));
    let engine = SwarmEngine::new("loopwarden", Arc::clone(&policy));
    let mut counter = SwarmCounter::default();
    let mut effects = Effects::default();
    for minute in 0..600 {
        for report in reports(&policy, &[swarm_call(minute, 0, minute as usize % 3)]) {
            engine.apply(&key(), &mut counter, SwarmInput::Report(report), &mut effects);
        }
        assert_eq!(counter.panes.len(), 1);
    }
    assert_eq!(counter.newest_window(&policy.detectors.swarm_repeat), (600, 3));
    let counts: Vec<u64> = effects.commands.iter().map(|command| command.seq).collect();
    assert_eq!(counts, (1..=591).collect::<Vec<u64>>(), "each count from the tenth on, once");
    engine.apply(&key(), &mut counter, SwarmInput::Reset(EventTime(START + 600 * 60_000)), &mut effects);
    assert!(effects.forgotten && counter.panes.is_empty());
}

#[test]
fn a_report_of_thousands_of_calls_tells_the_greatest_steps_and_counts_the_others() {
    let policy = policy(RULES, &json!({"detectors": {"swarm_repeat": {"steps": "each", "mode": "block", "block_at": 12}}}));
    let engine = SwarmEngine::new("loopwarden", Arc::clone(&policy));
    let (mut counter, mut effects) = (SwarmCounter::default(), Effects::default());
    let calls: Vec<SwarmCall> = (0..4_000).map(|at| swarm_call(0, at % 60, at as usize % 3)).collect();
    for report in reports(&policy, &calls) {
        engine.apply(&key(), &mut counter, SwarmInput::Report(report), &mut effects);
    }
    let steps = |commands: &[Command]| -> Vec<u64> {
        let evidence = |command: &Command| match command.evidence.iter().find(|(name, _)| *name == "calls_at_least") {
            Some((_, Fact::Count(step))) => *step,
            _ => unreachable!(),
        };
        commands.iter().map(evidence).collect()
    };
    let told = steps(&effects.commands);
    assert_eq!(told, [12].into_iter().chain(4_000 - u64::from(SWARM_STEPS_MAX) + 1..=4_000).collect::<Vec<_>>());
    assert_eq!(effects.counters.swarm_steps, 4_000 - 9 - SWARM_STEPS_MAX);
    assert!(effects.commands.iter().all(|command| command.action == Action::Block));
    effects.clear();
    for report in reports(&policy, &[swarm_call(0, 59, 0)]) {
        engine.apply(&key(), &mut counter, SwarmInput::Report(report), &mut effects);
    }
    assert_eq!(
        (steps(&effects.commands), effects.counters.swarm_steps),
        (vec![4_001], 0),
        "what was left out does not come later"
    );
}

#[test]
fn one_agent_is_no_swarm_and_a_late_pane_is_dropped() {
    let policy = policy(RULES, &json!({}));
    let alone: Vec<SwarmCall> = (0..30).map(|at| swarm_call(0, at, 1)).collect();
    assert_eq!(swarm_commands(&policy, &alone, None), []);
    // Nine calls, then one two hours later, then a tenth of the first hour: its pane is gone.
    let engine = SwarmEngine::new("loopwarden", Arc::clone(&policy));
    let mut counter = SwarmCounter::default();
    let mut effects = Effects::default();
    let calls: Vec<SwarmCall> = (0..9).map(|at| swarm_call(0, at, at as usize)).collect();
    for report in reports(&policy, &calls).into_iter().chain(reports(&policy, &[swarm_call(120, 0, 0)])) {
        engine.apply(&key(), &mut counter, SwarmInput::Report(report), &mut effects);
    }
    assert_eq!(effects.counters.swarm_late, 0);
    for report in reports(&policy, &[swarm_call(0, 30, 20)]) {
        engine.apply(&key(), &mut counter, SwarmInput::Report(report), &mut effects);
    }
    assert_eq!(effects.counters.swarm_late, 1);
    assert_eq!(effects.commands, []);
}

#[test]
fn a_reset_of_a_swarm_makes_every_step_new_in_a_later_epoch() {
    let policy = policy(RULES, &json!({}));
    let engine = SwarmEngine::new("loopwarden", Arc::clone(&policy));
    let mut counter = SwarmCounter::default();
    let mut effects = Effects::default();
    let feed = |counter: &mut SwarmCounter, effects: &mut Effects, from: i64| {
        let calls: Vec<SwarmCall> = (0..10).map(|at| swarm_call(0, from + at, at as usize)).collect();
        for report in reports(&policy, &calls) {
            engine.apply(&key(), counter, SwarmInput::Report(report), effects);
        }
    };
    feed(&mut counter, &mut effects, 0);
    let reset = EventTime(START + 15_000);
    engine.apply(&key(), &mut counter, SwarmInput::Reset(reset), &mut effects);
    assert!(counter.panes.is_empty() && counter.board.verdicts.is_empty());
    feed(&mut counter, &mut effects, 20);
    let told: Vec<(i64, u64)> = effects.commands.iter().map(|command| (command.epoch, command.seq)).collect();
    assert_eq!(told, [(START, 1), (reset.0, 1)]);
    assert_ne!(effects.commands[0].id, effects.commands[1].id);
    // The late half of the first ten, reported again by nobody: calls up to the reset no longer count.
    let before = counter.newest_window(&policy.detectors.swarm_repeat);
    feed(&mut counter, &mut effects, 5);
    assert_eq!(counter.newest_window(&policy.detectors.swarm_repeat), before);
}
