//! A stop that fails closed: whoever was refused for one is refused on where no guard answers, until the stop's end. Each call is a process
//! of its own, so files remember: one for each agent of a session and event, for this user alone.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, io::Write as _, time::Duration};
use std::{fs, io};

use serde_json::value::RawValue;

/// Refusals that are kept; beyond them one leaves, and that is counted.
const KEPT_MAX: usize = 1_024;
/// Beside the folder: how many left for want of room. `hook status` reports it.
const FORGOTTEN: &str = "hook-forgotten";
/// Longest file that is read. Bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Beginning of the name of a file that is being written, and how long that may take.
const NEW: &str = "new-";
const WRITING_MAX: Duration = Duration::from_secs(60);
/// Names that agents have for a session, as the guard knows them.
const SESSION: [&str; 7] =
    ["session_id", "sessionId", "conversation_id", "conversationId", "taskId", "trajectory_id", "sessionID"];
/// Names that they have for what else a session has several of: agents, events.
const DETAILS: [&str; 4] = ["agent_id", "agentId", "hook_event_name", "hookName"];

/// Whose call it is, and at which event.
#[derive(Debug)]
pub(crate) struct Call(String);

impl Call {
    /// Of the input of a hook; none where it names no session.
    pub(crate) fn of(agent: &str, event: Option<&str>, input: &[u8]) -> Option<Self> {
        let members: BTreeMap<String, &RawValue> = serde_json::from_slice(input).ok()?;
        let text = |name: &&str| serde_json::from_str::<String>(members.get(*name)?.get()).ok();
        let session = SESSION.iter().find_map(text).filter(|session| !session.is_empty())?;
        let details = DETAILS.iter().map(|name| text(name).unwrap_or_default());
        let parts: Vec<String> =
            [agent.to_owned(), event.unwrap_or_default().to_owned(), session].into_iter().chain(details).collect();
        // One line, whatever the parts hold.
        serde_json::to_string(&parts).ok().map(Self)
    }

