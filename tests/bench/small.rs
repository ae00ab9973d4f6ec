//! What one event costs, step by step: decode, canonical JSON, masks, identities, each detector, the engine, the stores.
//!
//! `cargo bench --bench small` over the sample fleet; `LOOPWARDEN_BENCH_EVENTS=FILE.ndjson` names other events. Every figure is for all
//! events of the input (its length is in the name of the group); times depend on the machine, their ratios hardly.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken benchmark must stop and say so")]

use std::{collections::BTreeMap, hint::black_box, path::Path, sync::Arc};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use loopwarden::engine::{Effects, Input, Session, SessionEngine, SourcePosition, SubjectKey};
use loopwarden::event::{Content, Event, EventKind, EventTime, RecordMeta, RecordOffset, Stage, TaskId, decode};
use loopwarden::identity::{MaskRule, MaskSet, SHIPPED_MASKS, canonical_text, outcome_identity, readable_text};
use loopwarden::policy::{Detector, Policy};
use loopwarden::store::{Change, MemoryStore, RocksOptions, RocksStore, StateStore, StoreOwner, session as heads};

const FLEET: &str = include_str!("../../config/demo/fleet.ndjson");
const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

fn lines() -> Vec<String> {
    let text =
        std::env::var("LOOPWARDEN_BENCH_EVENTS").map_or_else(|_| FLEET.to_owned(), |file| std::fs::read_to_string(file).unwrap());
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn meta(offset: usize) -> RecordMeta<'static> {
    RecordMeta {
        topic: "bench",
        partition: 0,
        offset: RecordOffset(offset as u64),
        timestamp: EventTime(4_102_444_800_000),
        key: None,
        headers: Vec::new(),
        value_bytes_max: 1 << 20,
    }
}

fn events(lines: &[String]) -> Vec<Event<'_>> {
    lines.iter().enumerate().map(|(at, line)| decode(Some(line.as_bytes()), &meta(at)).unwrap()).collect()
}

/// Arguments and results of all calls.
fn contents<'a>(events: &[Event<'a>]) -> (Vec<Content<'a>>, Vec<Content<'a>>) {
    let (mut args, mut results) = (Vec::new(), Vec::new());
    for event in events {
        if let EventKind::ToolCall(call) | EventKind::Tool(call, _) = &event.kind {
            args.push(call.args);
        }
        if let EventKind::ToolResult(result) | EventKind::Tool(_, result) = &event.kind {
            results.push(result.result);
        }
    }
    (args, results)
}

fn reading(c: &mut Criterion) {
    let lines = lines();
    let events = events(&lines);
    let (args, results) = contents(&events);
    let mut group = c.benchmark_group(format!("reading, {} events", lines.len()));
    group.throughput(Throughput::Bytes(lines.iter().map(|line| line.len() as u64).sum()));
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            for (at, line) in lines.iter().enumerate() {
                drop(black_box(decode(Some(line.as_bytes()), &meta(at))));
            }
        });
    });
    group.throughput(Throughput::Elements(args.len() as u64));
    group.bench_function("canonical JSON of arguments", |bencher| {
        bencher.iter(|| args.iter().for_each(|args| drop(black_box(canonical_text(args)))));
    });
    group.throughput(Throughput::Elements(results.len() as u64));
    group.bench_function("outcome identity", |bencher| {
        let policy = loopwarden::config::policy::load("default").unwrap();
        let tool = policy.tools.get("");
        bencher.iter(|| {
            for result in &results {
                black_box(outcome_identity(true, &result.view(), None, &policy.outcomes.rules, &tool.outcome));
            }
        });
    });
    let views: Vec<_> = results.iter().map(Content::view).collect();
    let texts: Vec<_> = views.iter().map(readable_text).collect();
    group.throughput(Throughput::Bytes(texts.iter().map(|text| text.len() as u64).sum()));
    let rules: Vec<MaskRule> = SHIPPED_MASKS
        .iter()
        .map(|(pattern, replacement)| MaskRule { pattern: (*pattern).to_owned(), replacement: (*replacement).to_owned() })
        .collect();
    for (name, masks) in [("masks, one pass", MaskSet::new(&rules)), ("masks, as expressions", MaskSet::through_regex(&rules))] {
        let masks = masks.unwrap();
        group.bench_function(name, |bencher| bencher.iter(|| texts.iter().for_each(|text| drop(black_box(masks.apply(text))))));
    }
    group.finish();
}

