//! `replay --sweep`: a replay under every combination of values, each judged by labels and outcomes.

use std::sync::{Arc, atomic::Ordering};

use loopwarden_lab::known_sessions::KnownSessions;
use loopwarden_lab::replay::Found;
use loopwarden_lab::report::sweep::{Axis, Point, Scores, Sweep};
use loopwarden_lab::report::{counted, html, judge::Judgement, stats::Retain};
use loopwarden_settings::policy::{LoadedPolicy, load_with};

use super::input::{self, Source};
use super::{once::replay, overrides, render};
use crate::cli::args::{ReplayArgs, ReplayFormat};
use crate::cli::shared::act::usage;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, OutputFormat, say};
use crate::{exit_code, input_quality, signals};

/// Policies of a grid. Each is a whole replay.
const POINTS_MAX: usize = 256;

/// Sweeps, beginning from a policy with these keys.
///
/// # Errors
/// Policy, files, or a grid that is too large.
pub(super) fn run(args: &ReplayArgs, source: &Source, base: &str, keys: &[String], known: &KnownSessions) -> Outcome {
    let axes = axes(args, keys)?;
    let grid = grid(&axes)?;
    let retain = Arc::new(Retain { only_commands: true, ..known.retain(false) });
    let stop = signals::stop_flag()?;
    let mut sweep = Sweep { sources: input::names(&args.files, &args.range), profile: base.to_owned(), axes, ..Sweep::default() };
    let (all, mut is_first, mut idle) = (grid.len(), true, Vec::new());
    for values in grid {
        let sets: Vec<String> = sweep.axes.iter().zip(&values).map(|(axis, value)| format!("{}={value}", axis.key)).collect();
        let scores = match load_with(base, &overrides::overrides(&sets)?) {
            Ok(LoadedPolicy { policy, without_effect, .. }) => {
                for line in without_effect.into_iter().filter(|line| !idle.contains(line)).collect::<Vec<_>>() {
                    say(format!("warning: {line}"));
                    idle.push(line);
                }
                let found = replay(args, source, &Arc::new(policy), &retain, &stop, None)?;
                if let Some(error) = found.damaged {
                    return Err(error.into());
                }
                if found.is_partial {
                    sweep.is_partial = true;
                    break;
                }
                let judgement = known.judge(&found.replay).unwrap_or_default();
                if std::mem::take(&mut is_first) {
                    render::print_rejected(&found);
                    render::expect_events(found.events(), found.rejected() + found.skipped)?;
                    sweep.notes = notes(&found, &judgement);
                    sweep.notes.iter().for_each(say);
                }
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

/// The keys that are set, each with its value, and those that are swept.
fn axes(args: &ReplayArgs, keys: &[String]) -> Result<Vec<Axis>, Failure> {
    let fixed = keys.iter().map(|set| {
        let (key, value) = overrides::split(set)?;
        Ok(Axis { key: key.to_owned(), values: vec![value.to_owned()] })
    });
    let axes = fixed.chain(args.sweep.iter().map(|set| axis(set))).collect::<Result<Vec<Axis>, Failure>>()?;
    match axes.iter().enumerate().find(|(at, axis)| axes.iter().take(*at).any(|before| before.key == axis.key)) {
        Some((_, twice)) => Err(usage(&format!("{} twice; give its values together, as {0}=2,3", twice.key))),
        None => Ok(axes),
    }
}

/// Why numbers may be lower than they should be: it is the same under every policy.
fn notes(found: &Found, judged: &Judgement) -> Vec<String> {
    let some = |count: u64, what: &str, why: &str| (count > 0).then(|| format!("{why}{}", counted(count, what)));
    let rejected = some(found.rejected(), "line", "no events, and left out: ");
    let absent = "not in this input: the sessions of ";
    let not_judged = "not judged, since no event lies in the stretch: ";
    let of_known = [
        some(judged.absent, "label", absent),
        some(judged.endings_absent, "outcome", absent),
        some(judged.off, "label", not_judged),
    ];
    rejected.into_iter().chain(input_quality::of_input(&found.stats)).chain(of_known.into_iter().flatten()).collect()
}

fn write(args: &ReplayArgs, sweep: &Sweep) -> Outcome {
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
            if sweep.is_partial {
                out.line("\npartial: stopped before the end of the grid")?;
            }
        }
    }
    Ok(out.flush()?)
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
        return Err(usage(&format!("--sweep {set:?} has an empty value")));
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
