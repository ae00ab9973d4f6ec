//! The file of a mapping.

use std::{fs::File, io::Read as _, path::Path};

use loopwarden_core::limits::CONFIG_BYTES_MAX;
use loopwarden_settings::{Config, Diagnostic};
use loopwarden_sources::mapping::{Mapping, MappingFile};

/// Reads a mapping.
///
/// # Errors
/// What is wrong with the file, with its name.
pub(crate) fn read(path: &Path) -> Result<(MappingFile, Mapping), String> {
    let wrong = |cause: String| format!("{}: {cause}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    file.take(CONFIG_BYTES_MAX).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    let file: MappingFile = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let mapping = Mapping::new(&file).map_err(|error| wrong(error.to_string()))?;
    Ok((file, mapping))
}

/// The mapping that the settings name.
///
/// # Errors
/// E0202.
pub(crate) fn of_settings(config: &Config) -> Result<Option<Mapping>, Diagnostic> {
    config.http.mapping.as_deref().map(|path| named(path, "http.mapping")).transpose()
}

/// The mapping that a key of the settings names.
///
/// # Errors
/// E0202, with the key.
pub(crate) fn named(path: &Path, key: &str) -> Result<Mapping, Diagnostic> {
    let read = read(path).map_err(|cause| Diagnostic::new("E0202", format!("{key}: {cause}")));
    read.map(|(_, mapping)| mapping)
}
