//! How often memory is asked for, for each call: decoding and the engine, without log and lane. A count, so no other load changes it.

#![expect(clippy::unwrap_used, reason = "all of this binary is test code")]

use std::{collections::BTreeMap, sync::Arc};

use loopwarden::config::policy::load;
use loopwarden::engine::{Effects, Input, Session, SessionEngine, SourcePosition, SubjectKey};
use loopwarden::event::{EventKind, EventTime, RecordMeta, RecordOffset, decode};

const FLEET: &str = include_str!("../../config/demo/fleet.ndjson");

/// Calls with their answers in the sample fleet, and allocations while they were decoded and applied.
fn counted(profile: &str) -> (u64, u64) {
    let policy = Arc::new(load(profile).unwrap());
    let history_steps = policy.history_steps;
    let engine = SessionEngine::new("loopwarden", policy);
    let mut sessions = BTreeMap::new();
    let mut effects = Effects::default();
    let (mut calls, mut allocations) = (0, 0);
    for (line, offset) in FLEET.lines().zip(0..) {
        let meta = RecordMeta {
            topic: "agents.tool-events.v1",
            partition: 0,
            offset: RecordOffset(offset),
            timestamp: EventTime(1_767_603_605_000),
            key: None,
            headers: Vec::new(),
            value_bytes_max: 1 << 20,
        };
        let event = decode(Some(line.as_bytes()), &meta).unwrap();
        let subject = SubjectKey::of_event(&event);
        let key = SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, &event.agent_id);
        let session = sessions.entry(key).or_insert_with(|| Session::new(history_steps));
        let is_call = matches!(event.kind, EventKind::Tool(..) | EventKind::ToolCall(_) | EventKind::ToolResult(_));
        calls += u64::from(matches!(event.kind, EventKind::Tool(..) | EventKind::ToolResult(_)));
        drop(event);
        effects.clear();
        let measured = allocation_counter::measure(|| {
            let event = decode(Some(line.as_bytes()), &meta).unwrap();
            let place = SourcePosition { topic: meta.topic, partition: 0, offset, watermark: meta.timestamp };
            engine.apply(&subject, session, Input::Event(&event, place), &mut effects);
        });
        if is_call && effects.commands.is_empty() {
            allocations += measured.count_total;
        }
    }
    (calls, allocations)
}

#[test]
fn a_call_asks_for_memory_a_few_times() {
    for (profile, tenths_max) in [("default", 85), ("hackeurope", 45)] {
        let (calls, allocations) = counted(profile);
        println!("{profile}: {allocations} allocations for {calls} calls without a command");
        assert!(calls > 200, "the sample fleet holds {calls} calls");
        assert!(allocations * 10 <= calls * tenths_max, "{profile}: {allocations} allocations for {calls} calls");
    }
}
