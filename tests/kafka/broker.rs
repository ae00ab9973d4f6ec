//! Where the brokers of these tests come from. `KAFKA_BOOTSTRAP` names one that runs already; else a giver starts them:
//!
//! - containers, where a Docker daemon answers ([`container`]);
//! - a JVM, from the jars that `broker/fetch.sh` brings, where none does ([`jvm`]).
//!
//! The choice is printed, and `KAFKA_BROKER=container` or `KAFKA_BROKER=jvm` forces one. Both run `broker/run.sh` on a directory with
//! `server.properties`: whatever a test does with a broker, it does with either. A broker dies with the test process, however that ends. Its log
//! stays under cargo's temporary directory until the next run. Its JVM is made to start fast; benchmarks give it other arguments with
//! `KAFKA_BROKER_JAVA`, and other settings with `KAFKA_BROKER_PROPERTIES`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io};
use std::{io::Write, net::TcpListener, sync::OnceLock, time::Duration};

use loopwarden::clock::Deadline;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::proxy::Proxy;

#[path = "broker/container.rs"]
mod container;
#[path = "broker/jvm.rs"]
mod jvm;

/// A JVM on a busy machine with two cores.
const START_WAIT: Duration = Duration::from_secs(300);
/// Where the system begins with the ports that it gives to clients.
const EPHEMERAL_PORTS: u32 = 32_768;
/// Base64 of a UUID.
const CLUSTER_ID: &str = "MkU3OEVBNTcwNTJENDM2Qg";
/// Of Kafka, in `broker/pom.xml` too.
const VERSION: &str = "4.1.0";
/// What every broker runs.
const RUN: &str = include_str!("broker/run.sh");

/// Starts brokers.
trait Giver: Send + Sync {
    /// Formats the storage of a directory with `server.properties`, with further arguments of the formatter, and starts the broker on it. It may
    /// not answer yet. The error says what to do.
    fn start(&self, dir: &Path, format: &[String]) -> Result<Box<dyn Running>, String>;
}

/// A started broker. Dropping it is `kill -9`; its data go with it, except where there is a file `keep`.
trait Running: Send + Sync {}

/// A broker of these tests. Dropping it ends it.
pub(crate) struct Broker {
    /// Where clients connect.
    pub(crate) bootstrap: String,
    pub(crate) dir: PathBuf,
    running: Option<Box<dyn Running>>,
    /// Its data outlive its process, and go with this.
    is_mortal: bool,
}

/// The shared broker: its address, and itself where it is ours.
static SHARED: OnceLock<Option<(String, Option<Broker>)>> = OnceLock::new();

/// Where the shared broker keeps its topics; `None` for one that was given.
pub(crate) fn data() -> Option<PathBuf> {
    let (_, broker) = SHARED.get()?.as_ref()?;
    Some(broker.as_ref()?.dir.join("data"))
}

/// The shared broker's address; `None` when the tests are switched off, which is said aloud.
pub(crate) fn bootstrap() -> Option<&'static str> {
    let shared = SHARED.get_or_init(|| {
        if env::var("LOOPWARDEN_KAFKA_TESTS").as_deref() == Ok("skip") {
            return None;
        }
        if let Ok(given) = env::var("KAFKA_BOOTSTRAP") {
            return Some((given, None));
        }
        let broker = start("shared", None, "");
        Some((broker.bootstrap.clone(), Some(broker)))
    });
    if shared.is_none() {
        leave_out("there is no broker");
    }
    shared.as_ref().map(|(bootstrap, _)| bootstrap.as_str())
}

/// A broker that tells its clients that it lives where the proxy listens. `None` as for [`bootstrap`]; also when only a given broker is
/// there, which cannot be told.
pub(crate) fn behind(name: &str, proxy: &Proxy) -> Option<Broker> {
    bootstrap()?;
    if !can_start() {
        leave_out("the given broker cannot stand behind a proxy");
        return None;
    }
    Some(start(name, Some(proxy), ""))
}

/// Leaves a test out, which is said aloud: only where somebody has asked for that, since it passes without having seen anything.
pub(crate) fn leave_out(why: &str) {
    let wanted = env::var("LOOPWARDEN_KAFKA_TESTS").unwrap_or_default();
    assert!(matches!(wanted.as_str(), "skip" | "some"), "{why}; LOOPWARDEN_KAFKA_TESTS=some leaves such tests out");
    println!("skipped: {why}");
}

/// Whether brokers can be started beside one that was given.
pub(crate) fn can_start() -> bool {
    env::var("KAFKA_BOOTSTRAP").is_err() || jvm::is_there()
}

/// The giver of this run.
fn giver() -> &'static dyn Giver {
    static GIVER: OnceLock<Box<dyn Giver>> = OnceLock::new();
    GIVER.get_or_init(choose).as_ref()
}

fn choose() -> Box<dyn Giver> {
    let wanted = env::var("KAFKA_BROKER").unwrap_or_default();
    let found = match wanted.as_str() {
        "jvm" => Err("KAFKA_BROKER=jvm".to_owned()),
        "" | "container" => container::Containers::find(),
        other => panic!("KAFKA_BROKER={other}: it is container, jvm or not set"),
    };
    match found {
        Ok(containers) => {
            announce(&format!("test brokers: {}", containers.described()));
            Box::new(containers)
        }
        Err(why) if wanted == "container" => panic!("KAFKA_BROKER=container, but {why}"),
        Err(why) => {
            announce(&format!("test brokers: JVMs of this machine: {why}"));
            Box::new(jvm::Jvm)
        }
    }
}

