//! `fit`: the weights of evidence from labelled sessions, the curve of what each bound finds, and a policy file.

use std::path::PathBuf;

use loopwarden_core::detect::decimal;
use loopwarden_lab::fit::fit;
use loopwarden_lab::known_sessions::KnownSessions;
use loopwarden_lab::report::{Section, counted};

use crate::cli::args::{FitArgs, LogArgs, RangeArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, say};
use crate::{cli::inspect::source::Input, cli::shared::setup};

/// Fits.
///
/// # Errors
/// Policy, files, or [`Failure::answer_is_no`] where too little is known.
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
    let input = Input::open(&args.files, &RangeArgs::default(), Some(&args.policy), &[], log)?;
    let (steps, _) = super::measured(&input, i64::MIN)?;
    let policy = &input.policy;
    let fitted = fit(policy, &steps, &labels, &endings).map_err(|few| {
        for why in few {
            say(format!("not fitted: {why}"));
        }
        Failure::answer_is_no()
    })?;
    let (on_steps, on_agents) = fitted.fitted;
    let on = format!("{} of {}", counted(on_steps as u64, "step"), counted(on_agents as u64, "agent"));
    say(format!("fitted on {on}"));
    if !fitted.unseen.is_empty() {
        let names: Vec<&str> = fitted.unseen.iter().map(|fact| fact.as_str()).collect();
        say(format!("no step shows {}: their weights are kept", names.join(", ")));
    }
    let mut out = Output::stdout();
    let [bias, nudge_at, block_at] = [fitted.weights.bias, fitted.weights.nudge_at, fitted.weights.block_at].map(decimal);
    out.sections(&[
        Section::rows("", fitted.table(&policy.score)),
        Section::rows("", fitted.curve.table()),
        Section::text(format!("bias {bias:.2}; proposed: nudge_at {nudge_at:.2}, block_at {block_at:.2}")),
    ])?;
    if let Some(file) = &args.out {
        super::write(file, &fitted.policy_file(&super::name_of(file, "fitted"), &policy.profile, &on))?;
    }
    Ok(out.flush()?)
}
