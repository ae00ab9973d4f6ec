//! Exit codes: what a script or a supervisor may rely on. The README's neighbour `src/docs/operations.md` lists the same; a test compares.

use std::io::{self, Write as _};

/// Done, or stopped as asked.
pub const DONE: u8 = 0;
/// Failed at run time; trying again may help.
pub const FAILED: u8 = 1;
/// The command line makes no sense.
pub const USAGE: u8 = 2;
/// It worked, and the answer is no: failing cases, `--fail-on`, differences, something to do.
pub const ANSWER_IS_NO: u8 = 3;
/// Broker, topic or permission not available.
pub const UNAVAILABLE: u8 = 69;
/// A task stopped itself, or an invariant is broken.
pub const BROKEN: u8 = 70;
/// The store: disk full, input or output.
pub const STORE: u8 = 74;
/// Fenced: another process has this identity, the data directory or the address.
pub const FENCED: u8 = 75;
/// Configuration or policy.
pub const CONFIG: u8 = 78;
/// A second signal; the first one stops gracefully.
pub const SECOND_SIGNAL: u8 = 130;

/// All of them, ascending, with what the documentation says.
pub const ALL: [(u8, &str); 10] = [
    (DONE, "done"),
    (FAILED, "failed at run time"),
    (USAGE, "usage"),
    (ANSWER_IS_NO, "it worked, and the answer is no: failing cases, differences, `--fail-on`, something to do for `doctor`"),
    (UNAVAILABLE, "broker, topic or permission not available"),
    (BROKEN, "poisoned task, broken invariant"),
    (STORE, "store: disk full, input or output"),
    (FENCED, "fenced: another process has this identity, the data directory or the address"),
    (CONFIG, "configuration or policy"),
    (SECOND_SIGNAL, "second signal; the first one stops gracefully"),
];

/// The exit code that belongs to a documented error code, as `E0102`.
pub fn of_error(code: &str) -> u8 {
    match code {
        // The directory or the address is in use, by us under another lock or by somebody who took our place: a supervisor that starts
        // us again changes nothing.
        "E0401" | "E0501" | "E0702" => FENCED,
        // A misconfigured identity, or another number of partitions than the directory was made with: trying again helps nobody.
        "E0405" | "E0701" => CONFIG,
        // An input file that cannot be read: nothing is broken here.
        "E0302" => FAILED,
        _ => match code.get(..3) {
            Some("E01") => UNAVAILABLE,
            Some("E02" | "E06") => CONFIG,
            Some("E03" | "E05") => BROKEN,
            Some("E04") => STORE,
            _ => FAILED,
        },
    }
}

/// Ends the process, once what was printed is out. Handlers that libraries have for the end of a process do not run: OpenSSL and RocksDB take
/// down in theirs what threads that fetch tokens, connect to brokers or open a store still use, and the process would crash instead of ending.
pub fn end(code: u8) -> ! {
    let _ = io::stdout().flush();
    signal_hook::low_level::exit(i32::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_error_has_an_exit_code_of_its_fate() {
        for (code, exit) in [
            ("E0101", UNAVAILABLE),
            ("E0105", UNAVAILABLE),
            ("E0202", CONFIG),
            ("E0301", BROKEN),
            ("E0401", FENCED),
            ("E0403", STORE),
            ("E0405", CONFIG),
            ("E0501", FENCED),
            ("E0502", BROKEN),
            ("E0601", CONFIG),
            ("E0701", CONFIG),
            ("E0702", FENCED),
        ] {
            assert_eq!(of_error(code), exit, "{code}");
        }
    }
}
