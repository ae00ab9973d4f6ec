//! `map`: a mapping of foreign JSON, tried on its records.

use std::{collections::BTreeMap, io, path::Path};

use loopwarden_core::{event::EventTime, limits::RECORD_BYTES_MAX_DEFAULT};
use loopwarden_lab::report::counted;
use loopwarden_log::clock;
use loopwarden_sources::{RECORD_BYTES_MAX, mapping::Framing, mapping::Trial};

use crate::cli::shared::lines::{lines, unreadable};
use crate::failure::{Failure, Outcome};
use crate::{cli::args::MapArgs, exit_code, mapping_file, output::Output};

/// Characters shown of a record.
const SHOWN_CHARS: usize = 4_096;

/// Tries a mapping.
///
/// # Errors
/// A file cannot be read, the mapping is wrong, or a record is refused.
pub fn run(args: &MapArgs) -> Outcome {
    // The command line lets one of them through.
    let file = args.trial.as_ref().or(args.apply.as_ref()).ok_or_else(|| Failure::silent(exit_code::USAGE))?;
    attempt(file, &args.mapping, args.trial.is_some().then_some(args.records))
}

/// What became of all records.
#[derive(Default)]
struct Sums {
    records: u64,
    events: u64,
    refused: u64,
    missing: BTreeMap<&'static str, u64>,
}

/// Maps all records. `shown`: so many before and after, with the sums; else the events alone, and the sums where one was refused.
fn attempt(file: &Path, mapping: &Path, shown: Option<usize>) -> Outcome {
    let wrong = |cause: String| Failure::new(exit_code::CONFIG, format!("error: {cause}"));
    let (about, mapping) = mapping_file::read(mapping).map_err(wrong)?;
    let now = EventTime(clock::now_ms());
    let (mut out, mut sums) = (Output::stdout(), Sums::default());
    for record in lines(file, RECORD_BYTES_MAX)? {
        let mut record = record.map_err(|error| unreadable(file, &error))?;
        // What a console consumer prints lost the bytes in front of it.
        if about.framing == Framing::Confluent && record.first() == Some(&b'{') {
            record.splice(..0, [0; 5]);
        }
        let trial = mapping.trial(&record, now, RECORD_BYTES_MAX_DEFAULT);
        sums.records += 1;
        match &trial.event {
            Ok(made) => sums.events += u64::from(made.is_some()),
            Err(_) => sums.refused += 1,
        }
        for name in &trial.missing {
            *sums.missing.entry(name).or_default() += 1;
        }
        match (shown, &trial.event) {
            (Some(shown), _) if sums.records <= shown as u64 => show(&mut out, sums.records, &record, &trial)?,
            (None, Ok(Some(made))) => out.line(String::from_utf8_lossy(&made.json))?,
            _ => {}
        }
    }
    let Sums { records, events, refused, missing } = sums;
    let left_out = records - events - refused;
    let sum = format!(
        "{}: {}, {left_out} left out by the filter, {refused} refused",
        counted(records, "record"),
        counted(events, "event")
    );
    if shown.is_none() {
        out.flush()?;
        return if refused > 0 { Err(Failure::new(exit_code::ANSWER_IS_NO, sum)) } else { Ok(()) };
    }
    out.line(sum)?;
    for (name, count) in &missing {
        let only_names = if *name == "args" { ": only names can be compared" } else { "" };
        out.line(format!("without {name}: {count}{only_names}"))?;
    }
    out.flush()?;
    if refused > 0 { Err(Failure::answer_is_no()) } else { Ok(()) }
}

fn show(out: &mut Output, number: u64, record: &[u8], trial: &Trial) -> io::Result<()> {
    out.line(format!("record {number}"))?;
    out.line(format!("  before   {}", printable(record)))?;
    match &trial.event {
        Ok(Some(made)) => out.line(format!("  after    {}", printable(&made.json)))?,
        Ok(None) => out.line("  left out by the filter")?,
        Err(rejected) => out.line(format!("  refused  {rejected}"))?,
    }
    for (word, names) in [("nothing  ", trial.empty.join(", ")), ("missing  ", trial.missing.join(", "))] {
        if !names.is_empty() {
            out.line(format!("  {word}{names}"))?;
        }
    }
    Ok(())
}

/// Text that does nothing to a terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown: String =
        text.chars().take(SHOWN_CHARS).map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}
