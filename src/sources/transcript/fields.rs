//! The fields by which a log is known.

use std::{borrow::Cow, collections::BTreeMap};

use loopwarden_core::event::json;

/// Fields of an object that are looked at. The objects of a log have a few dozen at most; the file may be anybody's, and of any size.
const FIELDS_MAX: usize = 256;

/// How sure a format is that an object is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It is none of its objects.
    No,
    /// It looks like one, and as much like one of another format that is sure.
    Likely,
    /// Nobody else writes such an object.
    Sure,
}

impl Sign {
    /// The sign of what is surely one, or else likely one.
    pub(crate) fn of(is_sure: bool, is_likely: bool) -> Self {
        match (is_sure, is_likely) {
            (true, _) => Self::Sure,
            (false, true) => Self::Likely,
            (false, false) => Self::No,
        }
    }
}

/// The fields of an object, unread.
pub(crate) struct Fields<'a> {
    pub(crate) source: &'a str,
    known: BTreeMap<Cow<'a, str>, &'a str>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(source: &'a str) -> Self {
        Self { source, known: json::fields(source).take(FIELDS_MAX).collect() }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Whether all of these are there.
    pub(crate) fn have(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.has(name))
    }

    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.known.get(name).filter(|source| json::is_string(source)).map(|source| json::unquote(source))
    }

    /// Whether it is a list.
    pub(crate) fn is_list(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|source| source.starts_with('['))
    }

    /// Whether it is an object with this field.
    pub(crate) fn has_inner(&self, name: &str, inner: &str) -> bool {
        self.known.get(name).is_some_and(|source| json::fields(source).any(|(name, _)| name == inner))
    }
}
