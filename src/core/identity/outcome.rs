//! What counts as the same answer, the same error, the same state, the same words.

use std::borrow::Cow;

use crate::event::{Message, View, json};
use crate::identity::canonical::{canonical_json, canonical_without, hash_as_text};
use crate::identity::hash::{Digest, hash_parts, hash_text};
use crate::identity::mask::MaskSet;
use crate::limits::READABLE_BYTES_MAX;

/// How outcomes are compared (page `detection`).
#[derive(Debug, Clone, Default)]
pub struct OutcomeRules {
    /// Masks that are applied to an answer before any cut.
    pub mask: MaskSet,
    /// Characters kept after masking; 0 = whole.
    pub chars: usize,
    /// Fields dropped from object results at any depth. Sorted.
    pub volatile_fields: Vec<String>,
}

/// What one tool changes about that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutcomeRules {
    /// No mask is applied: `result_mask = "none"` in the policy.
    pub is_unmasked: bool,
    /// Further fields that are dropped, sorted by name.
    pub result_ignored: Vec<String>,
}

/// Fields of an object result that hold what a person would read, in the order they are joined.
const READABLE_FIELDS: [&str; 5] = ["output", "stdout", "stderr", "content", "text"];

/// An outcome as it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// SHA-256 of `ok` or `fail` and the masked answer, a failure with its masked error text.
    pub identity: Digest,
    /// Canonical text of an answer in JSON, unmasked, where no field was dropped: [`readable_text_of`] has a use for it.
    pub canonical: Option<String>,
}

#[must_use]
pub fn outcome_identity(
    is_ok: bool,
    result: &View<'_>,
    error: Option<&str>,
    rules: &OutcomeRules,
    tool: &ToolOutcomeRules,
) -> Compared {
    let (text, is_whole) = answer_text(result, rules, tool);
    let answer = match result {
        // To a mask every hash is the same id.
        View::Sha256(_) => Cow::Borrowed(&*text),
        _ => masked(&text, rules, tool),
    };
    let identity = if is_ok {
        hash_parts(&["ok\n", &answer])
    } else {
        let error = error.unwrap_or_default();
        // Many producers send the same text as both.
        let is_answer = matches!(result, View::Text(_) | View::Json(_)) && error == &*text;
        let error = if is_answer { Cow::Borrowed(&*answer) } else { masked(error, rules, tool) };
        // With its length in front, an answer cannot run into the error behind it.
        hash_parts(&["fail\n", &answer.len().to_string(), "\n", &answer, &error])
    };
    drop(answer);
    let canonical = (matches!(result, View::Json(_)) && is_whole).then(|| text.into_owned());
    Compared { identity, canonical }
}

/// The answer before it is masked, and whether that is all of it. Nothing is as good as an empty text.
fn answer_text<'a>(result: &'a View<'_>, rules: &OutcomeRules, tool: &ToolOutcomeRules) -> (Cow<'a, str>, bool) {
    match result {
        View::Absent => (Cow::Borrowed(""), true),
        View::Sha256(hash) => (Cow::Owned(hash_as_text(*hash)), true),
        View::Text(text) => (Cow::Borrowed(&**text), true),
        View::Json(source) => {
            let (text, is_whole) = canonical_without(source, [&rules.volatile_fields, &tool.result_ignored]);
            (Cow::Owned(text), is_whole)
        }
    }
}

/// Masked, then cut: an id may lie across the cut.
fn masked<'a>(text: &'a str, rules: &OutcomeRules, tool: &ToolOutcomeRules) -> Cow<'a, str> {
    let text = if tool.is_unmasked { Cow::Borrowed(text) } else { rules.mask.apply(text) };
    cut(text, rules.chars)
}

