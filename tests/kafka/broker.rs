//! Where the broker of these tests comes from: `KAFKA_BOOTSTRAP`, else a local one from the jars that `broker/fetch.sh` brings.
//!
//! A local broker dies with the test process, however that ends: a shell waits for the end of its standard input, which this process
//! holds. Its log stays under cargo's temporary directory until the next run. Its JVM is made to start fast; benchmarks give it
//! other arguments with `KAFKA_BROKER_JAVA`.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use loopwarden::clock::Deadline;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::proxy::Proxy;

/// A JVM on a busy machine with two cores.
const START_WAIT: Duration = Duration::from_secs(300);
/// Where the system begins with the ports that it gives to clients.
const EPHEMERAL_PORTS: u32 = 32_768;
/// Base64 of a UUID.
const CLUSTER_ID: &str = "MkU3OEVBNTcwNTJENDM2Qg";

/// A local broker. Dropping it ends the process.
pub(crate) struct Broker {
    /// Where clients connect.
    pub(crate) bootstrap: String,
    log: PathBuf,
    watchdog: Child,
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// The shared broker: its address, and itself where it is ours.
static SHARED: OnceLock<Option<(String, Option<Broker>)>> = OnceLock::new();

/// Where the shared broker keeps its topics; `None` for one that was given.
pub(crate) fn data() -> Option<PathBuf> {
    let (_, broker) = SHARED.get()?.as_ref()?;
    Some(broker.as_ref()?.log.with_file_name("data"))
}

/// The shared broker's address; `None` when the tests are switched off, which is said aloud.
pub(crate) fn bootstrap() -> Option<&'static str> {
    let shared = SHARED.get_or_init(|| {
        if std::env::var("LOOPWARDEN_KAFKA_TESTS").as_deref() == Ok("skip") {
            return None;
        }
        if let Ok(given) = std::env::var("KAFKA_BOOTSTRAP") {
            return Some((given, None));
        }
        let broker = start("shared", None);
        Some((broker.bootstrap.clone(), Some(broker)))
    });
    if shared.is_none() {
        println!("skipped: LOOPWARDEN_KAFKA_TESTS=skip");
    }
    shared.as_ref().map(|(bootstrap, _)| bootstrap.as_str())
}

/// A broker that tells its clients that it lives where the proxy listens. `None` as for [`bootstrap`]; also when only a given broker is
/// there, which cannot be told.
pub(crate) fn behind(name: &str, proxy: &Proxy) -> Option<Broker> {
    bootstrap()?;
    if std::env::var("KAFKA_BOOTSTRAP").is_ok() && !lib().is_dir() {
        println!("skipped: the given broker cannot stand behind a proxy");
        return None;
    }
    Some(start(name, Some(proxy)))
}

pub(crate) fn lib() -> PathBuf {
    // Empty is as good as not set, as the script has it that brings them.
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|path| !path.is_empty())
        .map_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("a home directory")).join(".cache"), PathBuf::from);
    cache.join("loopwarden/kafka-4.1.0/lib")
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

fn start(name: &str, proxy: Option<&Proxy>) -> Broker {
    let (port, controller) = (free_port(), free_port());
    let broker = launch(name, &format!("127.0.0.1:{port}"), &[], |dir| {
        server_properties(dir, port, controller, proxy.map_or(port, |proxy| proxy.port))
    });
    if let Some(proxy) = proxy {
        proxy.serve(&broker.bootstrap);
    }
    broker.wait_until_up();
    broker
}

/// Formats the storage, with `format` as further arguments, and starts the broker; it may not answer yet.
pub(crate) fn launch(name: &str, bootstrap: &str, format: &[String], properties: impl FnOnce(&Path) -> String) -> Broker {
    let dir = directory(name);
    fs::write(dir.join("server.properties"), properties(&dir)).expect("server.properties");
    run(&dir, bootstrap, format)
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

/// Starts the broker of a directory with `server.properties`, after formatting its storage. Where there is a file `keep`, the data outlives
/// the broker, and another one may be started on them.
pub(crate) fn run(dir: &Path, bootstrap: &str, format: &[String]) -> Broker {
    let lib = lib();
    assert!(
        lib.is_dir(),
        "no broker: set KAFKA_BOOTSTRAP, or run tests/kafka/broker/fetch.sh (needs Maven and Java 17), \
         or switch these tests off with LOOPWARDEN_KAFKA_TESTS=skip"
    );
    // The shell ends the broker when this process is gone, and with it the data; the log stays for whoever has to look.
    let script = r#"
        set -u
        JAVA="java ${KAFKA_BROKER_JAVA:--Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1} -Xshare:auto -cp $LIB/*"
        $JAVA kafka.tools.StorageTool format -t "$CLUSTER" -c "$DIR/server.properties" "$@" >"$DIR/format.log" 2>&1 </dev/null || exit 1
        $JAVA kafka.Kafka "$DIR/server.properties" >"$DIR/broker.log" 2>&1 </dev/null &
        echo started
        cat >/dev/null
        kill -9 $!
        wait
        [ -e "$DIR/keep" ] || rm -rf "$DIR/data"
    "#;
    let mut watchdog = Command::new("sh")
        .args(["-c", &format!("set -f\n{script}"), "sh"])
        .args(format)
        .env("LIB", &lib)
        .env("DIR", dir)
        .env("CLUSTER", CLUSTER_ID)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut started = [0; 8];
    let formatted = watchdog.stdout.take().expect("piped").read_exact(&mut started);
    assert!(formatted.is_ok(), "formatting the broker's storage failed: see {}", dir.join("format.log").display());

    Broker { bootstrap: bootstrap.to_owned(), log: dir.join("broker.log"), watchdog }
}

impl Broker {
    /// Asks until it answers.
    pub(crate) fn wait_until_up(&self) {
        let client = asker(&self.bootstrap);
        let deadline = Deadline::after(START_WAIT);
        while client.fetch_metadata(None, Duration::from_secs(1)).is_err() {
            assert!(!deadline.is_over(), "the broker on {} does not answer: see {}", self.bootstrap, self.log.display());
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
         group.initial.rebalance.delay.ms=0\n",
        dir.join("data").display()
    )
}
