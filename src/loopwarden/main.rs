//! Arguments to `cli`, its answer to an exit code.

use loopwarden::{cli, exit_code, telemetry::logging};
use mimalloc::MiMalloc;

/// A third of a lane's time went into the system's allocator: records, keys and texts come and go with each commit.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The allocator gives memory back and takes it again with each burst, and asks for it in pages of 2 MiB: the kernel would clear many gigabytes
/// for a gigabyte of events. Without such pages a replay takes a tenth less (`performance.md`).
#[cfg(target_os = "linux")]
fn use_small_pages() {
    // Where the kernel does not let it, everything works as well, if slower.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

#[cfg(not(target_os = "linux"))]
const fn use_small_pages() {}

fn main() -> ! {
    use_small_pages();
    logging::hide_panic_messages();
    exit_code::end(cli::run(std::env::args_os()))
}
