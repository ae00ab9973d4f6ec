//! The forms a replay's answer takes: tables, programs' formats, the page; and what its exit code says.

use std::io;
use std::io::Read as _;
use std::path::Path;

use loopwarden_core::event::Reason;
use loopwarden_core::policy::Policy;
use loopwarden_lab::report::{Change, Comparison, Report, Timeline, counted, grouped, html, plain};
use loopwarden_lane::Stats;

use super::known::Known;
use super::{Found, input};
use crate::cli::args::{FailOn, ReplayArgs, ReplayFormat};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{Output, OutputFormat, say};
use crate::cli::{blind_spots, exit_code};

/// Lines that are no event, told on standard error; the rest is counted.
const REJECTED_SHOWN: usize = 20;
/// Sessions that loop most, with their calls.
const LOOPS_SHOWN: usize = 20;
/// The worst of them, in the table.
const LOOPS_IN_TABLE: usize = 10;
/// Swarms with their calls, in the table.
const SWARMS_SHOWN: usize = 10;

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
    if args.report.as_deref() == Some(Path::new("-")) {
        return Err(Failure::new(exit_code::USAGE, "error: --report takes a file; for standard output use --output html"));
    }
    args.report.as_deref().map_or(Ok(()), expect_writable)
}

/// What a replay found.
pub(super) fn report(args: &ReplayArgs, policy: &Policy, known: &Known, found: Found) -> Report {
    let Found { rejections, refused, skipped, stats, ledger, is_partial, .. } = found;
    let judgement = known.judge(&ledger);
    Report {
        sources: input::names(&args.files, &args.range),
        profile: policy.profile.clone(),
        policy_sha256: policy.hash.to_string(),
        events: events(&stats),
        sessions: ledger.sessions.count(),
        is_estimate: ledger.sessions.is_estimate(),
        rejected: stats.rejected.iter().sum::<u64>() + refused,
        rejections,
        is_partial,
        counts: ledger.counts,
        spent: ledger.spent,
        tools: ledger.tools,
        timeline: if ledger.timeline.has_events() { ledger.timeline } else { Timeline::default() },
        swarms: ledger.swarms,
        duplicates: stats.duplicates,
        skipped,
        loops: ledger.loops.top(LOOPS_SHOWN),
        blind_spots: blind_spots::of_input(&stats),
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
        ReplayFormat::Ndjson => tell_judgement(report),
        ReplayFormat::Json => out.line(format!("{:#}", report.to_json()))?,
        ReplayFormat::Csv => {
            tell_judgement(report);
            out.table(&report.counts.table(&report.spent), OutputFormat::Csv)?;
        }
        ReplayFormat::Html => out.text(html::report(report))?,
        ReplayFormat::Table => {
            out.line(report.headline())?;
            out.line("")?;
            out.table(&report.counts.table_with_total(&report.spent), OutputFormat::Table)?;
            if report.counts.shadow() > 0 {
                out.line(format!("of these {} nudged or blocked; the others were spoken about in shadow only", told(report)))?;
            }
            if report.counts.unblocks() > 0 {
                out.line(format!("{} lifted before they expired", counted(report.counts.unblocks(), "block")))?;
            }
            let spent = report.spent.total();
            if spent.is_known() {
                // Not every log knows what a token costs.
                let cost = if spent.cost_micro_usd > 0 { format!(", {:.2} US dollars", spent.cost_usd()) } else { String::new() };
                out.line(format!("{} calls and texts in loops, {} tokens{cost}", grouped(spent.calls), grouped(spent.tokens)))?;
            }
            if !report.swarms.is_empty() {
                out.line("")?;
                out.table(&report.swarms.table(SWARMS_SHOWN), OutputFormat::Table)?;
            }
            if !report.loops.is_empty() {
                out.line("")?;
                out.table(&report.loop_table(LOOPS_IN_TABLE), OutputFormat::Table)?;
                out.line("each of them event by event: loopwarden inspect session ID, with --file or --topic")?;
            }
            if let Some(judgement) = &report.judgement {
                out.text(format!("\n{}", judgement.to_text()))?;
                if !judgement.by_detector.is_empty() {
                    out.line("")?;
                    out.table(&judgement.table(), OutputFormat::Table)?;
                }
            }
        }
    }
    Ok(out.flush()?)
}

/// Where the form has no place for it: what labels and outcomes say, on standard error.
fn tell_judgement(report: &Report) {
    if let Some(judgement) = &report.judgement {
        say(judgement.to_text().trim_end());
    }
}

/// How many sessions and swarms were told something that counts.
fn told(report: &Report) -> String {
    let told = report.counts.told();
    format!("{} {}", grouped(told), if told == 1 { "was" } else { "were" })
}