type Sessions = BTreeMap<String, (SubjectKey, Session)>;

fn run(policy: &Arc<Policy>, events: &[Event<'_>]) -> Sessions {
    let engine = SessionEngine::new("loopwarden", Arc::clone(policy));
    let mut effects = Effects::default();
    let mut sessions = Sessions::new();
    for (at, event) in events.iter().enumerate() {
        let key = SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, &event.agent_id);
        let (subject, session) =
            sessions.entry(key).or_insert_with(|| (SubjectKey::of_event(event), Session::new(policy.history_steps)));
        effects.clear();
        let place = SourcePosition { topic: "bench", partition: 0, offset: at as u64, watermark: event.time };
        engine.apply(subject, session, Input::Event(event, place), &mut effects);
    }
    sessions
}

fn only(detectors: &[&str]) -> Arc<Policy> {
    let overrides = serde_json::json!({ "only": detectors });
    Arc::new(loopwarden::config::policy::load_with_overrides("default", &overrides).unwrap())
}

fn engine(c: &mut Criterion) {
    let lines = lines();
    let events = events(&lines);
    let mut group = c.benchmark_group(format!("engine, {} events", lines.len()));
    group.throughput(Throughput::Elements(events.len() as u64));
    for profile in ["plain", "hackeurope", "default"] {
        let policy = Arc::new(loopwarden::config::policy::load(profile).unwrap());
        group.bench_function(BenchmarkId::new("profile", profile), |bencher| bencher.iter(|| run(&policy, &events)));
    }
    // Identities, history and episodes are in each of them: what a detector costs is what it has above the cheapest.
    for detector in Detector::ALL {
        let policy = only(&[detector.as_str()]);
        group.bench_function(BenchmarkId::new("only", detector.as_str()), |bencher| bencher.iter(|| run(&policy, &events)));
    }
    group.finish();
}

/// What a commit of all sessions writes: their steps and heads.
fn changes(sessions: &Sessions) -> Vec<Change> {
    let mut changes = Vec::new();
    for (key, (_, session)) in sessions {
        let all: Vec<u64> = session.history.ring().map(|step| step.sequence).collect();
        heads::changes(TASK, key.as_bytes(), &session.head, &session.history, None, &all, &mut changes).unwrap();
    }
    changes
}

fn store(c: &mut Criterion) {
    let lines = lines();
    let policy = Arc::new(loopwarden::config::policy::load("default").unwrap());
    let sessions = run(&policy, &events(&lines));
    let written = changes(&sessions);
    let mut group = c.benchmark_group(format!("store, {} sessions, {} records", sessions.len(), written.len()));
    group.throughput(Throughput::Elements(written.len() as u64));
    group.bench_function("encode", |bencher| bencher.iter(|| changes(&sessions)));
    let load = |store: &dyn Fn(&[u8])| sessions.keys().for_each(|key| store(key.as_bytes()));
    let mut memory = MemoryStore::new();
    group.bench_function("commit in memory", |bencher| {
        bencher.iter_batched(|| written.clone(), |changes| memory.commit(changes).unwrap(), BatchSize::LargeInput);
    });
    group.bench_function("load from memory", |bencher| {
        bencher.iter(|| load(&|key| drop(black_box(heads::load(&memory, TASK, key, policy.history_steps).unwrap()))));
    });
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("small-{}", std::process::id()));
    let owner = StoreOwner { app: "bench".to_owned(), instance: "bench".to_owned(), cluster: None };
    let mut rocks = RocksStore::open(&dir, &RocksOptions::default(), &owner).unwrap();
    group.bench_function("commit to RocksDB", |bencher| {
        bencher.iter_batched(|| written.clone(), |changes| rocks.commit(changes).unwrap(), BatchSize::LargeInput);
    });
    group.bench_function("load from RocksDB", |bencher| {
        bencher.iter(|| load(&|key| drop(black_box(heads::load(&rocks, TASK, key, policy.history_steps).unwrap()))));
    });
    drop(rocks);
    std::fs::remove_dir_all(&dir).expect("scratch");
    group.finish();
}

criterion_group!(benches, reading, engine, store);
criterion_main!(benches);