/// Says something that nobody captures: it is about the run, not about one test.
fn announce(words: &str) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// Arguments of the broker's JVM.
fn java_options() -> String {
    env::var("KAFKA_BROKER_JAVA").unwrap_or_else(|_| "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1".into())
}

/// A port that nobody listens on, never the same twice. One of those that the system gives to clients might be taken before the broker
/// has come up; and processes with other ids try others.
pub(crate) fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let first = 15_000 + std::process::id() % 1_000 * 16;
    loop {
        let port = first + TRIED.fetch_add(1, Ordering::Relaxed);
        assert!(port < EPHEMERAL_PORTS, "no port is free");
        let port = port as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Directories of processes that are gone.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.split('-').nth(1)).unwrap_or_default();
        if name.to_string_lossy().starts_with("broker-") && !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn start(name: &str, proxy: Option<&Proxy>, more: &str) -> Broker {
    let (port, controller) = (free_port(), free_port());
    let dir = directory(name);
    let properties = server_properties(&dir, port, controller, proxy.map_or(port, |proxy| proxy.port));
    fs::write(dir.join("server.properties"), properties + more).expect("server.properties");
    let broker = run(&dir, &format!("127.0.0.1:{port}"), &[]);
    if let Some(proxy) = proxy {
        proxy.serve(&broker.bootstrap);
    }
    broker.wait_until_up();
    broker
}

/// A new directory for a broker.
pub(crate) fn directory(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    sweep(root);
    let dir = root.join(format!("broker-{}-{name}", std::process::id()));
    // A run that was killed may have had the same id, and left its data.
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a directory for the broker");
    dir
}

/// Starts the broker of a directory with `server.properties`, after formatting its storage with these arguments; it may not answer yet. Where
/// there is a file `keep`, the data outlive the broker, and another one may be started on them.
pub(crate) fn run(dir: &Path, bootstrap: &str, format: &[String]) -> Broker {
    let running = giver().start(dir, format).unwrap_or_else(|why| panic!("{why}"));
    Broker { bootstrap: bootstrap.to_owned(), dir: dir.to_owned(), running: Some(running), is_mortal: false }
}

/// A broker of its own that can be killed and revived on its data, which go with it. `None` as for [`behind`].
pub(crate) fn mortal(name: &str) -> Option<Broker> {
    if env::var("LOOPWARDEN_KAFKA_TESTS").as_deref() == Ok("skip") || !can_start() {
        return None;
    }
    // After an unclean end each segment that was being written is read again.
    let mut broker = start(name, None, "log.segment.bytes=16777216\n");
    broker.is_mortal = true;
    fs::write(broker.dir.join("keep"), "").expect("a file");
    Some(broker)
}

impl Broker {
    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Starts it again, on the data of a [`mortal`] one; it may not answer yet.
    pub(crate) fn revive(&mut self) {
        let running = giver().start(&self.dir, &["--ignore-formatted".to_owned()]);
        self.running = Some(running.unwrap_or_else(|why| panic!("{why}")));
    }

    /// Asks until it answers.
    pub(crate) fn wait_until_up(&self) {
        let client = asker(&self.bootstrap);
        let deadline = Deadline::after(START_WAIT);
        while client.fetch_metadata(None, Duration::from_secs(1)).is_err() {
            assert!(
                !deadline.is_over(),
                "the broker on {} does not answer: see {}",
                self.bootstrap,
                self.dir.join("broker.log").display()
            );
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.running.take());
        if self.is_mortal {
            let _ = fs::remove_dir_all(self.dir.join("data"));
        }
    }
}

/// A client that tries again and again, and says nothing of it.
pub(crate) fn asker(bootstrap: &str) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("reconnect.backoff.ms", "50").set("reconnect.backoff.max.ms", "200");
    config.set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg).create().expect("a client")
}

fn server_properties(dir: &Path, port: u16, controller: u16, advertised: u16) -> String {
    let voters = format!("1@127.0.0.1:{controller}");
    let of_node = node_properties(dir, 1, &voters, (port, controller, advertised));
    format!(
        "{of_node}\
         num.partitions=1\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=4\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=4\n"
    )
}

/// What a node has whether it is alone or not. Ports: its own, its controller's, and the one that clients are told.
pub(crate) fn node_properties(dir: &Path, id: usize, voters: &str, (port, controller, advertised): (u16, u16, u16)) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id={id}\n\
         controller.quorum.voters={voters}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{advertised}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         log.dirs={}\n\
         log.index.size.max.bytes=1048576\n\
         auto.create.topics.enable=false\n\
         transaction.abort.timed.out.transaction.cleanup.interval.ms=1000\n\
         group.min.session.timeout.ms=1000\n\
         group.initial.rebalance.delay.ms=0\n\
         group.consumer.min.session.timeout.ms=1000\n\
         group.consumer.session.timeout.ms=6000\n\
         group.consumer.min.heartbeat.interval.ms=500\n\
         group.consumer.heartbeat.interval.ms=500\n{}",
        dir.join("data").display(),
        env::var("KAFKA_BROKER_PROPERTIES").unwrap_or_default()
    )
}
