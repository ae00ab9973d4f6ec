//! The forms of a replay's report: tables, formats for programs, the page; and its exit code.

use std::io::{self, Read as _};
use std::path::Path;

use loopwarden_core::{event::Reason, policy::Policy};
use loopwarden_lab::report::compare::{Change, Comparison};
use loopwarden_lab::report::summary::{PolicyName, Report};
use loopwarden_lab::report::trial::{self, Saved};
use loopwarden_lab::report::{Section, Table, counted, grouped, html, plain};
use loopwarden_lab::{known_sessions::KnownSessions, replay::Found, report::timeline::Timeline};
use serde_json::json;

use super::input;
use crate::cli::args::{FailOn, ReplayArgs, ReplayFormat};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, OutputFormat, say};
use crate::{exit_code, input_quality};

/// Rejected lines printed on standard error; the rest is counted.
const REJECTED_SHOWN: usize = 20;
/// Sessions that loop most, with their calls.
const LOOPS_SHOWN: usize = 20;

/// Combinations of arguments that make no sense.
pub(super) fn check(args: &ReplayArgs) -> Outcome {
    if args.against.is_some() {
        if args.output == ReplayFormat::Ndjson {
            return Err(Failure::new(
                exit_code::USAGE,
                "error: --output ndjson gives the commands of one policy; leave --against out",
            ));
        }
        input::must_last(&args.files, "two policies read their input twice")?;
    }
    if !args.sweep.is_empty() {
        input::must_last(&args.files, "every policy reads the input again")?;
    }
    if args.report.as_deref() == Some(Path::new("-")) {
        return Err(Failure::new(exit_code::USAGE, "error: --report takes a file; for standard output use --output html"));
    }
    args.report.as_deref().map_or(Ok(()), expect_writable)
}

pub(super) fn report(args: &ReplayArgs, policy: &Policy, known: &KnownSessions, found: Found) -> Report {
    let (events, rejected) = (found.events(), found.rejected());
    let Found { rejections, skipped, stats, replay, is_partial, .. } = found;
    let judgement = known.judge(&replay);
    let saved = Saved::of(&stats.trial);
    Report {
        sources: input::names(&args.files, &args.range),
        policy: PolicyName { profile: policy.profile.clone(), sha256: policy.hash.to_string() },
        events,
        sessions: replay.sessions.count(),
        is_estimate: replay.sessions.is_estimate(),
        rejected,
        rejections,
        skipped,
        is_partial,
        detectors: replay.detectors.rows(),
        total_row: replay.detectors.total_row(),
        total: replay.detectors.total(),
        unblocks: replay.detectors.unblocks,
        in_loops: replay.detectors.in_loops,
        spent: replay.detectors.spent_in_all,
        saved: saved.ok(),
        not_saved: saved.err(),
        tools: replay.tools,
        timeline: if replay.timeline.has_events() { replay.timeline } else { Timeline::default() },
        loops: replay.loops.top(LOOPS_SHOWN),
        swarms: replay.swarms,
        trial: trial::rows(&stats.trial),
        duplicates: stats.duplicates,
        blind_spots: input_quality::of_input(&stats),
        judgement,
    }
}

/// Writes the report to standard output, and to a file where one is asked for. With ndjson the commands have been written.
pub(super) fn write_report(args: &ReplayArgs, report: &Report) -> Outcome {
    if let Some(file) = &args.report {
        write_page(file, &html::report(report))?;
    }
    let mut out = Output::stdout();
    match args.output {
        ReplayFormat::Ndjson => print_judgement(report),
        ReplayFormat::Json => out.line(format!("{:#}", json!(report)))?,
        ReplayFormat::Csv => {
            print_judgement(report);
            out.table(&Table::of(report.detectors.clone()), OutputFormat::Csv)?;
        }
        ReplayFormat::Html => out.text(html::report(report))?,
        ReplayFormat::Table => out.sections(&report.sections())?,
    }
    Ok(out.flush()?)
}

/// The judgement on standard error, for forms that have no place for it.
fn print_judgement(report: &Report) {
    if let Some(judgement) = &report.judgement {
        say(judgement.to_text().trim_end());
    }
}

/// Writes the comparison of two policies.
pub(super) fn write_comparison(args: &ReplayArgs, now: &Report, before: &Report, comparison: &Comparison) -> Outcome {
    if let Some(file) = &args.report {
        write_page(file, &html::comparison(now, before, comparison))?;
    }
    let mut out = Output::stdout();
    match args.output {
        ReplayFormat::Html => out.text(html::comparison(now, before, comparison))?,
        ReplayFormat::Csv => out.table(&Table::of(comparison.rows()), OutputFormat::Csv)?,
        ReplayFormat::Json => {
            let json = json!({
                "is_partial": now.is_partial || before.is_partial,
                "is_complete": comparison.left_out == 0,
                "changes": comparison.rows(),
                "examples": comparison.examples,
                "policy": now,
                "against": before,
            });
            out.line(format!("{json:#}"))?;
        }
        ReplayFormat::Table | ReplayFormat::Ndjson => {
            let heads = format!("policy   {}\nagainst  {}", now.headline(), before.headline());
            let judged = [("policy", now), ("against", before)].into_iter().filter_map(|(name, side)| {
                let text = side.judgement.as_ref()?.to_text();
                Some(Section::text(format!("{name}\n{}", text.trim_end())))
            });
            let changes = comparison.sections("");
            let sections: Vec<Section> = std::iter::once(Section::text(heads)).chain(changes).chain(judged).collect();
            out.sections(&sections)?;
        }
    }
    Ok(out.flush()?)
}

