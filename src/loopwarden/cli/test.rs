//! `test`: policy cases, and a readable difference for each that fails.

use std::{fmt::Write as _, io::Read as _, path::Path};

use loopwarden_lab::cases;
use loopwarden_lab::cases::{Case, Mismatch};
use loopwarden_lab::file::open_named;
use serde_json::Value;

use crate::failure::{Failure, Outcome};
use crate::{cli::args::TestArgs, output::Output};

/// Bytes of a case file. Cases are written by hand, or exported one at a time.
const CASE_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Characters of an event shown beside a failing expectation.
const EVENT_CHARS_SHOWN: usize = 240;

/// Runs the cases of all files.
///
/// # Errors
/// A file that cannot be read, or [`Failure::answer_is_no`] when a case fails.
pub fn run(args: &TestArgs) -> Outcome {
    let mut all = Vec::new();
    for file in &args.files {
        all.extend(read(file)?);
    }
    let mut out = Output::stdout();
    let (mut passed, mut run) = (0_usize, 0_usize);
    for case in &all {
        let id = format!("{}/{}", case.profile, case.name);
        if args.filter.as_ref().is_some_and(|filter| !id.contains(filter.as_str())) {
            continue;
        }
        run += 1;
        let mismatches = cases::run(case);
        if mismatches.is_empty() {
            passed += 1;
        } else {
            out.text(difference(&id, case, &mismatches))?;
        }
    }
    if run == 0 {
        let what = args.filter.as_ref().map_or("there is no case in these files".to_owned(), |filter| {
            format!("no case of {} has {filter:?} in its id", all.len())
        });
        return Err(Failure::coded("E0602", what));
    }
    out.line(format!("{passed} of {run} cases passed"))?;
    out.flush()?;
    if passed == run { Ok(()) } else { Err(Failure::answer_is_no()) }
}

fn read(file: &Path) -> Result<Vec<Case>, Failure> {
    let fail = |cause: String| Failure::coded("E0602", format!("cannot read {}: {cause}", file.display()));
    let mut text = String::new();
    let opened = open_named(file).map_err(|error| fail(error.to_string()))?;
    opened.take(CASE_FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
    if text.len() as u64 > CASE_FILE_BYTES_MAX {
        return Err(fail(format!("larger than {CASE_FILE_BYTES_MAX} bytes")));
    }
    cases::parse(&file.to_string_lossy(), &text)
        .map_err(|bad| Failure::coded("E0602", format!("{}:{}: {}", bad.file, bad.line, bad.message.trim_end())))
}

fn difference(id: &str, case: &Case, mismatches: &[Mismatch]) -> String {
    let mut text = format!("FAILED {id}\n");
    // As expectations count them: an event that stands for several is each of them.
    let events = case.spelled_out().map(|case| case.events).unwrap_or_default();
    for mismatch in mismatches {
        if let Some(at) = mismatch.event {
            let event = events.get(at).map_or_else(|| "(there is no such event)".to_owned(), step);
            let _ = writeln!(text, "  event {at}   {event}");
        }
        let (expected, got) = (indented(&mismatch.expected), indented(&mismatch.got));
        let _ = writeln!(text, "  expected  {expected}\n  got       {got}");
    }
    text
}

/// An event in a line: what it is first, then the rest of what decides.
fn step(event: &Value) -> String {
    let mut parts = Vec::new();
    for field in ["kind", "tool", "role", "args", "outcome", "result", "error", "text", "agent", "time"] {
        match event.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if matches!(field, "kind" | "tool" | "role") => parts.push(text.clone()),
            Some(value) => parts.push(format!("{field}={value}")),
        }
    }
    let line = parts.join(" ");
    if line.chars().count() <= EVENT_CHARS_SHOWN { line } else { line.chars().take(EVENT_CHARS_SHOWN).chain(['…']).collect() }
}

fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n            ")
}
