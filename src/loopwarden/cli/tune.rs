//! `tune`: a replay for every policy of a grid of thresholds, each judged by labels and outcomes.

use std::{sync::Arc, sync::atomic::Ordering};

use loopwarden_lab::report::sweep::{Axis, Point, Scores, Sweep};
use loopwarden_lab::report::{counted, html};
use loopwarden_lab::{known_sessions::KnownSessions, replay::Found, report::stats::Retain};
use loopwarden_settings::policy::LoadedPolicy;

use crate::cli::args::{LogArgs, ReplayArgs, ReplayFormat, TuneArgs};
use crate::cli::replay::{input, overrides, render};
use crate::cli::shared::{range, setup};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, OutputFormat, say};
use crate::{cli::replay, cli::replay::input::Source};
use crate::{exit_code, input_quality, signals};

/// Policies of a grid. Each is a whole replay.
const POINTS_MAX: usize = 256;
/// Width and height of the plot in a terminal.
const PLOT: (usize, usize) = (60, 16);

/// Sweeps.
///
/// # Errors
/// Policy, files, or a grid that is too large.
pub fn run(args: &TuneArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    input::must_last(&args.files, "every policy reads the input again")?;
    args.report.as_deref().map_or(Ok(()), render::expect_writable)?;
    let (settings, keys) = range::split_sets(&args.set);
    let axes = keys.iter().map(|set| axis(set)).collect::<Result<Vec<Axis>, Failure>>()?;
    if axes.is_empty() {
        return Err(usage("--set names no key of the policy: there is nothing to vary"));
    }
    if let Some(twice) = axes.iter().enumerate().find(|(at, axis)| axes.iter().take(*at).any(|before| before.key == axis.key)) {
        return Err(usage(&format!("--set names {} twice; give its values together, as {0}=2,3", twice.1.key)));
    }
    let grid = grid(&axes)?;
    let known = KnownSessions::read(args.labels.as_ref(), args.outcomes.as_ref()).map_err(Failure::failed)?;
    let retain = Arc::new(Retain { only_commands: true, ..known.retain(false) });
    let stop = signals::stop_flag()?;
    let source = Source::of(&args.files, &args.range, settings, log)?;
    let base = args.policy.as_deref().unwrap_or(source.policy()).to_owned();
    let mut sweep = Sweep { sources: input::names(&args.files, &args.range), profile: base.clone(), axes, ..Sweep::default() };
    let once = ReplayArgs { lanes: args.lanes, ..ReplayArgs::default() };
    let (all, mut is_first_told, mut idle) = (grid.len(), false, Vec::new());
    for values in grid {
        let sets: Vec<String> = sweep.axes.iter().zip(&values).map(|(axis, value)| format!("{}={value}", axis.key)).collect();
        let loaded = loopwarden_settings::policy::load_with(&base, &overrides::overrides(&sets)?);
        let scores = match loaded {
            Ok(LoadedPolicy { policy, without_effect, .. }) => {
                for told in without_effect.into_iter().filter(|told| !idle.contains(told)).collect::<Vec<_>>() {
                    say(format!("warning: {told}"));
                    idle.push(told);
                }
                let found = replay::replay(&once, &source, &Arc::new(policy), &retain, &stop, None)?;
                if let Some(error) = found.damaged {
                    return Err(error.into());
                }
                if found.is_partial {
                    sweep.is_partial = true;
                    break;
                }
                if !is_first_told {
                    is_first_told = true;
                    render::print_rejected(&found);
                    render::expect_events(found.events(), found.rejected() + found.skipped)?;
                    sweep.notes = notes(&found, &known);
                    sweep.notes.iter().for_each(say);
                }
                let judgement = known.judge(&found.replay).unwrap_or_default();
                Ok(Scores { commands: found.replay.detectors.commands(), judgement })
            }
            Err(problems) => Err(one_line(&problems.to_string())),
        };
        sweep.points.push(Point { values, scores });
        say(format!("{} of {all} policies", sweep.points.len()));
        if stop.load(Ordering::Acquire) {
            sweep.is_partial = sweep.points.len() < all;
            break;
        }
    }
    sweep.notes.extend(idle);
    if !sweep.is_partial && sweep.points.iter().all(|point| point.scores.is_err()) {
        let why = sweep.points.into_iter().find_map(|point| point.scores.err()).unwrap_or_default();
        return Err(Failure::new(exit_code::CONFIG, format!("error: no policy of the grid is valid; the first: {why}")));
    }
    write(args, &sweep)
}

