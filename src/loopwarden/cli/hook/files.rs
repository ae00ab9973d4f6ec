//! Reading and writing settings of other programs: whole or not at all, with one backup, and back to the same bytes.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::cli::hook::edit;
use crate::cli::hook::plan::{Mode, Target};

/// Largest settings file that is touched. Bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
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
            (Backup::Keep, Some(before)) => write(&backup, before, Mode::Plain)?,
            (Backup::Keep, None) => remove(&backup)?,
            _ => {}
        }
        match &self.after {
            Some(after) => write(&self.path, after, self.mode)?,
            None => remove(&self.path)?,
        }
        if self.backup == Backup::Drop { remove(&backup) } else { Ok(()) }
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

/// Writes a file whole: under another name first. The owner's rights on it stay.
pub(super) fn write(path: &Path, text: &str, mode: Mode) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = folder.join(name);
    let rights = fs::metadata(path).ok().map(|file| file.permissions());
    let written = fs::File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        match (rights, mode) {
            (_, Mode::Program) => file.set_permissions(fs::Permissions::from_mode(0o755))?,
            (Some(rights), Mode::Plain) => file.set_permissions(rights)?,
            (None, Mode::Plain) => {}
        }
        file.sync_all()?;
        fs::rename(&new, path)
    });
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

fn said(path: &Path, problem: &str) -> String {
    format!("{}: {problem}", path.display())
}
