//! Brokers in a JVM of this machine, from the jars that `fetch.sh` brings.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{CLUSTER_ID, Giver, RUN, Running, VERSION, java_options};

/// Needs Java 17 on the path.
pub(super) struct Jvm;

/// Holds the standard input of the shell that ends the broker.
struct Watchdog(Child);

impl Running for Watchdog {}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Where the jars are.
fn lib() -> PathBuf {
    // Empty is as good as not set, as the script has it that brings them.
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|path| !path.is_empty())
        .map_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("a home directory")).join(".cache"), PathBuf::from);
    cache.join(format!("loopwarden/kafka-{VERSION}/lib"))
}

/// Whether the jars are there.
pub(super) fn is_there() -> bool {
    lib().is_dir()
}

impl Giver for Jvm {
    fn start(&self, dir: &Path, format: &[String]) -> Result<Box<dyn Running>, String> {
        if !is_there() {
            return Err(
                "no broker: set KAFKA_BOOTSTRAP, start a Docker daemon, or run tests/kafka/broker/fetch.sh (needs Maven and \
                Java 17), or switch these tests off with LOOPWARDEN_KAFKA_TESTS=skip"
                    .into(),
            );
        }
        let mut watchdog = Command::new("sh")
            .args(["-c", RUN, "sh"])
            .args(format)
            .env("LIB", lib())
            .env("DIR", dir)
            .env("CLUSTER", CLUSTER_ID)
            .env("OPTIONS", java_options())
            .env("LOCK", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("no shell: {error}"))?;
        let mut started = [0; 8];
        let formatted = watchdog.stdout.take().expect("piped").read_exact(&mut started);
        formatted.map_err(|_| format!("formatting the broker's storage failed: see {}", dir.join("format.log").display()))?;
        Ok(Box::new(Watchdog(watchdog)))
    }
}
