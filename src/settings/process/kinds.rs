//! Kinds of settings that only a process has: paths, addresses, texts with a rule of their own, settings of librdkafka.

use std::{collections::BTreeMap, fmt, net::SocketAddr, ops::Deref, path::PathBuf};

use loopwarden_core::setting::{Form, Key, kinds};

/// A rule for a text: what to take for it, or what is wrong with it, as `is empty, but must be a name`.
type TextRule = fn(&str) -> Result<String, Vec<String>>;

kinds! {
    /// A text that keeps a rule.
    Ruled(TextRule) -> String, |_| String::new(), |rule, key| match (rule.0)(key.text()) {
        Ok(text) => text,
        Err(problems) => {
            for problem in problems {
                bad(key, &problem);
            }
            String::new()
        }
    };

    /// A path, in a file relative to that file.
    FilePath -> PathBuf, |_| String::new(), |_, key| {
        let path = key.text();
        if path.is_empty() {
            bad(key, "is empty, but must be a path");
        }
        path.into()
    }, |_| Form::Path;

    /// An address and a port.
    Address -> SocketAddr, |_| String::new(), |_, key| {
        let text = key.text();
        text.parse().unwrap_or_else(|_| {
            bad(key, &format!("is {text:?}, but must be an address and a port, as 127.0.0.1:9464: names are not looked up"));
            SocketAddr::from(([0; 4], 0))
        })
    };

    /// Settings of librdkafka, as they are written.
    Native -> Verbatim, |_| String::new(), |_, key| Verbatim(key.table().texts()), |_| Form::Open;
}

/// Notes what is wrong with the value of a key.
pub(crate) fn bad(key: &mut Key<'_>, problem: &str) {
    key.check.problem(&key.path, format!("{} {problem}", key.path));
}

/// Settings that are handed on as they are written. Their values may be passwords, which no debug output shows.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Verbatim(pub BTreeMap<String, String>);

impl fmt::Debug for Verbatim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Deref for Verbatim {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
