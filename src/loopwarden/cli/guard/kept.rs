//! The file in which a guard keeps what binds: read at its start, and replaced as a whole whenever that changes. It is for this user alone.
//! A stop is in it at once, so that whom a guard has refused by it is not let go by a kill; blocks wait where the table is large. The disk is
//! waited for when nothing changes: a stop that came meanwhile would wait for it, too.
//!
//! A guard that restarts while its source is away goes on refusing by it. What the source has replaces it.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io, sync::Arc, thread::JoinHandle, time::Duration};

use loopwarden_ask::{STATE_FOLDER, user_folder};
use loopwarden_core::identity::hash_parts;
use loopwarden_guard::{KEPT_BYTES_MAX, Kept, NotKept, Revision};
use loopwarden_log::clock::Stopwatch;

use crate::{http::Endpoint, http::check::Desk};

const NOT_KEPT: &str = "W0701";
const NOT_BELIEVED: &str = "W0702";
/// Rights of group and others to write.
const OTHERS_WRITE: u32 = 0o022;
/// A look at whether to end, where nothing changes.
const LOOK: Duration = Duration::from_millis(200);
/// Between two files, at least, where no stop comes: what comes meanwhile is in the next one.
const PAUSE: Duration = Duration::from_millis(20);
/// One part of so many of the time goes to files: checks wait while a table is copied, and a large one is replaced as a whole.
const SHARE_OF_TIME: u32 = 10;
/// Before what could not be written is tried again; between two files, at most.
const RETRY: Duration = Duration::from_secs(1);

/// The file, and what it is about.
pub(super) struct KeptFile {
    /// None where it has no place.
    path: Option<PathBuf>,
    source: String,
}

impl KeptFile {
    /// The file that was named, else one for this source and this place to listen.
    pub(super) fn of(named: Option<&Path>, source: &str, place: &Endpoint) -> Self {
        let name = || hash_parts(&[source, "\n", &format!("{place:?}")]).hash128();
        let own = || user_folder(STATE_FOLDER).map(|folder| folder.join(format!("loopwarden/guard-{}.kept", name())));
        Self { path: named.map(Path::to_path_buf).or_else(own), source: source.to_owned() }
    }

    /// Hands what it holds to the guard, and writes on until it is stopped. Whether anything binds by it, and the thread that writes.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn start(self, desk: &Arc<Desk>, stop: &Arc<AtomicBool>) -> io::Result<(bool, Option<JoinHandle<()>>)> {
        let Some(path) = self.path else {
            tracing::warn!(
                code = NOT_KEPT,
                "what binds is not kept over a restart: neither HOME nor XDG_STATE_HOME is set; give --keep"
            );
            return Ok((false, None));
        };
        let kept = read(&path, &self.source);
        if let Err(why) = &kept {
            tracing::warn!(code = NOT_BELIEVED, file = %path.display(), ?why, "what was kept over a restart is not believed");
        }
        // What may be somebody's is left as it is.
        let may_write = kept.as_ref().err() != Some(&NotKept::Unknown);
        let binds = kept.ok().flatten().is_some_and(|kept| desk.restore(kept));
        let (source, desk, stop) = (self.source, Arc::clone(desk), Arc::clone(stop));
        let write = move || write_on(&path, &source, &desk, &stop);
        let writer = may_write.then(|| std::thread::Builder::new().name("kept".to_owned()).spawn(write));
        Ok((binds, writer.transpose()?))
    }
}

/// What a file holds; none where there is no file. One that cannot be looked at cannot be written either, and that is reported.
fn read(path: &Path, source: &str) -> Result<Option<Kept>, NotKept> {
    let Ok(file) = fs::symlink_metadata(path) else { return Ok(None) };
    let is_own = file.is_file() && file.uid() == rustix::process::geteuid().as_raw() && file.mode() & OTHERS_WRITE == 0;
    let is_read = is_own && file.len() <= KEPT_BYTES_MAX as u64;
    let text = is_read.then(|| fs::read(path).ok()).flatten().ok_or(NotKept::Unknown)?;
    Kept::read(&text, source).map(Some)
}

/// Writes whenever what binds has changed, at the start too: a file system that takes nothing is reported then.
fn write_on(path: &Path, source: &str, desk: &Desk, stop: &AtomicBool) {
    let (mut revision, mut is_reported, mut ends) = (Revision::NONE, false, false);
    while !ends {
        ends = stop.load(Ordering::Acquire);
        let Some(kept) = desk.kept_since(&mut revision, if ends { Duration::ZERO } else { LOOK }) else { continue };
        let taken = Stopwatch::start();
        let (text, left_out) = kept.text(source);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let made = folder.map_or(Ok(()), |folder| fs::DirBuilder::new().recursive(true).mode(0o700).create(folder));
        let written = made.and_then(|()| loopwarden_log::replace_unsynced(path, text.as_bytes()));
        let failed = written.err();
        let is_all = failed.is_none() && left_out == 0;
        if !is_all && !is_reported {
            let why = failed.as_ref().map(ToString::to_string);
            tracing::warn!(code = NOT_KEPT, file = %path.display(), why, left_out, "not all that binds is kept over a restart");
        }
        is_reported = !is_all;
        if failed.is_some() {
            revision = Revision::NONE;
            std::thread::park_timeout(RETRY);
        } else if ends || !desk.has_stop_since(&revision, (taken.elapsed() * (SHARE_OF_TIME - 1)).clamp(PAUSE, RETRY)) {
            // Where the disk does not take it, the next file says so.
            let _ = loopwarden_log::sync(path);
        }
    }
}
