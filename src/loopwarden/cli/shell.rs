//! `completions`, `man`, `version`: what packages install and people ask first.

use std::io::Write as _;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::{cli::args::PlainFormat, cli::command_line::CommandLine, failure::Outcome, output::Output};

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit it was built from, where the build said so.
pub const REVISION: Option<&str> = option_env!("LOOPWARDEN_REVISION");

/// Prints completions.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(shell: Shell) -> Outcome {
    // Into memory first: the generator panics where it cannot write, and a reader may go away.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "loopwarden", &mut script);
    let mut out = Output::stdout();
    out.write_all(&script)?;
    Ok(out.flush()?)
}

/// Prints the manual page: the program's, then one section per command.
///
/// # Errors
/// Standard output cannot be written.
pub fn man() -> Outcome {
    let mut out = Output::stdout();
    let mut command = CommandLine::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut out)?;
    // `help` prints what stands here.
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(sub.clone());
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        let page =
            String::from_utf8_lossy(&page).replace(".SH SYNOPSIS", ".SS SYNOPSIS").replace(".SH DESCRIPTION", ".SS DESCRIPTION");
        out.line(format!(".SH {}", sub.get_name().to_uppercase()))?;
        out.text(page.replace(".SH OPTIONS", ".SS OPTIONS"))?;
    }
    Ok(out.flush()?)
}

/// Prints the version.
///
/// # Errors
/// Standard output cannot be written.
pub fn version(format: PlainFormat) -> Outcome {
    let mut out = Output::stdout();
    match format {
        PlainFormat::Text => match REVISION {
            Some(revision) => out.line(format!("loopwarden {VERSION} ({revision})"))?,
            None => out.line(format!("loopwarden {VERSION}"))?,
        },
        PlainFormat::Json => out.line(serde_json::json!({ "version": VERSION, "revision": REVISION }).to_string())?,
    }
    Ok(out.flush()?)
}
