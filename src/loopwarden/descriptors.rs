//! Files and connections that may be open at once: as many as this process is allowed, shared out so that connections leave enough for the
//! log. One that cannot open its next file ends.

use loopwarden_core::limits::HTTP_CONNECTIONS_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{failure::Failure, output::say};

/// Least of them that a process starts with.
const LEAST: u64 = 256;
/// For the sockets of brokers, the write-ahead log, files that are read, standard streams.
const OTHERS: u64 = 128;
/// Least and most files of the database. RocksDB opens the others when they are read.
const FILES: (u64, u64) = (64, 512);

/// Takes as many as the system gives without asking anybody. How many files the database may hold open.
///
/// # Errors
/// There are too few to keep a log with.
pub(crate) fn raise() -> Result<u32, Failure> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // A system that does not allow it keeps what it had.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    let allowed = allowed();
    if allowed < LEAST {
        let message = format!(
            "this process may open {allowed} files, and needs {LEAST} at least\n  raise the limit: `ulimit -n 65536`, or LimitNOFILE=65536 \
             of its unit"
        );
        return Err(Failure::coded("E0406", message));
    }
    let (files, connections) = shared_out(allowed);
    if connections < HTTP_CONNECTIONS_MAX {
        say(format!(
            "warning: this process may open {allowed} files; {connections} connections at a time instead of {HTTP_CONNECTIONS_MAX}"
        ));
    }
    Ok(files)
}

/// Connections that the listener may hold at once.
pub(crate) fn connections_max() -> usize {
    shared_out(allowed()).1
}

fn allowed() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Files of the database, and connections.
fn shared_out(allowed: u64) -> (u32, usize) {
    let left = allowed.saturating_sub(OTHERS);
    let files = (left / 2).clamp(FILES.0, FILES.1);
    let connections = left.saturating_sub(files).clamp(1, HTTP_CONNECTIONS_MAX as u64);
    (files as u32, connections as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_connections_never_need_more_than_there_are() {
        for allowed in LEAST..4_096 {
            let (files, connections) = shared_out(allowed);
            assert!(u64::from(files) + connections as u64 + OTHERS <= allowed, "{allowed}: {files} and {connections}");
        }
        assert_eq!(shared_out(1_152), (512, 512));
        assert_eq!(shared_out(u64::MAX), (512, HTTP_CONNECTIONS_MAX));
    }
}
