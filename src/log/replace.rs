//! A small file that is replaced as a whole, and stays whatever happens.

use std::{fs, fs::File, io, io::Write as _, path::Path};

/// Gives a file another content: after this it has that, also after a power cut; before, the content it had.
///
/// # Errors
/// As any write; the file is then as it was.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
