//! The arguments of a call, looked at once: identity, fingerprint, shell command and single values are all read off one canonical text.

use std::borrow::Cow;

use crate::event::{Content, View, json};
use crate::identity::canonical::{Member, Members, canonical_object, hash_as_text};

/// Arguments in their one spelling.
#[derive(Debug, Clone)]
pub struct Arguments<'a> {
    /// Canonical JSON, text verbatim, `{}` where absent, `sha256:<hex>` for a hash.
    text: Cow<'a, str>,
    /// Top-level members of an object, where they stand in `text`; none of what is no object.
    members: Members,
}

impl<'a> Arguments<'a> {
    /// Looks at the arguments of a call.
    #[must_use]
    pub fn of(args: &Content<'a>) -> Self {
        let plain = |text| Self { text, members: Members::new() };
        match args.view() {
            View::Absent => plain(Cow::Borrowed("{}")),
            View::Text(text) => plain(text),
            View::Sha256(hash) => plain(Cow::Owned(hash_as_text(hash))),
            View::Json(source) => {
                let (text, members) = canonical_object(&source);
                Self { text: Cow::Owned(text), members }
            }
        }
    }

    /// The same, independent of the event that they were read from.
    #[must_use]
    pub fn into_owned(self) -> Arguments<'static> {
        Arguments { text: Cow::Owned(self.text.into_owned()), members: self.members }
    }

    /// The arguments as canonical text, `{}` where absent.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is an object with members.
    pub(crate) fn is_object(&self) -> bool {
        !self.members.is_empty()
    }

    /// Canonical source of a top-level argument.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|member| self.is_key(member, name)).map(|member| self.part(member.colon + 1, member.end))
    }

    /// Canonical source of the only top-level argument.
    pub(crate) fn only_value(&self) -> Option<&str> {
        match self.members.as_slice() {
            [only] => Some(self.part(only.colon + 1, only.end)),
            // What is no object may look like one all the same.
            [] => {
                let mut fields = json::fields(&self.text);
                let (_, value) = fields.next()?;
                fields.next().is_none().then_some(value)
            }
            _ => None,
        }
    }

    /// Shows name and canonical source of each top-level argument, in the order of the text.
    pub(crate) fn members(&self, mut each: impl FnMut(&str, &str)) {
        if self.members.is_empty() {
            // What is no object may look like one all the same.
            json::fields(&self.text).for_each(|(key, value)| each(&key, value));
        }
        for member in &self.members {
            each(&self.key(member), self.part(member.colon + 1, member.end));
        }
    }

    /// Text of the first of `names` that is a top-level argument holding text.
    #[must_use]
    pub fn first_text(&self, names: &[&str]) -> Option<Cow<'_, str>> {
        let value = names.iter().find_map(|name| self.value(name).filter(|value| json::is_string(value)))?;
        Some(json::unquote(value))
    }

    /// Whether one of `names` is a top-level argument.
    pub(crate) fn has_any(&self, names: &[String]) -> bool {
        self.members.iter().any(|member| names.iter().any(|name| self.is_key(member, name)))
    }

    /// Canonical text of an object with some of its members; of anything else the whole text.
    pub(crate) fn chosen(&self, is_chosen: impl Fn(&str) -> bool) -> Cow<'_, str> {
        if self.members.iter().all(|member| is_chosen(&self.key(member))) {
            return Cow::Borrowed(&self.text);
        }
        let mut text = String::with_capacity(self.text.len());
        for member in self.members.iter().filter(|member| is_chosen(&self.key(member))) {
            text.push(if text.is_empty() { '{' } else { ',' });
            text.push_str(self.part(member.start, member.end));
        }
        text.push_str(if text.is_empty() { "{}" } else { "}" });
        Cow::Owned(text)
    }

    fn is_key(&self, member: &Member, name: &str) -> bool {
        // Most begin with another letter. Behind the quote of an empty key stands the other quote.
        let first = self.text.as_bytes().get(member.start + 1);
        let expected = name.as_bytes().first().unwrap_or(&b'"');
        (first == Some(expected) || first == Some(&b'\\')) && self.key(member) == name
    }

    fn key(&self, member: &Member) -> Cow<'_, str> {
        json::unquote(self.part(member.start, member.colon))
    }

    fn part(&self, start: usize, end: usize) -> &str {
        self.text.get(start..end).unwrap_or_default()
    }
}

/// Whether a name is one of a list.
pub(crate) fn holds(names: &[String], name: &str) -> bool {
    names.iter().any(|held| held == name)
}

/// Canonical text of a content: canonical JSON, text verbatim, `{}` where absent, `sha256:<hex>` for a hash.
#[must_use]
pub fn canonical_text(content: &Content<'_>) -> String {
    Arguments::of(content).text().to_owned()
}

/// Names of the first `most` top-level arguments, in order of the alphabet: the written order means nothing.
#[must_use]
pub fn argument_names(args: &Content<'_>, most: usize) -> Vec<String> {
    match args.view() {
        View::Json(source) if source.trim_start().starts_with('{') => {
            let mut names: Vec<String> = json::fields(&source).map(|(key, _)| key.into_owned()).take(most).collect();
            names.sort_unstable();
            names
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use crate::event::Content;

    #[test]
    fn single_values_are_read_off_the_canonical_text() {
        let args = Content::Raw(r#"{"b":"x\u0041\n","a":[1, 2],"k\"ey":"q","b":"last\n"}"#);
        let args = Arguments::of(&args);
        assert_eq!(args.text(), r#"{"a":[1,2],"b":"last\n","k\"ey":"q"}"#);
        assert_eq!(args.value("a"), Some("[1,2]"));
        assert_eq!(args.value("k\"ey"), Some("\"q\""));
        assert_eq!(args.value("missing"), None);
        assert_eq!(args.first_text(&["missing", "a", "b"]).as_deref(), Some("last\n"));
        assert!(args.has_any(&["z".into(), "a".into()]) && !args.has_any(&["1".into()]));
        assert_eq!(args.chosen(|name| name != "b"), r#"{"a":[1,2],"k\"ey":"q"}"#);
        assert_eq!(args.chosen(|_| false), "{}");
        assert_eq!(args.chosen(|_| true), args.text());
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for (args, text) in
            [(Content::Absent, "{}"), (Content::Raw("[{\"a\":1}]"), "[{\"a\":1}]"), (Content::Raw("\"a b\""), "a b")]
        {
            let args = Arguments::of(&args);
            assert_eq!((args.text(), args.value("a")), (text, None));
            assert_eq!(args.chosen(|_| false), text);
        }
        assert_eq!(Arguments::of(&Content::Raw("{}")).chosen(|_| false), "{}");
    }
}
