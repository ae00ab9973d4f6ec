//! A command by its id, among the last ones: what an answer is about, and what a stop that holds came of.

use std::{ops::ControlFlow, sync::Arc};

use loopwarden_log::LogError;
use loopwarden_log::embedded::{EmbeddedReader, Feed};
use serde_json::Value;

use crate::{http::answer, http::answer::Refusal, http::shared::Process};
/// The last commands of the embedded log that are looked through for an id.
const LOOKED_BACK_MAX: u64 = 100_000;
/// Of these, so many in one read, newest first: what is answered is mostly new.
const LOOKED_BACK_AT_ONCE: u64 = 2_000;

/// A command by its id, among the last ones.
pub(super) async fn find(process: &Arc<Process>, id: &str) -> Result<Option<Value>, Refusal> {
    let id = id.to_owned();
    let Some(log) = &process.embedded else {
        let (recent, _) = process.status.recent(0);
        return Ok(recent.iter().rev().find_map(|(_, command)| with_id(command, &id)));
    };
    let reader = log.reader.clone();
    let found = answer::blocking(&log.reads, move || find_in(&reader, &id)).await?;
    found.map_err(|error| answer::unread(&error).into())
}

fn find_in(reader: &EmbeddedReader, id: &str) -> Result<Option<Value>, LogError> {
    let range = reader.range(Feed::Commands);
    let first = range.start.max(range.end.saturating_sub(LOOKED_BACK_MAX));
    let mut end = range.end;
    while end > first {
        let begin = first.max(end.saturating_sub(LOOKED_BACK_AT_ONCE));
        let mut found = None;
        reader.read(Feed::Commands, begin, &mut |output| {
            if output.sequence >= end {
                return ControlFlow::Break(());
            }
            found = output.value.and_then(|command| with_id(&command, id));
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if found.is_some() {
            return Ok(found);
        }
        end = begin;
    }
    Ok(None)
}

/// The command of these bytes, if this is its id. Most need not be read for that.
fn with_id(command: &[u8], id: &str) -> Option<Value> {
    if !command.windows(id.len()).any(|part| part == id.as_bytes()) {
        return None;
    }
    let command: Value = serde_json::from_slice(command).ok()?;
    (command.get("id").and_then(Value::as_str) == Some(id)).then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_by_its_own_id_and_not_by_one_that_it_names() {
        let command = br#"{"id":"01","episode":"02"}"#;
        assert!(with_id(command, "01").is_some());
        assert_eq!(with_id(command, "02"), None);
        assert_eq!(with_id(b"01", "01"), None);
    }
}
