//! Arguments and results as the record holds them: JSON source text, read only when someone asks.

use std::borrow::Cow;

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
    /// Nothing.
    Absent,
    /// JSON source text.
    Json(Cow<'a, str>),
    /// Text that is no JSON, unescaped.
    Text(Cow<'a, str>),
    /// A hash.
    Sha256([u8; 32]),
}
