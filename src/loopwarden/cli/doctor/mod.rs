//! `doctor`: whether what comes in can be judged, and what to do where it cannot. It asks a running process, or reads what was recorded.

mod args;
mod finding;
mod input;
mod process;
mod recorded;

pub use args::DoctorArgs;
use finding::{Finding, Level};
use serde_json::{Value, json};

use crate::cli::args::{LogArgs, PlainFormat};
use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// Looks, and says what it found.
///
/// # Errors
/// Something is to be done; the process does not answer; the file cannot be read.
pub fn run(args: &DoctorArgs, log: &LogArgs) -> Outcome {
    let findings = match &args.recorded {
        Some(file) => recorded::findings(file, args.mapping.as_deref())?,
        None => process::findings(args, log)?,
    };
    let left = findings.iter().filter(|finding| finding.level == Level::Todo).count();
    let mut out = Output::stdout();
    match args.output {
        PlainFormat::Text => {
            for line in findings.iter().flat_map(Finding::lines) {
                out.line(line)?;
            }
            out.line(match left {
                0 => "nothing to do".to_owned(),
                1 => "one thing to do".to_owned(),
                left => format!("{left} things to do"),
            })?;
        }
        PlainFormat::Json => {
            let findings: Vec<Value> = findings.iter().map(Finding::to_json).collect();
            out.line(json!({ "good": left == 0, "findings": findings }).to_string())?;
        }
    }
    out.flush()?;
    if left == 0 { Ok(()) } else { Err(Failure::answer_is_no()) }
}
