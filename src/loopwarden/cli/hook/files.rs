//! Reading and writing settings of other programs: whole or not at all, with one backup, and back to the same bytes. Such a file may hold
//! secrets: neither its new content nor its backup is readable to more people than it was, not even while it is written.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::{fs, io};

use loopwarden_sources::install::{Mode, Target};

use crate::cli::hook::edit;

/// Largest settings file that is touched. Bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Rights while a file is written: nobody's but its user's.
const PRIVATE: u32 = 0o600;
/// Rights of the group.
const GROUP: u32 = 0o070;
/// Mark in files of our own: who else wrote one under our name is not overwritten.
const MARK: &str = "loopwarden";

/// What is to become of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// The file.
    pub(super) path: PathBuf,
    /// What it holds now; absent where there is none.
    pub(super) before: Option<String>,
    /// What it will hold; absent where it is to go.
    pub(super) after: Option<String>,
    /// Whether what it holds now is kept beside it, or what was kept is dropped.
    backup: Backup,
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backup {
    Keep,
    Drop,
    Leave,
}

impl Change {
    /// Whether there is nothing to do.
    pub(super) fn is_none(&self) -> bool {
        self.before == self.after
    }

    /// Carries it out.
    ///
    /// # Errors
    /// As any write.
    pub(super) fn apply(&self) -> io::Result<()> {
        let backup = backup_of(&self.path);
        match (self.backup, &self.before) {
            (Backup::Keep, Some(before)) => write_like(&backup, before, &fs::metadata(&self.path)?)?,
            (Backup::Keep, None) => remove(&backup)?,
            _ => {}
        }
        match &self.after {
            Some(after) => write(&self.path, after, self.mode)?,
            None => remove(&self.path)?,
        }
        if self.backup == Backup::Drop { remove(&backup) } else { Ok(()) }
    }

    /// Takes from a backup the rights that the file beside it does not give: one of an older version may be open to all.
    ///
    /// # Errors
    /// As any change of rights.
    pub(super) fn close_backup(&self) -> io::Result<()> {
        let backup = backup_of(&self.path);
        let (Ok(kept), Ok(file)) = (fs::symlink_metadata(&backup), fs::metadata(&self.path)) else { return Ok(()) };
        let closed = kept.mode() & 0o777 & file.mode();
        if !kept.is_file() || closed == kept.mode() & 0o777 {
            return Ok(());
        }
        fs::set_permissions(&backup, fs::Permissions::from_mode(closed))
    }

    /// The lines that go and come, with what they stand between left out.
    pub(super) fn diff(&self) -> String {
        let lines =
            |text: &Option<String>| -> Vec<String> { text.as_deref().unwrap_or_default().lines().map(str::to_owned).collect() };
        let (before, after) = (lines(&self.before), lines(&self.after));
        let same = before.iter().zip(&after).take_while(|(before, after)| before == after).count();
        let rest = (before.len().min(after.len())) - same;
        let ends = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(|(before, after)| before == after).count();
        let middle = |lines: &[String], sign: &str| -> String {
            lines
                .iter()
                .skip(same)
                .take(lines.len() - same - ends)
                .map(|line| format!("{sign}{line}\n"))
                .collect::<Vec<_>>()
                .concat()
        };
        format!("{}{}", middle(&before, "-"), middle(&after, "+"))
    }
}

/// Where the backup of a file lies.
pub(super) fn backup_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".before-loopwarden");
    name.into()
}

/// What an installation does to a file.
///
/// # Errors
/// It cannot be read or understood, or is somebody else's.
pub(super) fn install(target: &Target) -> Result<Change, String> {
    match target {
        Target::Shared(path, edit) => {
            let (path, before) = read(path)?;
            let text = before.as_deref().unwrap_or_default();
            let after = edit::with(text, edit).map_err(|problem| said(&path, &problem))?;
            // The backup is of the file without us.
            let is_first = edit::count(text, edit.under) == Ok(0);
            let backup = if is_first { Backup::Keep } else { Backup::Leave };
            Ok(Change { path, before, after: Some(after), backup, mode: Mode::Plain })
        }
        Target::Own(path, text, mode) => {
            let (path, before) = read(path)?;
            if before.as_ref().is_some_and(|before| !before.contains(MARK)) {
                return Err(said(
                    &path,
                    "it is there already and not of loopwarden; call loopwarden-hook from it, or move it away",
                ));
            }
            let after = Some(String::from_utf8_lossy(text).into_owned());
            Ok(Change { path, before, after, backup: Backup::Leave, mode: *mode })
        }
    }
}