/// The first `chars` characters; 0 = all.
fn cut(text: Cow<'_, str>, chars: usize) -> Cow<'_, str> {
    if chars == 0 || text.len() <= chars {
        return text;
    }
    let Some((end, _)) = text.char_indices().nth(chars) else { return text };
    cut_at(text, end)
}

fn cut_at(text: Cow<'_, str>, end: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..end).unwrap_or(text)),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}

/// The readable part of a result: the string; of an object its texts `output`, `stdout`, `stderr`, `content`, `text`, joined
/// by line ends; else canonical JSON. Empty where absent or hashed. At most `READABLE_BYTES_MAX`.
#[must_use]
pub fn readable_text<'a>(result: &'a View<'_>) -> Cow<'a, str> {
    readable_text_of(result, None)
}

/// The same, where the canonical text of a result in JSON may be known.
#[must_use]
pub fn readable_text_of<'a>(result: &'a View<'_>, canonical: Option<String>) -> Cow<'a, str> {
    let text = match result {
        View::Absent | View::Sha256(_) => Cow::Borrowed(""),
        View::Text(text) => Cow::Borrowed(&**text),
        View::Json(source) => readable_json(source, canonical),
    };
    if text.len() <= READABLE_BYTES_MAX {
        return text;
    }
    let end = (0..=READABLE_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    cut_at(text, end)
}

fn readable_json(source: &str, canonical: Option<String>) -> Cow<'_, str> {
    if json::is_string(source) {
        return json::unquote(source);
    }
    let mut texts: [Option<Cow<'_, str>>; READABLE_FIELDS.len()] = Default::default();
    for (key, value) in json::fields(source) {
        if let Some((_, text)) = READABLE_FIELDS.iter().zip(&mut texts).find(|(name, _)| **name == key) {
            *text = json::is_string(value).then(|| json::unquote(value));
        }
    }
    let mut present = texts.into_iter().flatten();
    let Some(first) = present.next() else { return Cow::Owned(canonical.unwrap_or_else(|| canonical_json(source))) };
    present
        .filter(|text| !text.is_empty())
        .fold(first, |joined, text| if joined.is_empty() { text } else { Cow::Owned(joined.into_owned() + "\n" + &text) })
}

/// Hash of norm(description) `|` norm(output): lower case, trimmed, white-space runs to one space.
#[must_use]
pub fn state_identity(description: &str, output: &str) -> Digest {
    hash_parts(&[&normalised(description), "|", &normalised(output)])
}

/// Hash of a message, as its producer gives it, or of its text; `None` of an empty one. Unescapes the text.
#[must_use]
pub fn text_identity(message: &Message<'_>) -> Option<Digest> {
    let of_text = || message.text().filter(|text| !text.is_empty()).map(|text| hash_text(&text));
    message.text_sha256.map(Digest).or_else(of_text)
}

fn normalised(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !normal.is_empty() {
            normal.push(' ');
        }
        push_lower_case(word, &mut normal);
    }
    normal
}

fn push_lower_case(text: &str, out: &mut String) {
    if text.is_ascii() {
        // As a whole: character by character costs many times that.
        let start = out.len();
        out.push_str(text);
        if let Some(pushed) = out.get_mut(start..) {
            pushed.make_ascii_lowercase();
        }
    } else {
        out.extend(text.chars().flat_map(char::to_lowercase));
    }
}

/// Error key: trimmed, lower case, then its first `chars` characters (0 = all). Empty texts have none.
#[must_use]
pub fn error_key(error: &str, chars: usize) -> Option<String> {
    let mut key = String::new();
    push_lower_case(error.trim(), &mut key);
    Some(cut(Cow::Owned(key), chars).into_owned()).filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{OutcomeRules, ToolOutcomeRules, error_key, outcome_identity, readable_text, readable_text_of, state_identity};
    use crate::event::{Content, View};
    use crate::identity::hash::Digest;
    use crate::identity::mask::{MaskRule, MaskSet, SHIPPED_MASKS};
    use crate::limits::READABLE_BYTES_MAX;

    fn shipped() -> MaskSet {
        let rule =
            |(pattern, replacement): &(&str, &str)| MaskRule { pattern: (*pattern).into(), replacement: (*replacement).into() };
        MaskSet::new(&SHIPPED_MASKS.iter().map(rule).collect::<Vec<_>>()).unwrap()
    }

    fn rules() -> OutcomeRules {
        OutcomeRules { mask: shipped(), chars: 0, volatile_fields: vec!["pid".into()] }
    }

    fn ok(source: &str, rules: &OutcomeRules, tool: &ToolOutcomeRules) -> Digest {
        outcome_identity(true, &Content::Raw(source).view(), None, rules, tool).identity
    }

    #[test]
    fn volatile_parts_do_not_make_an_answer_new() {
        let (rules, plain, tool) = (rules(), OutcomeRules::default(), ToolOutcomeRules::default());
        let (a, b) = (r#""batch 0198f0aa7c1e took 12 ms""#, r#""batch 0198f0aa7c1f took 1.5s""#);
        assert_eq!(ok(a, &rules, &tool), ok(b, &rules, &tool));
        assert_ne!(ok(a, &plain, &tool), ok(b, &plain, &tool));
        let unmasked = ToolOutcomeRules { is_unmasked: true, result_ignored: Vec::new() };
        assert_ne!(ok(a, &rules, &unmasked), ok(b, &rules, &unmasked));

        let (a, b) = (r#"{"x":[{"pid":1,"y":2}],"eta":5}"#, r#"{"eta":6,"x":[{"y":2,"pid":7}]}"#);
        assert_ne!(ok(a, &rules, &tool), ok(b, &rules, &tool));
        let ignoring = ToolOutcomeRules { is_unmasked: false, result_ignored: vec!["eta".into()] };
        assert_eq!(ok(a, &rules, &ignoring), ok(b, &rules, &ignoring));
    }

    #[test]
    fn the_mask_comes_before_the_cut() {
        let rules = OutcomeRules { chars: 8, ..rules() };
        let tool = ToolOutcomeRules::default();
        assert_eq!(ok("\"job 0198f0aa7c1e\"", &rules, &tool), ok("\"job 0298f0aa\"", &rules, &tool));
        assert_eq!(ok("\"größerer Text\"", &rules, &tool), ok("\"größerer\"", &rules, &tool));
        assert_ne!(ok("\"größeren Text\"", &rules, &tool), ok("\"größerer\"", &rules, &tool));
    }

    #[test]
    fn a_failure_has_its_error_and_is_no_success() {
        let (rules, tool) = (rules(), ToolOutcomeRules::default());
        let fail = |result: &str, error| outcome_identity(false, &Content::Raw(result).view(), error, &rules, &tool).identity;
        assert_ne!(fail("\"x\"", None), ok("\"x\"", &rules, &tool));
        assert_ne!(fail("\"x\"", Some("a")), fail("\"x\"", Some("b")));
        assert_ne!(fail("\"xa\"", Some("b")), fail("\"x\"", Some("ab")));
        assert_eq!(fail("\"x\"", Some("after 5 ms")), fail("\"x\"", Some("after 6 ms")));
        assert_eq!(fail("\"after 5 ms\"", Some("after 5 ms")), fail("\"after 6 ms\"", Some("after 7 ms")));
    }

    #[test]
    fn an_answer_in_json_is_read_as_it_was_compared_unless_fields_were_dropped() {
        let (rules, tool) = (rules(), ToolOutcomeRules::default());
        for (source, is_whole) in
            [(r#"{"b":1,"a":[true]}"#, true), (r#"{"b":1,"a":{"pid":7}}"#, false), (r#"[{"took":"5 ms"}]"#, true)]
        {
            let content = Content::Raw(source);
            let view = content.view();
            let compared = outcome_identity(true, &view, None, &rules, &tool);
            assert_eq!(compared.canonical.is_some(), is_whole, "{source}");
            assert_eq!(readable_text_of(&view, compared.canonical), readable_text(&view));
        }
    }

    #[test]
    fn hashes_are_compared_and_never_masked() {
        let (rules, tool) = (rules(), ToolOutcomeRules::default());
        let hashed = |byte| outcome_identity(true, &View::Sha256([byte; 32]), None, &rules, &tool).identity;
        assert_ne!(hashed(1), hashed(2));
        assert_eq!(hashed(1), hashed(1));
    }

    #[test]
    fn readable_text_is_what_a_person_would_read() {
        for (source, text) in [
            (r#""plain\ntext""#, "plain\ntext"),
            (r#"{"stderr":"e","stdout":"o","code":1}"#, "o\ne"),
            (r#"{"stdout":"","stderr":""}"#, ""),
            (r#"{"stdout":"","text":"t"}"#, "t"),
            (r#"{"stdout":"o","stderr":""}"#, "o"),
            (r#"{"content":[{"text":"t"}]}"#, r#"{"content":[{"text":"t"}]}"#),
            (r#""{\"output\": \"in\\ner\"}""#, "in\ner"),
            ("[ 1.0 ]", "[1]"),
            ("null", "null"),
        ] {
            assert_eq!(readable_text(&Content::Raw(source).view()), text, "{source}");
        }
        assert_eq!(readable_text(&View::Absent), "");
        assert_eq!(readable_text(&View::Sha256([0; 32])), "");
        let long = format!("\"x{}\"", "é".repeat(READABLE_BYTES_MAX));
        assert_eq!(readable_text(&Content::Raw(&long).view()).len(), READABLE_BYTES_MAX - 1);
    }

    #[test]
    fn a_state_is_its_words() {
        assert_eq!(state_identity(" Read  the File", "OK\n"), state_identity("read the file", "\tok"));
        assert_ne!(state_identity("a", "b"), state_identity("a b", ""));
    }

    #[test]
    fn an_error_key_is_its_beginning_in_lower_case() {
        assert_eq!(error_key("  Connection REFUSED by host", 18).as_deref(), Some("connection refused"));
        assert_eq!(error_key("Größe falsch", 3).as_deref(), Some("grö"));
        assert_eq!(error_key("Größe", 0).as_deref(), Some("größe"));
        assert_eq!(error_key(" \n", 60), None);
    }
}
