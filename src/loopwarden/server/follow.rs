//! What `replay --follow` adds to a process with a log of its own: a thread that reads the logs of agents while they grow.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::{collections::BTreeMap, fs, io, sync::Arc, thread::JoinHandle, time::Duration};

use loopwarden_lab::follow::{Follower, Look, ReadPositions};
use loopwarden_lab::report::{counted, plain};
use loopwarden_log::embedded::{Append, EmbeddedBroker};
use loopwarden_log::{LogError, clock, replace};
use loopwarden_sources::transcript::{Format, Made};
use loopwarden_state::StoreError;

use crate::{failure::Failure, http::Backlog, output::say};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Events appended at once.
const APPEND_EVENTS: usize = 500;
/// Lines about what cannot be read, of one look.
const TOLD_MAX: usize = 10;
/// How far logs are read, in the data directory.
const FILE: &str = "followed.json";
/// Longest such file that is read. Bytes: a line for each of as many logs as a directory may have.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// The thread; it ends when told so.
pub(super) struct Following {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Following {
    /// Starts it, after a first look: what it finds is followed from then on.
    ///
    /// # Errors
    /// The data directory, or there can be no thread.
    pub(super) fn start(
        dirs: &[PathBuf],
        (broker, backlog): (EmbeddedBroker, Option<Arc<Backlog>>),
        data_dir: &Path,
    ) -> Result<Self, Failure> {
        let path = data_dir.join(FILE);
        let of_file = |error: &io::Error| StoreError::of_io(format!("cannot use {}", path.display()), error);
        let known = read(&path).map_err(|error| of_file(&error))?;
        let mut follower = Follower::new(dirs, known);
        let first = follower.look();
        // Kept before anything is said of it: from here on these directories are followed.
        let mut kept = None;
        if first.events.is_empty() {
            let places = follower.places();
            write(&path, &places).map_err(|error| of_file(&error))?;
            kept = Some(places);
        }
        say(format!("following {}", told(&follower.followed(), dirs)));
        let (stop, stopped) = sync_channel::<()>(1);
        let mut thread = Follow { follower, broker, backlog, path, kept, is_full: false };
        let thread = std::thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || thread.run(first, &stopped))
            .map_err(|error| Failure::failed(format!("cannot start the thread that follows: {error}")))?;
        Ok(Self { stop, thread })
    }

    /// Ends it.
    pub(super) fn stop(self) {
        drop(self.stop);
        // It does not panic; if it did, there is nothing left to do about it.
        let _ = self.thread.join();
    }
}

struct Follow {
    follower: Follower,
    broker: EmbeddedBroker,
    backlog: Option<Arc<Backlog>>,
    path: PathBuf,
    /// What the file says.
    kept: Option<ReadPositions>,
    /// It was said that the log takes no events.
    is_full: bool,
}

impl Follow {
    fn run(&mut self, mut look: Look, stopped: &Receiver<()>) {
        loop {
            for line in look.told.iter().take(TOLD_MAX) {
                say(format!("warning: {}", plain(line)));
            }
            // The log is full, or its disk does not answer: nothing more is read until it takes what there is.
            while let Err(error) = self.append(&look.events) {
                if !std::mem::replace(&mut self.is_full, true) {
                    say(format!("warning: what agents wrote waits: {error}"));
                }
                if stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
            self.is_full = false;
            let places = self.follower.places();
            if self.kept.as_ref() != Some(&places) {
                // A process that starts again reads what this one did once more; the events have the same ids.
                if let Err(error) = write(&self.path, &places) {
                    say(format!("warning: cannot write {}: {error}", self.path.display()));
                }
                self.kept = Some(places);
            }
            let wait = if look.is_more { Duration::ZERO } else { LOOK_EVERY };
            if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            look = self.follower.look();
        }
    }

    /// Appends events, and waits until they are on disk.
    fn append(&self, events: &[Made]) -> Result<(), LogError> {
        let timestamp_ms = clock::now_ms();
        for events in events.chunks(APPEND_EVENTS) {
            let appends: Vec<Append<'_>> = events
                .iter()
                .map(|Made { session_id, json, .. }| Append {
                    key: session_id.as_bytes(),
                    value: json.as_bytes(),
                    headers: Vec::new(),
                    timestamp_ms,
                })
                .collect();
            let places = self.broker.append(&appends)?;
            self.backlog.iter().for_each(|backlog| backlog.note(&places));
        }
        Ok(())
    }
}

/// How far an earlier process has read. A file that cannot be understood counts as none, and what it said is told as lost.
fn read(path: &Path) -> io::Result<ReadPositions> {
    let about = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ReadPositions::default()),
        about => about?,
    };
    let places = if about.len() > FILE_BYTES_MAX { None } else { serde_json::from_slice(&fs::read(path)?).ok() };
    Ok(places.unwrap_or_else(|| {
        say(format!(
            "warning: {} says nothing that can be understood; what agents wrote up to now counts as read",
            path.display()
        ));
        ReadPositions::default()
    }))
}

fn write(path: &Path, places: &ReadPositions) -> io::Result<()> {
    replace(path, &serde_json::to_vec(places).map_err(io::Error::other)?)
}

/// What is followed, for people.
fn told(followed: &BTreeMap<Format, usize>, dirs: &[PathBuf]) -> String {
    let of = |(format, count): (&Format, &usize)| format!("{} of {}", counted(*count as u64, "log"), format.as_str());
    let logs: Vec<String> = followed.iter().map(of).collect();
    let logs = if logs.is_empty() { "no log yet".to_owned() } else { logs.join(", ") };
    let dirs: Vec<String> = dirs.iter().map(|dir| plain(&dir.display().to_string())).collect();
    format!("{}: {logs}; what is written from now on is judged", dirs.join(", "))
}
