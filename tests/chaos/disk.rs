//! A disk of a process: a small file system of its own, so that it can be full, read-only or slow while the machine's is not. It needs root
//! on Linux.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, thread};
use std::{fs::File, time::Duration};

use loopwarden::clock::Deadline;

/// Size of the image, of which only what is used takes room.
const IMAGE_BYTES: u64 = 12 << 30;
/// Left by the first file that fills a disk, for the second one, which stops where the disk ends.
const REST_BYTES: u64 = 1 << 20;
/// For files of a process that is gone.
const CLOSE_WAIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// An ext4 file system in an image, mounted at a folder. Dropping it unmounts it.
#[derive(Debug)]
pub(crate) struct Disk {
    image: PathBuf,
    at: PathBuf,
}

/// Runs a program of the system. The error is what it said.
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let said = [text(&output.stdout), text(&output.stderr)].join(" ");
    Err(format!("{program} {}: {} {said}", arguments.join(" "), output.status))
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Unmounts what runs have left that were killed: their folders have the ids of processes that are gone.
pub(crate) fn sweep() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    for at in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        let folder = at.strip_prefix(env!("CARGO_TARGET_TMPDIR")).and_then(|rest| rest.split('/').nth(1));
        let id = folder.and_then(|folder| folder.split('-').nth(1));
        if id.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _ = run("fsfreeze", &["-u", at]);
            let _ = run("umount", &["-l", at]);
        }
    }
}

impl Disk {
    /// Makes one and mounts it. The error says why there is none.
    pub(crate) fn mount(at: &Path) -> Result<Self, String> {
        fs::create_dir_all(at).map_err(|error| error.to_string())?;
        let image = at.with_extension("ext4");
        File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES)).map_err(|error| error.to_string())?;
        let disk = Self { image, at: at.to_owned() };
        // No room that only root may use: the processes are root's.
        run("mkfs.ext4", &["-q", "-F", "-m", "0", path(&disk.image)])?;
        disk.attach()?;
        Ok(disk)
    }

    fn attach(&self) -> Result<(), String> {
        run("mount", &["-o", "loop", path(&self.image), path(&self.at)]).map(drop)
    }

    /// Takes all the room there is.
    pub(crate) fn fill(&self) {
        let avail = run("df", &["--output=avail", "-B1", path(&self.at)]).expect("the free room");
        let avail: u64 = avail.lines().last().and_then(|line| line.trim().parse().ok()).expect("a number");
        let bytes = avail.saturating_sub(REST_BYTES).to_string();
        // What writes meanwhile may be quicker, and the second file ends with an error in any case.
        let _ = run("fallocate", &["-l", &bytes, path(&self.at.join("filler"))]);
        let _ = run("dd", &["if=/dev/zero", &format!("of={}", path(&self.at.join("filling"))), "bs=4k", "status=none"]);
    }

    /// Gives the room back.
    pub(crate) fn empty(&self) {
        for name in ["filler", "filling"] {
            let _ = fs::remove_file(self.at.join(name));
        }
    }

    /// Nothing can be written any more, whoever has files open: what the journal holds stays, as when the power goes. No call may be under
    /// way: an `fdatasync` that is while ext4 gives its journal up can say that it is done and be not (`aborted_sync.py`).
    pub(crate) fn fail(&self) {
        run("mount", &["-o", "remount,abort", path(&self.at)]).expect("an aborted journal");
    }

    /// Nothing can be written; nobody has files open.
    pub(crate) fn write_protect(&self) {
        run("mount", &["-o", "remount,ro", path(&self.at)]).expect("a read-only mount");
    }

    /// Checked and mounted again, as soon as nobody has files open: the kernel closes those of a process that was killed.
    pub(crate) fn repair(&self) {
        let deadline = Deadline::after(CLOSE_WAIT);
        while let Err(why) = run("umount", &[path(&self.at)]) {
            assert!(!deadline.is_over(), "{why}");
            thread::park_timeout(LOOK);
        }
        // With 1 it has corrected something.
        run("sh", &["-c", r#"e2fsck -p "$0" || [ $? -eq 1 ]"#, path(&self.image)]).expect("a file system that can be mended");
        self.attach().expect("mounted");
        // Its deletion may have failed with the disk.
        self.empty();
        // What was deleted takes no room of the machine any more. Not at once (`discard`): some deletions are undone by a failure.
        run("fstrim", &[path(&self.at)]).expect("trimmed");
    }

    /// Whoever writes or syncs waits, and cannot even be killed.
    pub(crate) fn hang(&self) {
        run("fsfreeze", &["-f", path(&self.at)]).expect("a frozen disk");
    }

    pub(crate) fn go_on(&self) {
        run("fsfreeze", &["-u", path(&self.at)]).expect("a disk that goes on");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Of these one or the other has nothing to do.
        let _ = run("fsfreeze", &["-u", path(&self.at)]);
        let _ = run("umount", &["-l", path(&self.at)]);
        let _ = fs::remove_file(&self.image);
    }
}
