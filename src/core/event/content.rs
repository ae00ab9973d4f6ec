//! Arguments and results as the record holds them: JSON source text, read only when someone asks.

use std::borrow::Cow;

use crate::event::{json, sound};

/// `args`, `result` or `stable_result` of an event. Nothing is parsed until [`Content::view`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// The field is absent or null.
    Absent,
    /// JSON source text of the value: valid, not too deep, without unpaired surrogates.
    Raw(&'a str),
    /// Privacy mode: a SHA-256 instead of the value, compared for equality only.
    Sha256([u8; 32]),
}

/// A content, looked at. Text that holds JSON is JSON (a tool's arguments often arrive so).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View<'a> {
    Absent,
    /// JSON source text, without white space around it.
    Json(Cow<'a, str>),
    /// Text that is no JSON, unescaped.
    Text(Cow<'a, str>),
    Sha256([u8; 32]),
}

impl<'a> Content<'a> {
    /// Whether there is neither a value nor a hash.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// What the content is. Costs a look at the whole text where the value is a string; borrows unless that has escapes.
    #[must_use]
    pub fn view(&self) -> View<'a> {
        match *self {
            Self::Absent => View::Absent,
            Self::Sha256(hash) => View::Sha256(hash),
            Self::Raw(source) if json::is_string(source) => view_text(json::unquote(source)),
            Self::Raw(source) => View::Json(Cow::Borrowed(source)),
        }
    }
}

/// Text that holds a JSON value as deep as a record may be is that value; deeper, it stays text.
fn view_text(text: Cow<'_, str>) -> View<'_> {
    if sound::is_sound(&text) { View::Json(trimmed(text)) } else { View::Text(text) }
}

fn trimmed(text: Cow<'_, str>) -> Cow<'_, str> {
    let space = [' ', '\t', '\n', '\r'];
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_matches(space)),
        Cow::Owned(text) if text.starts_with(space) || text.ends_with(space) => Cow::Owned(text.trim_matches(space).to_owned()),
        Cow::Owned(text) => Cow::Owned(text),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{Content, View};

    #[test]
    fn text_that_holds_json_is_json() {
        for (source, json) in [
            (r#"{"a":1}"#, r#"{"a":1}"#),
            (r#""{\"a\": \"x\\ny\"}""#, r#"{"a": "x\ny"}"#),
            (r#"" [1] \n""#, "[1]"),
            (r#""12""#, "12"),
            (r#""null""#, "null"),
            (r#""\"inner\"""#, r#""inner""#),
        ] {
            assert_eq!(Content::Raw(source).view(), View::Json(Cow::Borrowed(json)), "{source}");
        }
    }

    #[test]
    fn other_text_stays_text() {
        for (source, text) in [
            (r#""ls -la""#, "ls -la"),
            (r#""""#, ""),
            (r#""{\"a\":""#, "{\"a\":"),
            (r#""[\"\\ud800\"]""#, r#"["\ud800"]"#),
            (r#""0198f0aa-7c1e""#, "0198f0aa-7c1e"),
            (r#""a\tb""#, "a\tb"),
        ] {
            assert_eq!(Content::Raw(source).view(), View::Text(Cow::Borrowed(text)), "{source}");
        }
        let deep = format!("\"{}{}\"", "[".repeat(65), "]".repeat(65));
        assert!(matches!(Content::Raw(&deep).view(), View::Text(_)));
        assert!(Content::Absent.is_absent() && !Content::Raw("null").is_absent());
    }
}
