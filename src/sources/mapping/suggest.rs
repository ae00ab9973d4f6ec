//! A first mapping for records that nobody described: which of their paths look like which field of an event.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use crate::limits::PATHS_MAX;

/// Levels of objects that are looked into.
const LEVELS_MAX: usize = 5;
/// Values of a path that are remembered, and characters of one.
const VALUES_MAX: usize = 16;
const VALUE_CHARS_MAX: usize = 48;
/// Values that a comment lists.
const VALUES_SHOWN: usize = 6;

/// Names of what a field may be called elsewhere, the likeliest first: letters and digits only, the last one or two parts of a path.
const NAMES: [(&str, &[&str]); 12] = [
    (
        "session_id",
        &[
            "sessionid",
            "conversationid",
            "threadid",
            "trajectoryid",
            "chatid",
            "runid",
            "taskid",
            "workflowid",
            "jobid",
            "session",
            "conversation",
            "thread",
            "traceid",
        ],
    ),
    ("id", &["eventid", "id", "uuid", "messageid", "recordid", "spanid", "stepid"]),
    ("agent.id", &["agentid", "agentname", "agent", "subagent", "worker", "workerid", "actor"]),
    (
        "tool",
        &["toolname", "functionname", "tool", "function", "skill", "actionname", "action", "command", "method", "operation"],
    ),
    ("call_id", &["toolcallid", "callid", "tooluseid", "invocationid", "requestid"]),
    (
        "args",
        &[
            "toolinput",
            "toolargs",
            "toolarguments",
            "arguments",
            "args",
            "functionargs",
            "kwargs",
            "parameters",
            "params",
            "input",
            "inputs",
        ],
    ),
    (
        "result",
        &[
            "tooloutput",
            "toolresult",
            "result",
            "output",
            "observation",
            "toolresponse",
            "response",
            "stdout",
            "answer",
            "content",
        ],
    ),
    ("outcome", &["outcome", "success", "succeeded", "issuccess", "ok", "status", "resultstatus"]),
    ("error.message", &["errormessage", "error", "exception", "stderr", "failurereason"]),
    ("error.exit_code", &["exitcode", "returncode", "exitstatus"]),
    ("time", &["timestamp", "time", "eventtime", "createdat", "finishedat", "endedat", "ts", "datetime", "date"]),
    ("duration_ms", &["durationms", "elapsedms", "latencyms", "tookms"]),
];
/// Words that say that a call worked.
const WORKED: [&str; 9] = ["ok", "success", "succeeded", "successful", "completed", "complete", "done", "passed", "finished"];
/// Names of a path that reports kinds of records apart.
const KINDS: [&str; 6] = ["type", "eventtype", "kind", "event", "eventname", "recordtype"];
/// Parts of a kind that speaks of calls.
const CALLS: [&str; 4] = ["tool", "function", "action", "call"];

/// What was seen at a path.
#[derive(Debug, Default)]
struct Seen {
    count: usize,
    is_text: bool,
    is_flag: bool,
    is_object: bool,
    values: BTreeSet<String>,
}

/// A mapping, as the text of its file, for records given as JSON. Records that are no objects are counted in a comment.
pub fn suggest<'a>(records: impl Iterator<Item = &'a [u8]>) -> String {
    let (mut paths, mut count, mut others) = (BTreeMap::new(), 0_usize, 0_usize);
    for record in records {
        match serde_json::from_slice(record) {
            Ok(Value::Object(object)) => {
                count += 1;
                look(&Value::Object(object), &mut Vec::new(), &mut paths);
            }
            _ => others += 1,
        }
    }
    write(&paths, count, others)
}

fn look(value: &Value, at: &mut Vec<String>, paths: &mut BTreeMap<Vec<String>, Seen>) {
    if !at.is_empty() && (paths.len() < PATHS_MAX || paths.contains_key(at)) {
        let seen = paths.entry(at.clone()).or_default();
        seen.count += usize::from(!value.is_null());
        seen.is_text |= value.is_string();
        seen.is_flag |= value.is_boolean();
        seen.is_object |= value.is_object();
        if let Value::String(text) = value
            && seen.values.len() < VALUES_MAX
        {
            seen.values.insert(text.chars().take(VALUE_CHARS_MAX).collect());
        }
    }
    if let (Value::Object(object), true) = (value, at.len() < LEVELS_MAX) {
        for (name, value) in object {
            at.push(name.clone());
            look(value, at, paths);
            at.pop();
        }
    }
}

