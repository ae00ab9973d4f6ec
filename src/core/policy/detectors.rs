//! A list of detectors in a policy file.

use crate::detect::Detector;
use crate::setting::Key;

/// Detectors by name, each once.
pub(super) fn detectors_of(key: &mut Key<'_>) -> Vec<Detector> {
    let (names, path) = (key.texts(), &key.path);
    let mut found = Vec::with_capacity(names.len().min(Detector::COUNT));
    for name in &names {
        match Detector::from_name(name) {
            Some(detector) if found.contains(&detector) => key.check.problem(path, format!("{path} names {name:?} twice")),
            Some(detector) => found.push(detector),
            None => {
                let list = Detector::ALL.map(Detector::as_str).join(", ");
                key.check.problem(path, format!("{path} holds {name:?}, but detectors are: {list}"));
            }
        }
    }
    found
}
