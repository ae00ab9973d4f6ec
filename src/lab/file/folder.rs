//! Inputs out of what a command line names: a file is one, a directory all the logs below it.

use std::fs;
use std::path::{Path, PathBuf};

use loopwarden_log::LogError;

use crate::file::FileInput;

/// Files taken from one directory, with all below it. A home full of logs has thousands.
const FILES_MAX: usize = 200_000;
/// Directories inside each other.
const DEPTH_MAX: usize = 32;
/// Ends of names that logs have.
const ENDS: [&str; 3] = [".jsonl", ".ndjson", ".json"];
/// What may stand behind them.
const PACKED: [&str; 2] = [".gz", ".zst"];
/// What every data directory of a process has: the database names its current files there.
const OF_A_PROCESS: &str = "state/CURRENT";

/// One input: a file, or the files of one directory of events in their order.
pub(super) struct Group {
    pub(super) files: Vec<FileInput>,
    /// Found in a directory: it may be no log at all.
    pub(super) is_found: bool,
}

/// The inputs that one argument stands for.
pub(super) fn groups(input: FileInput) -> Result<Vec<Group>, LogError> {
    let FileInput::Path(path) = &input else { return Ok(vec![Group { files: vec![input], is_found: false }]) };
    if !path.is_dir() {
        input.check()?;
        return Ok(vec![Group { files: vec![input], is_found: false }]);
    }
    let mut found = Vec::new();
    let mut room = FILES_MAX;
    walk(path, DEPTH_MAX, &mut room, &mut found).map_err(|error| input.unreadable(&error))?;
    if found.is_empty() {
        let why = if path.join(OF_A_PROCESS).is_file() {
            "this is a data directory of loopwarden, it holds no files of events; with Kafka replay the topic (--topic), without \
             it let the process write them: curl -s http://127.0.0.1:9464/v1/events > events.ndjson"
        } else {
            "no file below this directory ends in .jsonl, .ndjson or .json; links are not followed"
        };
        return Err(input.unreadable(&why));
    }
    Ok(found)
}

/// The logs below a directory, each with its files: what there is now, which may be nothing.
pub(crate) fn below(directory: &Path) -> std::io::Result<Vec<Vec<PathBuf>>> {
    let (mut found, mut room) = (Vec::new(), FILES_MAX);
    walk(directory, DEPTH_MAX, &mut room, &mut found)?;
    let path = |file: FileInput| match file {
        FileInput::Path(path) => Some(path),
        FileInput::Stdin => None,
    };
    Ok(found.into_iter().map(|group| group.files.into_iter().filter_map(path).collect()).collect())
}

/// Adds what lies in a directory, by name; links are not followed.
fn walk(directory: &Path, depth: usize, room: &mut usize, found: &mut Vec<Group>) -> std::io::Result<()> {
    let mut entries: Vec<(PathBuf, fs::FileType)> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        entries.push((entry.path(), entry.file_type()?));
    }
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut events: Vec<(u64, FileInput)> = Vec::new();
    for (path, kind) in entries {
        if kind.is_dir() {
            if depth > 0 {
                walk(&path, depth - 1, room, found)?;
            }
            continue;
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !kind.is_file() || !is_log(&name) {
            continue;
        }
        if *room == 0 {
            return Err(std::io::Error::other(format!("more than {FILES_MAX} files; name the directories below it")));
        }
        *room -= 1;
        match event_number(&name) {
            Some(number) => events.push((number, FileInput::Path(path))),
            None => found.push(Group { files: vec![FileInput::Path(path)], is_found: true }),
        }
    }
    if !events.is_empty() {
        events.sort_by_key(|(number, _)| *number);
        found.push(Group { files: events.into_iter().map(|(_, file)| file).collect(), is_found: true });
    }
    Ok(())
}

fn is_log(name: &str) -> bool {
    without_end(unpacked(name)).is_some()
}

/// A name without what says that the file is packed.
pub(super) fn unpacked(name: &str) -> &str {
    PACKED.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// A name without the end that logs have, if it has one.
pub(super) fn without_end(name: &str) -> Option<&str> {
    ENDS.iter().find_map(|end| name.strip_suffix(end))
}

/// Number of a file that holds one event: `17.json`, `event-00017-….json`.
fn event_number(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(".json")?;
    let number = stem.strip_prefix("event-").map_or(stem, |rest| rest.split('-').next().unwrap_or_default());
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_event_each_are_told_by_their_number() {
        for (name, number) in [
            ("0.json", Some(0)),
            ("17.json", Some(17)),
            ("event-00017-0a1b.json", Some(17)),
            ("base_state.json", None),
            ("17.jsonl", None),
            ("event-x.json", None),
        ] {
            assert_eq!(event_number(name), number, "{name}");
        }
        assert!(is_log("a.jsonl.gz") && is_log("a.json") && !is_log("a.txt") && !is_log("a.jsonl.bak"));
    }
}
