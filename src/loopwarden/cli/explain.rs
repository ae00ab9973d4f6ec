//! `explain`: the page of an error code.

use loopwarden_settings::{PAGES, closest, explain};

use crate::cli::args::ExplainArgs;
use crate::exit_code;
use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// Prints a page, or the list of all.
///
/// # Errors
/// There is no such code.
pub fn run(args: &ExplainArgs) -> Outcome {
    let mut out = Output::stdout();
    match &args.code {
        None => {
            for page in PAGES {
                out.line(format!("{}  {}", page.code, page.title()))?;
            }
        }
        Some(code) => {
            let page = explain(code).ok_or_else(|| unknown(code))?;
            out.text(page.text)?;
        }
    }
    Ok(out.flush()?)
}

fn unknown(code: &str) -> Failure {
    let meant = closest(&code.to_ascii_uppercase(), PAGES.iter().map(|page| page.code));
    let meant = meant.map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default();
    let shown: String = code.chars().filter(|letter| !letter.is_control()).take(32).collect();
    Failure::new(exit_code::USAGE, format!("error: there is no code {shown:?}{meant}; `loopwarden explain` lists them"))
}
