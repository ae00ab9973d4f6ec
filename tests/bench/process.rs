//! What the benchmarks of whole processes share: time and memory of a process, its metrics, its topics.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::{ClientConfig, client::DefaultClientContext};

#[path = "../common/bounded.rs"]
mod bounded;
#[path = "../common/watched.rs"]
pub(crate) mod watched;

/// What the broker's harness asks of its test binary.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The whole answer, with its head; `None` while nobody answers.
pub(crate) fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Whether a process at this port serves.
pub(crate) fn is_ready(port: u16) -> Option<()> {
    get(port, "/readyz")?.starts_with("HTTP/1.1 200").then_some(())
}

/// A directory for what a run of a benchmark leaves. State is refused in a temporary directory of the system: the target must not lie there.
pub(crate) fn scratch(bench: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{bench}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// The sum of two fields of a `stat` file, counted after the name. Seconds; the kernel counts in hundredths.
fn seconds_of(file: &str, fields: [usize; 2]) -> f64 {
    let stat = std::fs::read_to_string(file).unwrap_or_default();
    let after: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    fields.iter().map(|at| after.get(*at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0)).sum::<f64>() / 100.0
}

/// User and system time of a process so far. Seconds.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    seconds_of(&format!("/proc/{pid}/stat"), [11, 12])
}

/// The same of all children that have ended.
pub(crate) fn children_cpu_seconds() -> f64 {
    seconds_of("/proc/self/stat", [13, 14])
}

pub(crate) fn resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn admin(bootstrap: &str) -> (AdminClient<DefaultClientContext>, tokio::runtime::Runtime) {
    let admin = ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
    (admin, tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap())
}

/// Makes topics of one copy, as the broker has them by default.
pub(crate) fn create_topics(bootstrap: &str, topics: &[&str], partitions: i32) {
    let (admin, runtime) = admin(bootstrap);
    let new: Vec<NewTopic<'_>> =
        topics.iter().map(|topic| NewTopic::new(topic, partitions, TopicReplication::Fixed(1))).collect();
    for made in runtime.block_on(admin.create_topics(&new, &AdminOptions::new())).unwrap() {
        made.unwrap();
    }
}

/// Deletes the topics whose names begin so: what a run has written is gigabytes.
pub(crate) fn delete_topics(bootstrap: &str, prefix: &str) {
    let (admin, runtime) = admin(bootstrap);
    let metadata = admin.inner().fetch_metadata(None, PATIENCE).unwrap();
    let topics: Vec<&str> = metadata.topics().iter().map(|topic| topic.name()).filter(|name| name.starts_with(prefix)).collect();
    if topics.is_empty() {
        return;
    }
    for deleted in runtime.block_on(admin.delete_topics(&topics, &AdminOptions::new())).unwrap() {
        deleted.unwrap();
    }
}
