//! What is learned from labels and answers: `fit` and `learn`, which make policies, and the labels that `learn --print` gives.

pub mod fit;
pub mod learn;
mod print;

use std::{fs, path::Path, sync::Arc};

use loopwarden_lab::fit::{Answered, Measuring, Steps};

use crate::failure::{Failure, Outcome};
use crate::{cli::inspect::source::Input, output::say};

/// The steps of an input and its answers, of events from a time on. Milliseconds.
fn measured(input: &Input, from_ms: i64) -> Result<(Steps, Answered), Failure> {
    let mut measuring = Measuring::new(&input.app, Arc::clone(&input.policy));
    input.events(|event, record| {
        if event.time.0 >= from_ms {
            measuring.visit(record);
        }
    })?;
    Ok(measuring.finish()?)
}

/// The name of a policy by its file.
fn name_of(file: &Path, otherwise: &str) -> String {
    file.file_stem().map_or_else(|| otherwise.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

fn write(file: &Path, text: &str) -> Outcome {
    fs::write(file, text).map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
    say(format!("written: {}; it is in force where a process is given it", file.display()));
    Ok(())
}
