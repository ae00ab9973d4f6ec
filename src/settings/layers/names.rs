//! How a key is written: as a variable of the environment, as a flag, and in the wrong kind of file.

use loopwarden_core::policy::Profile;

use crate::layers::{native, tree, tree::Source};
use crate::messages::diagnostic::UNKNOWN;

/// What the names of all variables begin with.
pub(crate) const PREFIX: &str = "LOOPWARDEN_";

/// Variables that begin like ours and are no settings: the file's name, the address for client scripts, and what Kubernetes sets in every
/// pod beside a service whose name begins with `loopwarden`.
pub(crate) fn is_other(key: &str) -> bool {
    let is_port = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = key.split('_').collect();
    let is_service = parts.windows(2).any(|pair| matches!(pair, ["SERVICE", "HOST" | "PORT"]));
    let is_link = parts.windows(3).any(|three| matches!(three, ["PORT", port, "TCP" | "UDP" | "SCTP"] if is_port(port)));
    let is_foreign = is_service || is_link || parts.last() == Some(&"PORT");
    matches!(key, "CONFIG" | "URL") || (is_foreign && !key.contains("__"))
}

/// The path that a variable's name, without the prefix, means.
pub(crate) fn environment_path(key: &str) -> Vec<String> {
    if key == "LOG" {
        return vec!["log".to_owned(), "level".to_owned()];
    }
    let path: Vec<String> = key.split("__").map(str::to_ascii_lowercase).collect();
    native_path(path, native::from_environment)
}

/// The variable that sets the key at a path.
pub(crate) fn environment_name(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "__").to_ascii_uppercase())
}

/// The path that the key of a flag means.
pub(crate) fn flag_path(key: &str) -> Vec<String> {
    native_path(key.split('.').map(str::to_owned).collect(), str::to_owned)
}

/// Joins what follows a librdkafka table into one name.
fn native_path(path: Vec<String>, name: impl Fn(&str) -> String) -> Vec<String> {
    for table in native::TABLES {
        if let Some((head, tail)) = path.split_at_checked(table.len())
            && head.iter().map(String::as_str).eq(table.iter().copied())
            && !tail.is_empty()
        {
            return head.iter().cloned().chain([name(&tail.join("."))]).collect();
        }
    }
    path
}

/// What to do about a key of a policy that stands in the configuration, where policies are only named.
pub(crate) fn misplaced(key: &str) -> Option<String> {
    let shape = tree::parse(Profile::DEFAULT.text, &Source::Default, UNKNOWN).ok()?;
    let is_of_policy = key == "base" || shape.contains_key(key);
    is_of_policy.then(|| format!("{key} is a key of policies: it belongs into a policy file, whose path `policy` is to name"))
}
