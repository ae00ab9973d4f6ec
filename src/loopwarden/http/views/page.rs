//! The live page: one document, no network, no build step.

use std::sync::LazyLock;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

use crate::http::answer;

/// The document with its style and its scripts inside: the policy below lets nothing be asked for.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let parts = [
        ("/* page.css */", include_str!("page/page.css")),
        ("// session.js", include_str!("page/session.js")),
        ("// answer.js", include_str!("page/answer.js")),
        ("// bill.js", include_str!("page/bill.js")),
        ("// sessions.js", include_str!("page/sessions.js")),
        ("// page.js", include_str!("page/page.js")),
    ];
    let put = |page: String, (place, part): (&str, &str)| page.replacen(place, part, 1);
    parts.into_iter().fold(include_str!("page/page.html").to_owned(), put)
});

/// Nothing from elsewhere, nothing to elsewhere, in nobody's frame; and of scripts and styles those of the document alone, by their hashes.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let (style, script) = (hash(&PAGE, "style"), hash(&PAGE, "script"));
    let policy = format!(
        "default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    );
    // It is letters and signs of ASCII. Were it not, nothing would run.
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// The source that is the text of the document's only element of this name.
fn hash(page: &str, element: &str) -> String {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let text = page.split_once(&open).and_then(|(_, rest)| rest.split_once(&close)).map_or("", |(text, _)| text);
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// Answers.
pub(crate) async fn page() -> Response {
    let mut response = answer::with_type(StatusCode::OK, "text/html; charset=utf-8", PAGE.as_str());
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_runs_its_own_script_and_no_other() {
        let policy = POLICY.to_str().expect("text");
        assert!(!policy.contains("unsafe") && policy.matches("'sha256-").count() == 2, "{policy}");
        assert_eq!((PAGE.matches("<script").count(), PAGE.matches("<style").count()), (1, 1));
        // Handlers and styles of single elements have no hash.
        assert!(![" onclick=", " onload=", " style=", "javascript:"].iter().any(|part| PAGE.contains(part)));
        assert_eq!(hash("<p><script>alert(1)</script>", "script"), "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='");
    }
}
