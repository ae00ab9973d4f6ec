//! Any bytes are an event or a rejection, and whatever an event carries can be identified.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopwarden::{event::EventKind, event::EventTime, event::RecordMeta, event::RecordOffset, event::decode, identity::canonical_text, identity::readable_text};

fuzz_target!(|bytes: &[u8]| {
    let record = RecordMeta {
        topic: "events",
        partition: 0,
        offset: RecordOffset(0),
        timestamp: EventTime(1_795_291_203_120),
        key: None,
        headers: Vec::new(),
        value_bytes_max: loopwarden::limits::RECORD_BYTES_MAX_DEFAULT,
    };
    let Ok(event) = decode(Some(bytes), &record) else { return };
    let contents = match &event.kind {
        EventKind::ToolCall(call) => vec![call.args],
        EventKind::ToolResult(result) => vec![result.result, result.stable_result],
        EventKind::Tool(call, result) => vec![call.args, result.result, result.stable_result],
        _ => Vec::new(),
    };
    for content in &contents {
        let _ = (canonical_text(content), readable_text(&content.view()));
    }
});