/// Letters and digits of a name.
fn plain(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn expression(path: &[String]) -> String {
    let part = |name: &String| {
        let mut letters = name.chars();
        let is_plain = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if is_plain { name.clone() } else { Value::from(name.as_str()).to_string() }
    };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

/// The path that looks most like a field: by the rank of its name, then by how often it is there, then the shortest.
fn best<'a>(field: &str, names: &[&str], paths: &'a BTreeMap<Vec<String>, Seen>) -> Option<(&'a Vec<String>, &'a Seen)> {
    let rank = |path: &[String]| {
        let last = plain(path.last()?);
        let parent = path.len().checked_sub(2).and_then(|at| path.get(at)).map(|name| plain(name)).unwrap_or_default();
        let with_parent = format!("{parent}{last}");
        let of_tool = CALLS.iter().any(|word| parent.contains(word));
        if field == "tool" && last == "name" && of_tool {
            return Some(0);
        }
        let place = |name: &str| names.iter().position(|known| *known == name);
        // `user.id` is the id of a user, and records of one id count once.
        let is_bare = path.len() > 1 && matches!(last.as_str(), "id" | "uuid");
        if field == "id" && is_bare && place(&with_parent).is_none() {
            return None;
        }
        // A name that needs its parent is as good; one inside of a call is better than the same elsewhere.
        match (place(&with_parent), place(&last)) {
            (Some(rank), _) => Some(rank * 4),
            (None, Some(rank)) => Some(rank * 4 + if of_tool { 1 } else { 2 }),
            (None, None) => None,
        }
    };
    let fits = |seen: &Seen| match field {
        "args" | "result" | "error.message" => true,
        "id" => !seen.is_object && seen.values.len() >= seen.count.min(VALUES_MAX),
        _ => !seen.is_object,
    };
    let found =
        paths.iter().filter(|(_, seen)| seen.count > 0 && fits(seen)).filter_map(|(path, seen)| Some((rank(path)?, path, seen)));
    found.min_by_key(|(rank, path, seen)| (*rank, usize::MAX - seen.count, path.len())).map(|(_, path, seen)| (path, seen))
}

/// How a field is made of a path.
fn expression_of(field: &str, path: &[String], seen: &Seen) -> String {
    let source = expression(path);
    if field == "outcome" && seen.is_text {
        let worked: Vec<String> = seen
            .values
            .iter()
            .filter(|value| WORKED.contains(&value.to_lowercase().as_str()))
            .map(|value| format!("{source} == '{value}'"))
            .collect();
        if !worked.is_empty() {
            return format!("({}) && 'ok' || 'error'", worked.join(" || "));
        }
    }
    source
}

fn quoted(text: &str) -> String {
    // JSON's escapes are TOML's.
    Value::from(text).to_string()
}

fn write(paths: &BTreeMap<Vec<String>, Seen>, count: usize, others: usize) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let mut line = |text: &str| _ = writeln!(out, "{text}");
    line(&format!("# Made from {count} records. Look at each line, then: loopwarden map --try FILE --mapping THIS"));
    if others > 0 {
        line(&format!("# {others} records were no JSON objects."));
    }
    let kinds = paths.iter().filter(|(path, seen)| {
        let name = path.last().map(|name| plain(name)).unwrap_or_default();
        KINDS.contains(&name.as_str()) && seen.values.len() > 1 && seen.values.len() < VALUES_MAX
    });
    if let Some((path, seen)) = kinds.min_by_key(|(path, _)| path.len()) {
        let about = |value: &&String| CALLS.iter().any(|word| value.to_lowercase().contains(word));
        let shown: Vec<&str> = seen.values.iter().take(VALUES_SHOWN).map(String::as_str).collect();
        line(&format!("# {} is one of: {}", expression(path), comment(&shown.join(", "))));
        let meant: Vec<String> = seen
            .values
            .iter()
            .filter(about)
            .map(|value| format!("{} == '{}'", expression(path), value.replace('\'', "\\'")))
            .collect();
        if !meant.is_empty() {
            line(&format!("filter = {}", quoted(&meant.join(" || "))));
        }
    }
    line("");
    line("[fields]");
    let mut taken: BTreeSet<&Vec<String>> = BTreeSet::new();
    for (field, names) in NAMES {
        let name = if field.contains('.') { quoted(field) } else { field.to_owned() };
        match best(field, names, paths).filter(|(path, _)| !taken.contains(path)) {
            Some((path, seen)) => {
                taken.insert(path);
                line(&format!("# in {} of {count} records", seen.count));
                line(&format!("{name} = {}", quoted(&expression_of(field, path, seen))));
            }
            None => line(&format!("# {name} = \"?\"")),
        }
    }
    line("");
    line("[defaults]");
    line("kind = \"tool\"");
    out
}

/// A text that stays on the line of its comment.
fn comment(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use crate::mapping::{Mapping, MappingFile};

    use super::suggest;

    #[test]
    fn a_suggestion_is_a_mapping_that_makes_events_of_its_records() {
        let records = [
            r#"{"type":"tool.finished","meta":{"run-id":"r1","at":"x"},"ts":"2026-01-05T09:00:00Z","call":{"name":"Bash","arguments":{"c":"ls"},"output":"a","status":"success"}}"#,
            r#"{"type":"chat","meta":{"run-id":"r1"},"ts":"2026-01-05T09:00:01Z"}"#,
        ];
        let text = suggest(records.iter().map(|record| record.as_bytes()).chain([&b"no json"[..]]));
        let file: MappingFile = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(file.filter.as_deref(), Some("type == 'tool.finished'"), "{text}");
        assert_eq!(file.fields["session_id"], "meta.\"run-id\"");
        assert_eq!(file.fields["outcome"], "(call.status == 'success') && 'ok' || 'error'");
        assert!(text.contains("# 1 records were no JSON objects."), "{text}");
        let mapping = Mapping::new(&file).unwrap();
        let now = loopwarden_core::event::EventTime(1_795_600_000_000);
        let made = mapping.map(records[0].as_bytes(), now, 9_999).unwrap().unwrap();
        let event: serde_json::Value = serde_json::from_slice(&made.json).unwrap();
        assert_eq!((event["tool"].as_str(), event["outcome"].as_str(), &*made.session_id), (Some("Bash"), Some("ok"), "r1"));
        assert_eq!(event["args"]["c"], "ls");
        assert_eq!(mapping.map(records[1].as_bytes(), now, 9_999), Ok(None));
    }

    #[test]
    fn odd_records_make_a_readable_file() {
        for record in ["{}", "[]", r#"{"a\"b\n":{"":1},"type":"it's\n"}"#, r#"{"type":"x"}"#] {
            let text = suggest([record.as_bytes(), br#"{"type":"tool'"}"#].into_iter());
            assert!(toml::from_str::<MappingFile>(&text).is_ok(), "{text}");
        }
    }
}
