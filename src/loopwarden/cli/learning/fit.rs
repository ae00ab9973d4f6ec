//! `fit`: the weights of evidence from labelled sessions, the curve of what each bound tells, and a policy file.

use std::{path::PathBuf, sync::Arc};

use loopwarden_core::detect::decimal;
use loopwarden_lab::fit::{Measuring, fit, judged};
use loopwarden_lab::{known_sessions::KnownSessions, report::counted};

use crate::cli::args::{FitArgs, LogArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, OutputFormat, say};
use crate::{cli::inspect::source::Input, cli::shared::setup};

/// Fits.
///
/// # Errors
/// Policy, files, or an input without a labelled loop.
pub fn run(args: &FitArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    let (mut labels, mut endings) = (Vec::new(), Vec::new());
    let none = None::<&PathBuf>;
    let of_labels = args.labels.iter().map(|file| KnownSessions::read(Some(file), none));
    for known in of_labels.chain(args.outcomes.iter().map(|file| KnownSessions::read(none, Some(file)))) {
        let (more_labels, more_endings) = known.map_err(Failure::failed)?.into_rows();
        labels.extend(more_labels);
        endings.extend(more_endings);
    }
    let input = Input::of_files(&args.files, &args.policy)?;
    let policy = Arc::clone(&input.policy);
    let mut measuring = Measuring::new("loopwarden", Arc::clone(&policy));
    input.events(|_, record| measuring.visit(record))?;
    let steps = measuring.finish()?;
    let mut out = Output::stdout();
    if args.judge {
        out.table(&judged(&policy, &steps, &labels, &endings).table(), OutputFormat::Table)?;
        return Ok(out.flush()?);
    }
    let fitted = fit(&policy, &steps, &labels, &endings);
    let (on_steps, on_sessions) = fitted.fitted;
    if on_sessions == 0 {
        return Err(Failure::failed("no session of this input has a label or an outcome: there is nothing to fit on"));
    }
    say(format!("fitted on {} of {}", counted(on_steps as u64, "step"), counted(on_sessions as u64, "agent")));
    if !fitted.unseen.is_empty() {
        let names: Vec<&str> = fitted.unseen.iter().map(|fact| fact.as_str()).collect();
        say(format!("no step shows {}: their weights are kept", names.join(", ")));
    }
    out.table(&fitted.table(&policy.score), OutputFormat::Table)?;
    out.line("")?;
    out.table(&fitted.curve.table(), OutputFormat::Table)?;
    let (weights, base) = (&fitted.weights, &policy.profile);
    out.line(format!(
        "\nbias {:.2}; proposed: nudge_at {:.2}, block_at {:.2}",
        decimal(weights.bias),
        decimal(weights.nudge_at),
        decimal(weights.block_at)
    ))?;
    if let Some(file) = &args.out {
        let name = file.file_stem().map_or_else(|| "fitted".to_owned(), |stem| stem.to_string_lossy().into_owned());
        let fit = format!("{} of {}", counted(on_steps as u64, "step"), counted(on_sessions as u64, "agent"));
        std::fs::write(file, fitted.policy_file(&name, base, &fit))
            .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
        say(format!("written: {}", file.display()));
    }
    Ok(out.flush()?)
}
