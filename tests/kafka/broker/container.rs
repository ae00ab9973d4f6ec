//! Brokers in containers, by the Docker daemon of this machine.
//!
//! A container has the network of the host, and the broker's directory under the same path: the same `server.properties` hold in it, proxies
//! work, and a test can reach the broker's files. It runs as the owner of that directory. It ends with the test program, however that ends: its
//! process waits for a lock that this program holds, and the daemon removes it then. No network is made. A program that is killed between the
//! creation and the start of a container leaves one that never ran; the next one that looks for a daemon removes it.
//!
//! When the daemon goes away in the middle of the tests, its brokers may go with it, and every test would wait for its patience to run out. So
//! a thread watches, says so, and ends this program with all that it has started.

use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, thread};
use std::{fs::File, io::Read, os::unix::fs::MetadataExt};

use super::{CLUSTER_ID, Giver, RUN, Running, VERSION, announce, java_options};

/// A daemon that needs longer for a ping is none.
const ANSWER_SECONDS: u32 = 10;
/// Some 400 MB, once.
const PULL_SECONDS: u32 = 600;
/// Names an image that has Java on its path and Kafka's jars in [`LIB`].
const IMAGE_VARIABLE: &str = "KAFKA_BROKER_IMAGE";
const PUBLISHED: &str = "apache/kafka";
/// What `image.sh` makes.
const LOCAL: &str = "loopwarden-kafka";
const LIB: &str = "/opt/kafka/libs";
/// Tells the containers of these tests from others; its value is the id of the test process.
const LABEL: &str = "dev.loopwarden.tests";

/// A daemon that answers, and an image with its tag.
pub(super) struct Containers {
    daemon: String,
    image: String,
    watch: Once,
}

/// A container that is removed by force with this value.
struct Contained {
    /// The client that is attached to it.
    client: Child,
    name: String,
    dir: PathBuf,
    /// As long as this is locked, the container has a reason to run.
    _lock: File,
}

impl Running for Contained {}

impl Drop for Contained {
    fn drop(&mut self) {
        // Where the daemon refuses, the container ends with the lock.
        let _ = docker(ANSWER_SECONDS, &["rm", "--force", &self.name]);
        let _ = self.client.kill();
        let _ = self.client.wait();
        if !self.dir.join("keep").exists() {
            let _ = fs::remove_dir_all(self.dir.join("data"));
        }
    }
}

/// What the client of the daemon prints, within so many seconds. The error is what it has to say.
fn docker(seconds: u32, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("timeout").arg(seconds.to_string()).arg("docker").args(arguments).stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = output.map_err(|error| error.to_string())?;
    match status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&stdout).trim().to_owned()),
        Some(124) => Err(format!("no answer within {seconds} seconds")),
        _ => Err(String::from_utf8_lossy(&stderr).trim().to_owned()),
    }
}

impl Containers {
    /// Looks for a daemon and an image. The error says which of them is missing, and why.
    pub(super) fn find() -> Result<Self, String> {
        if !cfg!(target_os = "linux") {
            return Err("a container has the network and the files of the host on Linux only".into());
        }
        let daemon = env::var("DOCKER_HOST").unwrap_or_else(|_| "the default socket".into());
        if daemon.contains("://") && !daemon.starts_with("unix://") {
            return Err(format!("the Docker daemon at {daemon} may be on another machine, without the files of this one"));
        }
        docker(ANSWER_SECONDS, &["version", "--format", "{{.Server.Version}}"])
            .map_err(|error| format!("no Docker daemon answers at {daemon} ({error})"))?;
        remove_never_started();
        Ok(Self { daemon, image: image()?, watch: Once::new() })
    }

    /// For whoever reads which choice was made.
    pub(super) fn described(&self) -> String {
        format!("containers of {} by the Docker daemon at {}", self.image, self.daemon)
    }
}

/// Removes what killed test programs created and never started.
fn remove_never_started() {
    let format = format!("{{{{.ID}}}} {{{{.Label \"{LABEL}\"}}}}");
    let filter = format!("label={LABEL}");
    let created = ["ps", "--all", "--filter", &filter, "--filter", "status=created", "--format", &format];
    for line in docker(ANSWER_SECONDS, &created).unwrap_or_default().lines() {
        let dead = line.split_once(' ').filter(|(_, owner)| !Path::new("/proc").join(owner).exists());
        if let Some((id, _)) = dead {
            let _ = docker(ANSWER_SECONDS, &["rm", "--force", id]);
        }
    }
}

