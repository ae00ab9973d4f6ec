//! Single arguments of a call, read from its JSON source.

use std::borrow::Cow;

use crate::event::Content;
use crate::event::View;
use crate::event::json;

/// Text of the first of `names` that is a top-level argument holding text.
#[must_use]
pub fn argument_text(args: &Content<'_>, names: &[&str]) -> Option<String> {
    let View::Json(source) = args.view() else { return None };
    names.iter().find_map(|name| {
        let (_, value) = json::fields(&source).filter(|(key, _)| key == name).last()?;
        json::is_string(value).then(|| json::unquote(value).into_owned())
    })
}

/// Names of the top-level arguments, in the order written; at most `most`.
#[must_use]
pub fn argument_names(args: &Content<'_>, most: usize) -> Vec<String> {
    match args.view() {
        View::Json(source) if source.trim_start().starts_with('{') => {
            json::fields(&source).map(|(key, _): (Cow<'_, str>, _)| key.into_owned()).take(most).collect()
        }
        _ => Vec::new(),
    }
}
