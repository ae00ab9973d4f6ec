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
use std::{env, fs, process, thread};
use std::{fs::File, os::unix::fs::MetadataExt, pin::pin, process::Command, sync::Once, time::Duration};

use futures_util::StreamExt;
use testcontainers::bollard::query_parameters::{EventsOptions, ListContainersOptionsBuilder, RemoveContainerOptions};
use testcontainers::core::{Mount, WaitFor};
use testcontainers::runners::{AsyncRunner, SyncRunner};
use testcontainers::{Container, GenericImage, ImageExt};
use testcontainers::{bollard::Docker, core::client::docker_client_instance};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::{CLUSTER_ID, Giver, RUN, Running, START_WAIT, VERSION, announce, java_options};

/// A daemon that needs longer for a ping is none.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Some 400 MB, once.
const PULL_WAIT: Duration = Duration::from_secs(600);
/// Names an image that has Java on its path and Kafka's jars in [`LIB`].
const IMAGE_VARIABLE: &str = "KAFKA_BROKER_IMAGE";
const PUBLISHED: &str = "apache/kafka";
/// What `image.sh` makes.
const LOCAL: &str = "loopwarden-kafka";
const LIB: &str = "/opt/kafka/libs";
/// Tells the containers of these tests from others; its value is the id of the test process.
const LABEL: &str = "dev.loopwarden.tests";

/// A daemon that answers, and an image.
pub(super) struct Containers {
    daemon: String,
    name: String,
    tag: String,
    watch: Once,
}

/// A container that is removed by force with this value.
struct Contained {
    container: Option<Container<GenericImage>>,
    dir: PathBuf,
    /// As long as this is locked, the container has a reason to run.
    _lock: File,
}

impl Running for Contained {}

impl Drop for Contained {
    fn drop(&mut self) {
        // Where the daemon refuses, the container ends with the lock.
        let _ = self.container.take().map(Container::rm);
        if !self.dir.join("keep").exists() {
            let _ = fs::remove_dir_all(self.dir.join("data"));
        }
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
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
        runtime().block_on(async {
            let docker = docker_client_instance().await.map_err(|error| error.to_string())?;
            match timeout(ANSWER_WAIT, docker.ping()).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(format!("no Docker daemon answers at {daemon} ({error})")),
                Err(_) => return Err(format!("the Docker daemon at {daemon} does not answer within {ANSWER_WAIT:?}")),
            }
            remove_never_started(&docker).await;
            let (name, tag) = image(&docker).await?;
            Ok(Self { daemon, name, tag, watch: Once::new() })
        })
    }

    /// For whoever reads which choice was made.
    pub(super) fn described(&self) -> String {
        format!("containers of {}:{} by the Docker daemon at {}", self.name, self.tag, self.daemon)
    }
}

/// Removes what killed test programs created and never started.
#[expect(clippy::disallowed_types, reason = "the type that the client of the daemon asks for")]
async fn remove_never_started(docker: &Docker) {
    let filters = std::collections::HashMap::from([("label", vec![LABEL]), ("status", vec!["created"])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    for container in docker.list_containers(Some(options)).await.unwrap_or_default() {
        let owner = container.labels.as_ref().and_then(|labels| labels.get(LABEL));
        let is_alive = owner.is_some_and(|owner| Path::new("/proc").join(owner).exists());
        if let Some(id) = container.id.filter(|_| !is_alive) {
            let _ = docker.remove_container(&id, None::<RemoveContainerOptions>).await;
        }
    }
}

/// Name and tag of the image: the one that was named, else one that is there, else the published one, which is pulled.
async fn image(docker: &Docker) -> Result<(String, String), String> {
    let named = env::var(IMAGE_VARIABLE).ok().filter(|name| !name.is_empty());
    let (name, tag) = match named.as_deref() {
        // What follows the last colon is a tag, unless it is the port and the path of a registry.
        Some(whole) => whole.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).unwrap_or((whole, "latest")),
        None => (PUBLISHED, VERSION),
    };
    for (name, tag) in [Some((name, tag)), named.is_none().then_some((LOCAL, VERSION))].into_iter().flatten() {
        if docker.inspect_image(&format!("{name}:{tag}")).await.is_ok() {
            return Ok((name.to_owned(), tag.to_owned()));
        }
    }
    announce(&format!("pulling {name}:{tag}"));
    let error = match timeout(PULL_WAIT, AsyncRunner::pull_image(GenericImage::new(name, tag))).await {
        Ok(Ok(_)) => return Ok((name.to_owned(), tag.to_owned())),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it takes more than {PULL_WAIT:?}"),
    };
    let other = if named.is_some() { "" } else { "; tests/kafka/broker/image.sh makes another one" };
    Err(format!("the image {name}:{tag} is not there and cannot be pulled ({error}){other}"))
}

impl Giver for Containers {
    fn start(&self, dir: &Path, format: &[String]) -> Result<Box<dyn Running>, String> {
        self.watch.call_once(|| watch(self.daemon.clone()));
        let path = dir.to_str().ok_or("the path of the broker's directory is no UTF-8")?;
        let lock_path = dir.join("lock");
        let lock =
            File::create(&lock_path).and_then(|file| file.lock().map(|()| file)).map_err(|error| format!("no lock: {error}"))?;
        let owner = fs::metadata(dir).map_err(|error| format!("{path}: {error}"))?;
        let arguments = ["-c", RUN, "sh"].into_iter().map(str::to_owned).chain(format.iter().cloned());
        let request = GenericImage::new(self.name.as_str(), self.tag.as_str())
            .with_entrypoint("sh")
            .with_wait_for(WaitFor::message_on_stdout("started"))
            .with_cmd(arguments)
            .with_env_var("LIB", LIB)
            .with_env_var("DIR", path)
            .with_env_var("CLUSTER", CLUSTER_ID)
            .with_env_var("OPTIONS", java_options())
            .with_env_var("LOCK", lock_path.to_string_lossy())
            .with_network("host")
            .with_mount(Mount::bind_mount(path, path))
            .with_user(format!("{}:{}", owner.uid(), owner.gid()))
            .with_label(LABEL, process::id().to_string())
            .with_host_config_modifier(|config| config.auto_remove = Some(true))
            .with_startup_timeout(START_WAIT);
        let container = SyncRunner::start(request)
            .map_err(|error| format!("no container of {}:{} in {path} (see format.log there): {error}", self.name, self.tag))?;
        Ok(Box::new(Contained { container: Some(container), dir: dir.to_owned(), _lock: lock }))
    }
}

/// Waits, on a thread of its own, for the daemon to go away.
fn watch(daemon: String) {
    let watcher = move || {
        let why = runtime().block_on(async {
            loop {
                let docker = match docker_client_instance().await {
                    Ok(docker) => docker,
                    Err(error) => return error.to_string(),
                };
                if let Err(error) = docker.ping().await {
                    return error.to_string();
                }
                // Has no end while the daemon lives; one that was cut is asked for again.
                let mut events = pin!(docker.events(None::<EventsOptions>));
                while let Some(Ok(_)) = events.next().await {}
            }
        });
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