/// Writes a page to a file.
pub(super) fn write_page(file: &Path, page: &str) -> Outcome {
    std::fs::write(file, page).map_err(|error| unwritable(file, &error))?;
    say(format!("the report is in {}", file.display()));
    Ok(())
}

/// Checks the file of `--report` before anything is read. One that cannot be written is an error at once, not after hours. One that
/// is not a page is not replaced: a shell's pattern behind `--report` names the input.
fn expect_writable(file: &Path) -> Outcome {
    let tried = match std::fs::metadata(file) {
        // A pipe's reader would take this for the end.
        Ok(found) if !found.is_file() && !found.is_dir() => Ok(()),
        Ok(found) if found.is_file() && found.len() > 0 && !is_page(file) => {
            return Err(Failure::new(
                exit_code::USAGE,
                format!("error: {} is there, and no report: --report would replace it; give another name", file.display()),
            ));
        }
        Ok(_) => std::fs::OpenOptions::new().append(true).open(file).map(drop),
        Err(_) => std::fs::File::create(file).and_then(|_| std::fs::remove_file(file)),
    };
    tried.map_err(|error| unwritable(file, &error))
}

fn is_page(file: &Path) -> bool {
    let mut head = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(html::BEGINNING.len() as u64).read_to_end(&mut head));
    // If it cannot be read, the attempt to write it says so.
    read.is_err() || head == html::BEGINNING.as_bytes()
}

fn unwritable(file: &Path, error: &io::Error) -> Failure {
    Failure::new(exit_code::FAILED, format!("error: cannot write {}: {error}", file.display()))
}

/// Ignores that the reader has gone (`| head`): it changes no exit code, and no file.
pub(super) fn ignore_closed_pipe(written: Outcome) -> Outcome {
    written.or_else(
        |failure| if failure == Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)) { Ok(()) } else { Err(failure) },
    )
}

/// The exit code of a report.
pub(super) fn answer(args: &ReplayArgs, report: &Report) -> Outcome {
    let commands = report.total.commands;
    exit(args, report, commands.in_force() > 0, commands.blocks > 0)
}

/// The exit code of a comparison: `--fail-on` is about agents with a new command, of whichever detector.
pub(super) fn answer_to_change(args: &ReplayArgs, now: &Report, comparison: &Comparison) -> Outcome {
    let blocked = comparison.agents.get(Change::NewlyBlocked) > 0;
    let nudged = comparison.agents.get(Change::NewlyNudged) > 0;
    exit(args, now, nudged || blocked, blocked)
}

fn exit(args: &ReplayArgs, report: &Report, has_any: bool, has_block: bool) -> Outcome {
    let fails = match args.fail_on {
        Some(FailOn::Nudge) => has_any,
        Some(FailOn::Block) => has_block,
        None => false,
    };
    if fails || (args.strict && report.rejected > 0) {
        return Err(Failure::answer_is_no());
    }
    expect_events(report.events, report.rejected + report.skipped)
}

/// Refuses an input of which something was read, and nothing was an event.
pub(super) fn expect_events(events: u64, refused: u64) -> Outcome {
    if events == 0 && refused > 0 {
        return Err(Failure::new(
            exit_code::FAILED,
            "error: nothing in this input is an event; one JSON object a line, or an array of them: loopwarden schema print tool-event",
        ));
    }
    Ok(())
}

/// Prints the first rejected lines.
pub(super) fn print_rejected(found: &Found) {
    for rejection in found.rejections.iter().take(REJECTED_SHOWN) {
        say(format!("{}:{}: no event: {}", plain(&rejection.file), rejection.line, rejection.reason));
    }
    if found.rejections.iter().any(|rejection| rejection.reason.starts_with(Reason::TooLarge.as_str())) {
        say("too_large: above limits.record_bytes_max, by default 262144; raise it with --set limits.record_bytes_max=BYTES");
    }
    let more = found.rejected().saturating_sub(found.rejections.len().min(REJECTED_SHOWN) as u64);
    if more > 0 {
        say(format!("… and {} more like these", counted(more, "line")));
    }
}

/// The size of the input, and the speed.
pub(super) fn summary(found: &Found) -> String {
    let partial = if found.is_partial { " (stopped before the end)" } else { "" };
    let duplicates = match found.stats.duplicates {
        0 => String::new(),
        many => format!(", {} under an id that was there before", grouped(many)),
    };
    let seconds = found.elapsed.as_secs_f64().max(0.001);
    let events = found.events();
    format!(
        "{} of {}, {} rejected{duplicates}, in {seconds:.1} s ({}/s){partial}",
        counted(events, "event"),
        counted(found.replay.sessions.count(), "session"),
        grouped(found.rejected()),
        grouped((events as f64 / seconds) as u64)
    )
}