/// Why numbers may be lower than they should be: it is the same under every policy.
fn notes(found: &Found, known: &KnownSessions) -> Vec<String> {
    let mut notes = Vec::new();
    let rejected = found.rejected();
    if rejected > 0 {
        notes.push(format!("no events, and left out: {}", counted(rejected, "line")));
    }
    notes.extend(input_quality::of_input(&found.stats));
    let judged = known.judge(&found.replay).unwrap_or_default();
    for (absent, what) in [(judged.absent, "label"), (judged.endings_absent, "outcome")] {
        if absent > 0 {
            notes.push(format!("not in this input: the sessions of {}", counted(absent, what)));
        }
    }
    if judged.off > 0 {
        notes.push(format!("not judged: {}, since no event of the session lies in its range", counted(judged.off, "label")));
    }
    notes
}

fn write(args: &TuneArgs, sweep: &Sweep) -> Outcome {
    if let Some(file) = &args.report {
        render::write_page(file, &html::sweep(sweep))?;
    }
    let mut out = Output::stdout();
    match args.output {
        ReplayFormat::Html => out.text(html::sweep(sweep))?,
        ReplayFormat::Json => out.line(format!("{:#}", serde_json::json!(sweep)))?,
        ReplayFormat::Csv => out.table(&sweep.table(), OutputFormat::Csv)?,
        ReplayFormat::Ndjson => out.table(&sweep.table(), OutputFormat::Ndjson)?,
        ReplayFormat::Table => {
            out.table(&sweep.table(), OutputFormat::Table)?;
            for plot in sweep.plots() {
                out.line("")?;
                out.text(plot.to_text(PLOT.0, PLOT.1))?;
            }
            if sweep.is_partial {
                out.line("\npartial: stopped before the end of the grid")?;
            }
        }
    }
    Ok(out.flush()?)
}

fn usage(what: &str) -> Failure {
    Failure::new(exit_code::USAGE, format!("error: {what}"))
}

/// `key=1,2,3`. A value that holds commas itself is a JSON list, and the only one.
fn axis(set: &str) -> Result<Axis, Failure> {
    let (key, values) = overrides::split(set)?;
    let values: Vec<String> = if values.starts_with(['[', '{', '"']) {
        vec![values.to_owned()]
    } else {
        values.split(',').map(|value| value.trim().to_owned()).collect()
    };
    if values.iter().any(String::is_empty) {
        return Err(usage(&format!("--set {set:?} has an empty value")));
    }
    Ok(Axis { key: key.to_owned(), values })
}

/// Every combination of values, the last axis fastest.
fn grid(axes: &[Axis]) -> Result<Vec<Vec<String>>, Failure> {
    let points = axes.iter().fold(1_usize, |points, axis| points.saturating_mul(axis.values.len()));
    if points > POINTS_MAX {
        return Err(usage(&format!("the grid has {points} policies, more than {POINTS_MAX}; give fewer values")));
    }
    let mut grid: Vec<Vec<String>> = vec![Vec::new()];
    for axis in axes {
        let longer = grid
            .iter()
            .flat_map(|point| axis.values.iter().map(|value| [point.as_slice(), std::slice::from_ref(value)].concat()));
        grid = longer.collect();
    }
    Ok(grid)
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_every_combination_in_order_and_has_a_bound() {
        let axes = [axis("a.b=1,2").unwrap(), axis("c = x, y").unwrap(), axis("d=[1,2]").unwrap()];
        let points: Vec<String> = grid(&axes).unwrap().iter().map(|point| point.join(" ")).collect();
        assert_eq!(points, ["1 x [1,2]", "1 y [1,2]", "2 x [1,2]", "2 y [1,2]"]);
        let long = Axis { key: "a".to_owned(), values: vec!["1".to_owned(); 17] };
        assert_eq!(grid(&[long.clone(), long]).unwrap_err().exit, exit_code::USAGE);
        assert!(axis("a=1,,2").is_err() && axis("a").is_err());
    }
}
