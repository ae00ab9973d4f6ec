//! Where the guard is. It stands in a file, not in the command: Codex asks its user again about a command that changes, and Gemini CLI
//! hands a hook no variable that looks like a secret.

use std::fs;
use std::path::{Path, PathBuf};

/// Where a process on this machine answers without further settings.
const ADDRESS: &str = "127.0.0.1:9464";
/// Longest file that is read. Bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024;

/// Where the guard is, and where this program notes that it is away.
#[derive(Debug, Clone)]
pub struct GuardEndpoint {
    /// `host:port`, or `unix:` and a path.
    pub address: String,
    /// Secret that opens the guard.
    pub token: Option<String>,
    /// Number of the user that runs the guard, where it is neither this user nor root.
    pub uid: Option<u32>,
    /// File of the circuit breaker; absent where there is no home.
    pub marker: Option<PathBuf>,
}

impl GuardEndpoint {
    /// Looks into the user's files: `hook-address`, `hook-token` and `hook-uid` below the configuration, the marker below the cache.
    pub fn find() -> Self {
        let config = user_folder(CONFIG_FOLDER).map(|folder| folder.join("loopwarden"));
        let line = |name: &str| config.as_ref().and_then(|folder| first_line(&folder.join(name)));
        Self {
            address: line("hook-address").unwrap_or_else(|| ADDRESS.to_owned()),
            token: line("hook-token"),
            uid: line("hook-uid").and_then(|line| line.parse().ok()),
            marker: user_folder(CACHE_FOLDER).map(|folder| folder.join("loopwarden/hook-failures")),
        }
    }
}

/// Folders of a user by the XDG Base Directory Specification: a variable, and the place below the home where it is not set.
pub const CONFIG_FOLDER: [&str; 2] = ["XDG_CONFIG_HOME", ".config"];
pub const STATE_FOLDER: [&str; 2] = ["XDG_STATE_HOME", ".local/state"];
const CACHE_FOLDER: [&str; 2] = ["XDG_CACHE_HOME", ".cache"];

/// One of these folders; none where neither its variable nor a home is set.
#[must_use]
pub fn user_folder([name, default]: [&str; 2]) -> Option<PathBuf> {
    path_variable(name).or_else(|| Some(path_variable("HOME")?.join(default)))
}

/// A path in the environment; a relative one is none.
#[must_use]
pub fn path_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The first line of a file, if it is a plain text.
fn first_line(path: &Path) -> Option<String> {
    let is_small = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= FILE_BYTES_MAX);
    let text = fs::read_to_string(path).ok().filter(|_| is_small)?;
    let line = text.lines().next().unwrap_or_default().trim();
    (!line.is_empty() && line.chars().all(|letter| letter.is_ascii_graphic() || letter == ' ')).then(|| line.to_owned())
}
