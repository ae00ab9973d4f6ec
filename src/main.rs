//! Arguments to `cli`, its answer to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(loopwarden::cli::run(std::env::args_os()))
}