/// What taking it away does to a file: the bytes from before where nothing else has changed since, else our entries go.
///
/// # Errors
/// It cannot be read or understood.
pub(super) fn uninstall(target: &Target) -> Result<Change, String> {
    match target {
        Target::Shared(path, edit) => {
            let (path, before) = read(path)?;
            let text = before.clone().unwrap_or_default();
            let stripped = edit::without(&text, edit.under).map_err(|problem| said(&path, &problem))?;
            let Some(stripped) = stripped else {
                return Ok(Change { path, after: before.clone(), before, backup: Backup::Leave, mode: Mode::Plain });
            };
            let (_, kept) = read(&backup_of(&path))?;
            let again = edit::with(kept.as_deref().unwrap_or_default(), edit).and_then(|again| edit::without(&again, edit.under));
            let is_untouched = again.is_ok_and(|again| again.as_ref() == Some(&stripped));
            let after = if is_untouched { kept } else { Some(stripped) };
            Ok(Change { path, before, after, backup: Backup::Drop, mode: Mode::Plain })
        }
        Target::Own(path, _, mode) => {
            let (path, before) = read(path)?;
            let is_ours = before.as_ref().is_none_or(|before| before.contains(MARK));
            let after = if is_ours { None } else { before.clone() };
            Ok(Change { path, before, after, backup: Backup::Leave, mode: *mode })
        }
    }
}

/// How many of our entries are in a file.
///
/// # Errors
/// It cannot be read or understood.
pub(super) fn count(target: &Target) -> Result<usize, String> {
    match target {
        Target::Shared(path, edit) => {
            let (path, text) = read(path)?;
            edit::count(&text.unwrap_or_default(), edit.under).map_err(|problem| said(&path, &problem))
        }
        Target::Own(path, ..) => read(path).map(|(_, text)| usize::from(text.is_some_and(|text| text.contains(MARK)))),
    }
}

/// A file behind its links, and its text.
fn read(path: &Path) -> Result<(PathBuf, Option<String>), String> {
    // A link into a directory of settings under version control stays one.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((path, None)),
        Err(error) => return Err(said(&path, &error.to_string())),
        Ok(file) if !file.is_file() => return Err(said(&path, "it is no file")),
        Ok(file) if file.len() > FILE_BYTES_MAX => return Err(said(&path, "it is too large")),
        Ok(_) => {}
    }
    let text = fs::read_to_string(&path).map_err(|error| said(&path, &error.to_string()))?;
    Ok((path, Some(text)))
}

/// Writes a file whole: under another name first. The rights on it, its user and its group stay.
pub(super) fn write(path: &Path, text: &str, mode: Mode) -> io::Result<()> {
    match (fs::metadata(path), mode) {
        (Ok(file), Mode::Plain) => write_like(path, text, &file),
        (Err(_), Mode::Plain) => replace(path, text, 0o644, |_| Ok(())),
        (_, Mode::Program) => replace(path, text, 0o755, |_| Ok(())),
    }
}

/// Writes a file that the same people may read as `like`, or fewer.
fn write_like(path: &Path, text: &str, like: &fs::Metadata) -> io::Result<()> {
    replace(path, text, PRIVATE, |file| {
        let of_same = fchown(file, Some(like.uid()), Some(like.gid())).or_else(|_| fchown(file, None, Some(like.gid())));
        // The rights are those of a group; another one gets none.
        let lost = if of_same.is_ok() { 0 } else { GROUP };
        file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o777 & !lost))
    })
}

/// Puts a new file in the place of what is there: after this it is that, also after a power cut. `rights` are those of its beginning, less
/// what the user's mask takes.
fn replace(path: &Path, text: &str, rights: u32, finish: impl FnOnce(&fs::File) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = folder.join(name);
    remove(&new)?;
    // A new one, and not what somebody else has put there meanwhile.
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(rights).open(&new)?;
    let written = finish(&file)
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, path))
        .and_then(|()| fs::File::open(folder)?.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the folders around a file that is gone, as long as they are empty and lie below one of `roots`, which stay themselves.
pub(super) fn remove_empty_folders(path: &Path, roots: &[PathBuf]) {
    let is_below = |folder: &Path| roots.iter().any(|root| folder.starts_with(root)) && roots.iter().all(|root| folder != root);
    let folders = path.ancestors().skip(1).take_while(|folder| is_below(folder));
    for folder in folders {
        // The system keeps one in which something lies.
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
}

fn said(path: &Path, problem: &str) -> String {
    format!("{}: {problem}", path.display())
}
