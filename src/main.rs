//! Arguments to `cli`, its answer to an exit code.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A third of a lane's time went into the system's allocator: records, keys and texts come and go with each commit.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    loopwarden::telemetry::logging::hide_panic_messages();
    ExitCode::from(loopwarden::cli::run(std::env::args_os()))
}