/// Writes the comparison of two policies.
pub(super) fn write_comparison(args: &ReplayArgs, now: &Report, before: &Report, comparison: &Comparison) -> Outcome {
    if let Some(file) = &args.report {
        write_page(file, &html::comparison(now, before, comparison))?;
    }
    let mut out = Output::stdout();
    match args.output {
        ReplayFormat::Html => out.text(html::comparison(now, before, comparison))?,
        ReplayFormat::Csv => out.table(&comparison.table(), OutputFormat::Csv)?,
        ReplayFormat::Json => out.line(format!(
            "{:#}",
            serde_json::json!({
                "is_partial": now.is_partial || before.is_partial,
                "is_complete": comparison.left_out == 0,
                "changes": comparison.table().to_objects(),
                "examples": comparison.example_table().to_objects(),
                "policy": now.to_json(),
                "against": before.to_json(),
            })
        ))?,
        ReplayFormat::Table | ReplayFormat::Ndjson => {
            out.line(format!("policy   {}", now.headline()))?;
            out.line(format!("against  {}", before.headline()))?;
            out.line("")?;
            out.table(&comparison.table(), OutputFormat::Table)?;
            if comparison.left_out > 0 {
                out.line(format!("not complete: {} commands were beyond what is kept", grouped(comparison.left_out)))?;
            }
            if !comparison.examples.is_empty() {
                out.line("")?;
                out.table(&comparison.example_table(), OutputFormat::Table)?;
            }
            for (name, side) in [("policy", now), ("against", before)] {
                if let Some(judgement) = &side.judgement {
                    out.text(format!("\n{name}\n{}", judgement.to_text()))?;
                }
            }
        }
    }
    Ok(out.flush()?)
}

/// Writes a page to a file.
pub(in crate::cli) fn write_page(file: &Path, page: &str) -> Outcome {
    std::fs::write(file, page).map_err(|error| unwritable(file, &error))?;
    say(format!("the report is in {}", file.display()));
    Ok(())
}

/// Before anything is read: a report that cannot be written is told at once, not after hours. One that would replace something else
/// than a page is refused: a shell's pattern behind `--report` names the input.
pub(in crate::cli) fn expect_writable(file: &Path) -> Outcome {
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
    // What cannot be read is told by the attempt to write it.
    read.is_err() || head == html::BEGINNING.as_bytes()
}

fn unwritable(file: &Path, error: &io::Error) -> Failure {
    Failure::new(exit_code::FAILED, format!("error: cannot write {}: {error}", file.display()))
}

/// A reader that has gone (`| head`) changes no answer, and no file.
pub(super) fn whoever_reads(written: Outcome) -> Outcome {
    written.or_else(
        |failure| if failure == Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)) { Ok(()) } else { Err(failure) },
    )
}

/// The exit code of a report.
pub(super) fn answer(args: &ReplayArgs, report: &Report) -> Outcome {
    let (nudges, blocks) = (report.counts.nudges(), report.counts.blocks());
    is_no(args, report, nudges + blocks > 0, blocks > 0)
}

/// The exit code of a comparison: `--fail-on` asks who is newly told, whichever detector tells.
pub(super) fn answer_to_change(args: &ReplayArgs, now: &Report, comparison: &Comparison) -> Outcome {
    let blocked = comparison.agents.get(Change::NewlyBlocked) > 0;
    let nudged = comparison.agents.get(Change::NewlyNudged) > 0;
    is_no(args, now, nudged || blocked, blocked)
}

fn is_no(args: &ReplayArgs, report: &Report, has_any: bool, has_block: bool) -> Outcome {
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
pub(in crate::cli) fn expect_events(events: u64, refused: u64) -> Outcome {
    if events == 0 && refused > 0 {
        return Err(Failure::new(
            exit_code::FAILED,
            "error: nothing in this input is an event; one JSON object a line, or an array of them: loopwarden schema print tool-event",
        ));
    }
    Ok(())
}

/// Names the first lines that are no events.
pub(in crate::cli) fn tell_rejected(found: &Found) {
    for rejection in found.rejections.iter().take(REJECTED_SHOWN) {
        say(format!("{}:{}: no event: {}", plain(&rejection.file), rejection.line, rejection.reason));
    }
    if found.rejections.iter().any(|rejection| rejection.reason.starts_with(Reason::TooLarge.as_str())) {
        say("too_large: above limits.record_bytes_max, by default 262144; raise it with --set limits.record_bytes_max=BYTES");
    }
    let more = rejected(found).saturating_sub(found.rejections.len().min(REJECTED_SHOWN) as u64);
    if more > 0 {
        say(format!("… and {} more lines that are no events", grouped(more)));
    }
}

/// Lines that are no events.
pub(in crate::cli) fn rejected(found: &Found) -> u64 {
    found.stats.rejected.iter().sum::<u64>() + found.refused
}

/// Events of all kinds.
pub(in crate::cli) fn events(stats: &Stats) -> u64 {
    stats.events.iter().sum()
}

/// How much was read, and how fast.
pub(super) fn summary(found: &Found) -> String {
    let partial = if found.is_partial { " (stopped before the end)" } else { "" };
    let duplicates = match found.stats.duplicates {
        0 => String::new(),
        many => format!(", {} under an id that was there before", grouped(many)),
    };
    let seconds = found.elapsed.as_secs_f64().max(0.001);
    let events = events(&found.stats);
    format!(
        "{} of {}, {} rejected{duplicates}, in {seconds:.1} s ({}/s){partial}",
        counted(events, "event"),
        counted(found.ledger.sessions.count(), "session"),
        grouped(rejected(found)),
        grouped((events as f64 / seconds) as u64)
    )
}
