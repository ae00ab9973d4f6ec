//! A wall clock of a process that jumps while it runs, by a library that is loaded into it. The monotonic clock goes on as it is: that one
//! does not jump.
//!
//! libfaketime is not used: it lets librdkafka, which waits with the functions of C11, wait by another clock than the one it reads.

use std::path::{Path, PathBuf};
use std::{fs::File, os::unix::fs::FileExt as _, process::Command};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chaos/wall_clock.c");

/// A file with the offset, which the process sees at once.
#[derive(Debug)]
pub(crate) struct WallClock {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

impl WallClock {
    /// One that is right. The error says why there is none.
    pub(crate) fn new(folder: &Path) -> Result<Self, String> {
        if cfg!(not(target_os = "linux")) {
            return Err("only on Linux".to_owned());
        }
        let library = folder.join("wall_clock.so");
        let compiled = Command::new("cc").args(["-O2", "-shared", "-fPIC", SOURCE, "-o"]).arg(&library).output();
        let compiled = compiled.map_err(|error| format!("no C compiler, cc: {error}"))?;
        if !compiled.status.success() {
            return Err(String::from_utf8_lossy(&compiled.stderr).into_owned());
        }
        let path = folder.join("wall_clock");
        let file = File::create(&path).map_err(|error| error.to_string())?;
        let clock = Self { library, path, file };
        clock.jump_to(0);
        Ok(clock)
    }

    /// So many seconds ahead of the machine, or behind it.
    pub(crate) fn jump_to(&self, offset_s: i64) {
        self.file.write_all_at(&offset_s.to_ne_bytes(), 0).expect("a file");
    }

    /// What the process must be started with.
    pub(crate) fn environment(&self) -> [(String, String); 2] {
        let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
        [("LD_PRELOAD".to_owned(), text(&self.library)), ("WALL_CLOCK_OFFSET".to_owned(), text(&self.path))]
    }
}