/// The image with its tag: the one that was named, else one that is there, else the published one, which is pulled.
fn image() -> Result<String, String> {
    let named = env::var(IMAGE_VARIABLE).ok().filter(|name| !name.is_empty());
    let first = named.clone().unwrap_or_else(|| format!("{PUBLISHED}:{VERSION}"));
    let second = named.is_none().then(|| format!("{LOCAL}:{VERSION}"));
    for image in [Some(&first), second.as_ref()].into_iter().flatten() {
        if docker(ANSWER_SECONDS, &["image", "inspect", "--format", "{{.Id}}", image]).is_ok() {
            return Ok(image.clone());
        }
    }
    announce(&format!("pulling {first}"));
    let Err(error) = docker(PULL_SECONDS, &["pull", "--quiet", &first]) else { return Ok(first) };
    let other = if named.is_some() { "" } else { "; tests/kafka/broker/image.sh makes another one" };
    Err(format!("the image {first} is not there and cannot be pulled ({error}){other}"))
}

impl Giver for Containers {
    fn start(&self, dir: &Path, format: &[String]) -> Result<Box<dyn Running>, String> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        self.watch.call_once(|| watch(self.daemon.clone()));
        let path = dir.to_str().ok_or("the path of the broker's directory is no UTF-8")?;
        let lock_path = dir.join("lock");
        let lock =
            File::create(&lock_path).and_then(|file| file.lock().map(|()| file)).map_err(|error| format!("no lock: {error}"))?;
        let owner = fs::metadata(dir).map_err(|error| format!("{path}: {error}"))?;
        let name = format!("loopwarden-tests-{}-{}", process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new("docker");
        command.args(["run", "--rm", "--pull", "never", "--network", "host", "--entrypoint", "sh", "--name", &name]);
        command.args(["--label", &format!("{LABEL}={}", process::id()), "--user", &format!("{}:{}", owner.uid(), owner.gid())]);
        command.args(["--mount", &format!("type=bind,source={path},target={path}")]);
        let variables = [
            ("LIB", LIB.to_owned()),
            ("DIR", path.to_owned()),
            ("CLUSTER", CLUSTER_ID.to_owned()),
            ("OPTIONS", java_options()),
            ("LOCK", lock_path.to_string_lossy().into_owned()),
        ];
        for (key, value) in variables {
            command.args(["--env", &format!("{key}={value}")]);
        }
        command.args([self.image.as_str(), "-c", RUN, "sh"]).args(format);
        let client =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| format!("no docker: {error}"))?;
        let mut contained = Contained { client, name, dir: dir.to_owned(), _lock: lock };
        // The first line of `run.sh`; a container that ends before it closes the pipe.
        let mut started = [0; 8];
        let formatted = contained.client.stdout.take().expect("piped").read_exact(&mut started);
        formatted.map_err(|_| format!("no container of {} in {path}: see format.log there", self.image))?;
        Ok(Box::new(contained))
    }
}

/// Waits, on a thread of its own, for the daemon to go away.
fn watch(daemon: String) {
    let watcher = move || {
        // The stream of events has no end while the daemon lives; one that was cut is asked for again.
        let why = loop {
            let _ = Command::new("docker").args(["events", "--filter", "type=daemon"]).stdin(Stdio::null()).output();
            if let Err(why) = docker(ANSWER_SECONDS, &["version", "--format", "{{.Server.Version}}"]) {
                break why;
            }
        };
        announce(&format!(
            "error: the Docker daemon at {daemon} went away ({why}), and the brokers of these tests with it; start it and run the tests again"
        ));
        give_up();
    };
    thread::Builder::new().name("docker-watch".into()).spawn(watcher).expect("a thread");
}

/// Ends this program, what it has started, and the directories that bear its id.
fn give_up() -> ! {
    let own = process::id();
    // The tests go on meanwhile, and may start others.
    for _ in 0..100 {
        let children = children(own);
        if children.is_empty() {
            break;
        }
        let _ = Command::new("kill").arg("-KILL").args(children).status();
    }
    for entry in fs::read_dir(env!("CARGO_TARGET_TMPDIR")).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().split('-').any(|part| part == own.to_string()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    process::exit(1)
}

/// Processes that this one has started, and that have not ended.
fn children(own: u32) -> Vec<String> {
    let of_own = |pid: &String| {
        // The name, in brackets, may contain anything; then state and parent.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.next() != Some("Z") && fields.next() == Some(&own.to_string())
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(of_own).collect()
}
