//! The canonical form of a value is a value, and its own canonical form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopwarden::{event::Content, event::View, identity::canonical_text};

fuzz_target!(|text: &str| {
    // Any text, quoted, is a content; `view` says whether it holds JSON.
    let Ok(source) = serde_json::to_string(text) else { return };
    let content = Content::Raw(&source);
    if let View::Json(_) = content.view() {
        let canonical = canonical_text(&content);
        if !canonical.starts_with('"') {
            assert_eq!(canonical_text(&Content::Raw(&canonical)), canonical);
        }
    }
});
