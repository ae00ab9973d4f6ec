//! Files for this user alone: what is written here says what agents did, with their arguments and results.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::{fs, io, path::Path};

use crate::output::say;

/// Rights of a directory that only its user may enter.
const OWN_DIR: u32 = 0o700;
/// Rights of group and others.
const OF_OTHERS: u32 = 0o077;

/// Whatever this process makes from now on is for its user alone, also the files of RocksDB.
pub(crate) fn by_default() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(OF_OTHERS));
}

/// Makes a directory, or closes one that others may enter: an earlier version left it open. Where it belongs to somebody else that is
/// said, once.
///
/// # Errors
/// It cannot be made.
pub(crate) fn dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(OWN_DIR).create(path)?;
    let mode = fs::metadata(path)?.mode();
    if mode & OF_OTHERS != 0 {
        let closed = fs::set_permissions(path, fs::Permissions::from_mode(mode & !OF_OTHERS));
        let shown = path.display();
        say(match closed {
            Ok(()) => format!("warning: {shown} was open to other users of this machine, and no longer is"),
            Err(error) => {
                format!("warning: {shown} is open to other users of this machine, who can read what agents do: {error}")
            }
        });
    }
    Ok(())
}