    fn file(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

/// The folder of refusals that outlive a guard, one file each.
#[derive(Debug)]
pub(crate) struct Stopped {
    folder: Option<PathBuf>,
}

impl Stopped {
    /// Beside the file of the circuit breaker; without one nothing is kept.
    pub(crate) fn beside(marker: Option<&Path>) -> Self {
        Self { folder: marker.map(|marker| marker.with_file_name("hook-stopped")) }
    }

    /// Whether there are any. Nearly always not, and then nothing more is looked at.
    pub(crate) fn is_any(&self) -> bool {
        self.folder.as_ref().is_some_and(|folder| folder.is_dir())
    }

    /// Keeps the refusal of a call for so long. That it cannot be kept changes nothing else.
    pub(crate) fn keep(&self, call: &Call, answer: &[u8], span: Duration) {
        let Some(folder) = &self.folder else { return };
        let _ = write(folder, call, answer, span);
    }

    /// The guard has let the call run.
    pub(crate) fn release(&self, call: &Call) {
        let Some(folder) = &self.folder else { return };
        let _ = fs::remove_file(folder.join(call.file()));
        // Only where it is empty.
        let _ = fs::remove_dir(folder);
    }

    /// The refusal of a call that is still to be refused.
    pub(crate) fn refusal(&self, call: &Call) -> Option<Vec<u8>> {
        let path = self.folder.as_ref()?.join(call.file());
        if held(&path).is_none() {
            self.release(call);
            return None;
        }
        let text = fs::read(&path).ok()?;
        let mut parts = text.splitn(3, |byte| *byte == b'\n');
        let (_, key, answer) = (parts.next()?, parts.next()?, parts.next()?);
        (key == call.0.as_bytes()).then(|| answer.to_vec())
    }
}

fn write(folder: &Path, call: &Call, answer: &[u8], span: Duration) -> io::Result<()> {
    folder.parent().map_or(Ok(()), fs::create_dir_all)?;
    let made = fs::DirBuilder::new().mode(0o700).create(folder);
    made.or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })?;
    // Whole or not at all: another call of the agent may read it at the same time.
    let (path, new) = (folder.join(call.file()), folder.join(format!("{NEW}{}", std::process::id())));
    if !path.exists() {
        make_room(folder)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(format!("{}\n{}\n", span.as_millis(), call.0).as_bytes())?;
    file.write_all(answer)?;
    fs::rename(&new, &path)
}

/// Whose refusal a file holds, of an agent's session, and how long it still does; none where it is over. A clock that went back ends nothing.
fn held(path: &Path) -> Option<(Vec<String>, Duration)> {
    let file = fs::metadata(path).ok().filter(|file| file.len() <= FILE_BYTES_MAX)?;
    let text = fs::read(path).ok()?;
    let mut lines = text.split(|byte| *byte == b'\n');
    let span_ms = std::str::from_utf8(lines.next()?).ok()?.parse().ok()?;
    let mut session: Vec<String> = serde_json::from_slice(lines.next().unwrap_or_default()).unwrap_or_default();
    // Agent, event, session: what follows tells its sub-agents apart.
    session.truncate(3);
    let age = file.modified().ok().and_then(|written| written.elapsed().ok()).unwrap_or_default();
    let left = Duration::from_millis(span_ms).saturating_sub(age);
    (!left.is_zero()).then_some((session, left))
}

/// Removes what is over. Where there is still no room, the refusal leaves that ends first, of the session that has most: a stopped session
/// keeps one, however many agents it names.
fn make_room(folder: &Path) -> io::Result<()> {
    let mut sessions: BTreeMap<Vec<String>, Vec<(Duration, PathBuf)>> = BTreeMap::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        let written = entry.metadata().and_then(|file| file.modified()).ok();
        let age = written.and_then(|written| written.elapsed().ok()).unwrap_or_default();
        if entry.file_name().to_string_lossy().starts_with(NEW) && age < WRITING_MAX {
            continue;
        }
        match held(&path) {
            Some((session, left)) => sessions.entry(session).or_default().push((left, path)),
            None => drop(fs::remove_file(&path)),
        }
    }
    if sessions.values().map(Vec::len).sum::<usize>() < KEPT_MAX {
        return Ok(());
    }
    let most = sessions.into_values().max_by_key(Vec::len).unwrap_or_default();
    let Some((_, first)) = most.into_iter().min() else { return Ok(()) };
    fs::remove_file(first)?;
    let count = folder.with_file_name(FORGOTTEN);
    let before = fs::read_to_string(&count).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0_u64);
    fs::write(count, format!("{}\n", before.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lw-stopped-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }

        fn stopped(&self) -> Stopped {
            Stopped::beside(Some(&self.0.join("hook-failures")))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn call(session: &str) -> Call {
        let input = format!(r#"{{"session_id":"{session}","hook_event_name":"PreToolUse","tool_input":{{"session_id":"x"}}}}"#);
        Call::of("claude-code", None, input.as_bytes()).unwrap()
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_refusal_is_that_of_its_call_alone_until_its_end_or_its_release() {
        let folder = Folder::new("alone");
        let stopped = folder.stopped();
        assert!(!stopped.is_any());
        stopped.keep(&call("a"), b"{\"x\":\n1}", HOUR);
        stopped.keep(&call("over"), b"no", Duration::ZERO);
        assert!(stopped.is_any());
        assert_eq!(stopped.refusal(&call("a")).as_deref(), Some(&b"{\"x\":\n1}"[..]));
        assert_eq!((stopped.refusal(&call("b")), stopped.refusal(&call("over"))), (None, None));
        let others = [
            Call::of("codex", None, br#"{"session_id":"a","hook_event_name":"PreToolUse"}"#),
            Call::of("claude-code", Some("x"), br#"{"session_id":"a","hook_event_name":"PreToolUse"}"#),
            Call::of("claude-code", None, br#"{"session_id":"a","hook_event_name":"PostToolUse"}"#),
            Call::of("claude-code", None, br#"{"session_id":"a","hook_event_name":"PreToolUse","agent_id":"sub"}"#),
        ];
        assert!(others.iter().flatten().all(|other| stopped.refusal(other).is_none()));
        for none in [&b""[..], b"[]", b"{}", br#"{"session_id":1}"#, br#"{"session_id":""}"#, b"\xff"] {
            assert!(Call::of("claude-code", None, none).is_none(), "{none:?}");
        }
        stopped.release(&call("a"));
        assert!(stopped.refusal(&call("a")).is_none() && !stopped.is_any(), "the last one takes the folder along");
    }

    #[test]
    fn a_stopped_session_that_makes_up_agents_pushes_out_its_own_refusals_alone() {
        let folder = Folder::new("made-up");
        let stopped = folder.stopped();
        // It ends before all others.
        stopped.keep(&call("quiet"), b"no", HOUR / 2);
        for number in 0..KEPT_MAX + 3 {
            let input = format!(r#"{{"session_id":"loud","hook_event_name":"PreToolUse","agent_id":"{number}"}}"#);
            stopped.keep(&Call::of("claude-code", None, input.as_bytes()).unwrap(), b"no", HOUR);
        }
        assert!(stopped.refusal(&call("quiet")).is_some());
    }

    #[test]
    fn what_is_kept_is_bounded_and_nobody_else_s_to_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new("bounded");
        let stopped = folder.stopped();
        for number in 0..KEPT_MAX + 3 {
            stopped.keep(&call(&number.to_string()), b"no", HOUR);
        }
        let files: Vec<_> = fs::read_dir(folder.0.join("hook-stopped")).unwrap().flatten().collect();
        assert_eq!(files.len(), KEPT_MAX);
        assert_eq!(fs::read_to_string(folder.0.join(FORGOTTEN)).unwrap(), "3\n");
        assert!(stopped.refusal(&call(&(KEPT_MAX + 2).to_string())).is_some(), "the newest");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.0.join("hook-stopped")), mode(&files[0].path())), (0o700, 0o600));
        fs::write(files[0].path(), "x".repeat(FILE_BYTES_MAX as usize + 1)).unwrap();
        assert!(held(&files[0].path()).is_none(), "one that nobody here has written");
    }
}
