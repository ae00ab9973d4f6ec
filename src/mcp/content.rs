//! The result of a tool, as the guard is told it and as a text is added to it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::message::object;

/// The result of `tools/call`, its members unread.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolResult<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
    #[serde(default, rename = "isError")]
    pub(crate) is_error: bool,
}

#[derive(Debug, Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
}

/// What a tool returned.
#[derive(Debug)]
pub(crate) enum Returned<'a> {
    /// Nothing but texts.
    Text(String),
    /// Something else, as it is written.
    Raw(&'a RawValue),
    Nothing,
}

impl<'a> ToolResult<'a> {
    pub(crate) fn read(result: &'a RawValue) -> Option<Self> {
        object(result)
    }

    /// The list that a text can be added to.
    pub(crate) fn list(&self) -> Option<&'a str> {
        self.content.map(RawValue::get).filter(|list| list.starts_with('['))
    }

    pub(crate) fn returned(&self) -> Returned<'a> {
        let Some(content) = self.content else {
            return self.structured.map_or(Returned::Nothing, Returned::Raw);
        };
        let items: Option<Vec<Item<'_>>> = serde_json::from_str(content.get()).ok();
        match items {
            Some(items) if items.is_empty() => self.structured.map_or(Returned::Nothing, Returned::Raw),
            Some(items) if items.iter().all(|item| item.kind == "text") => {
                let texts: Vec<&str> = items.iter().filter_map(|item| item.text.as_deref()).collect();
                Returned::Text(texts.join("\n"))
            }
            _ => Returned::Raw(content),
        }
    }
}

/// The list with one more text at its end: what comes before its closing bracket.
pub(crate) fn addition(list: &str, text: &str) -> String {
    let inner = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or_default();
    let comma = if inner.trim().is_empty() { "" } else { "," };
    format!("{comma}{}", json!({ "type": "text", "text": text }))
}

/// An answer in place of the server's: the call was refused.
pub(crate) fn refusal(id: &RawValue, text: &str) -> String {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true, "resultType": "complete" });
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returned(result: &str) -> String {
        match ToolResult::read(serde_json::from_str(result).unwrap()).unwrap().returned() {
            Returned::Text(text) => format!("text {text}"),
            Returned::Raw(raw) => format!("raw {}", raw.get()),
            Returned::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn texts_are_a_text_and_all_else_is_itself() {
        assert_eq!(returned(r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#), "text a\nb");
        assert_eq!(returned(r#"{"content":[{"type":"image","data":"x"}]}"#), r#"raw [{"type":"image","data":"x"}]"#);
        assert_eq!(returned(r#"{"content":[],"structuredContent":{"a":1}}"#), r#"raw {"a":1}"#);
        assert_eq!(returned(r#"{"structuredContent":[1]}"#), "raw [1]");
        assert_eq!(returned(r#"{"content":"x"}"#), r#"raw "x""#);
        assert_eq!(returned("{}"), "nothing");
        assert!(ToolResult::read(serde_json::from_str("[1]").unwrap()).is_none());
    }

    #[test]
    fn a_text_is_added_behind_the_others() {
        for (list, whole) in [
            ("[]", r#"[{"text":"t","type":"text"}]"#),
            ("[ \n]", "[ \n{\"text\":\"t\",\"type\":\"text\"}]"),
            ("[1]", r#"[1,{"text":"t","type":"text"}]"#),
            ("[[]]", r#"[[],{"text":"t","type":"text"}]"#),
        ] {
            let with = format!("{}{}]", &list[..list.len() - 1], addition(list, "t"));
            assert_eq!(with, whole);
            assert!(serde_json::from_str::<serde_json::Value>(&with).is_ok());
        }
    }
}
