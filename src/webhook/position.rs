//! How far a webhook is in the embedded log: a number in a file, replaced as a whole.

use std::path::{Path, PathBuf};
use std::{fs, fs::File, io, io::Read as _};

use loopwarden_log::replace;

/// Longest content. Bytes: a number of 64 bits and a line end.
const BYTES_MAX: u64 = 21;

pub(crate) struct PositionFile {
    path: PathBuf,
}

impl PositionFile {
    /// The one of a webhook, in a directory that is made.
    pub(crate) fn open(dir: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        Ok(Self { path: dir.join(format!("{name}.position")) })
    }

    /// What it says; none: there is no file. One that says no number counts as 0: what was sent is sent again, and nothing is left out.
    pub(crate) fn read(&self) -> io::Result<Option<u64>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
        let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
        Ok(Some(number.unwrap_or_else(|| {
            tracing::warn!(file = %self.path.display(), "the position of a webhook cannot be read: all commands that are kept are sent again");
            0
        })))
    }

    /// Says another. After this it stays, whatever happens.
    pub(crate) fn write(&self, position: u64) -> io::Result<()> {
        replace(&self.path, format!("{position}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_kept_and_what_is_none_begins_anew() {
        let dir = std::env::temp_dir().join(format!("loopwarden-position-{}", std::process::id()));
        let file = PositionFile::open(&dir, "slack").expect("a directory");
        assert_eq!(file.read().expect("readable"), None);
        for position in [0, 7, u64::MAX] {
            file.write(position).expect("written");
            assert_eq!(file.read().expect("readable"), Some(position));
        }
        for bad in ["", "x", "-1", "18446744073709551616", "99999999999999999999999999"] {
            fs::write(&file.path, bad).expect("written");
            assert_eq!(file.read().expect("readable"), Some(0), "{bad}");
        }
        fs::remove_dir_all(&dir).expect("removed");
    }
}
