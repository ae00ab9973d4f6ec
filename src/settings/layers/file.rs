//! Reads a small text file, bounded.

use std::{fs::File, io::Read as _, path::Path};

use loopwarden_core::limits::CONFIG_BYTES_MAX;

use crate::messages::diagnostic::{BAD, Diagnostic};

/// The text of a file of at most `CONFIG_BYTES_MAX` bytes.
pub(crate) fn read(path: &Path, code: &'static str) -> Result<String, Diagnostic> {
    let fail = |cause: String| Diagnostic::new(code, format!("cannot read {}: {cause}", path.display()));
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| fail(error.to_string()))?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        return Err(fail(format!("larger than {CONFIG_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| fail(format!("not UTF-8 after byte {}", error.utf8_error().valid_up_to())))
}

/// The secret in a file: its text without the line end after it.
///
/// # Errors
/// E0202 where the file cannot be read, is too large or empty.
pub fn read_secret(path: &Path, key: &str) -> Result<String, Diagnostic> {
    let text = read(path, BAD).map_err(|error| Diagnostic { message: format!("{key}: {}", error.message), ..error })?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(Diagnostic::new(BAD, format!("{key} names {}, which is empty", path.display())));
    }
    Ok(secret.to_owned())
}
