//! The live page: one document, no network, no build step.

use std::sync::LazyLock;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

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

/// Nothing from elsewhere, nothing to elsewhere, in nobody's frame.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers.
pub(crate) async fn page() -> Response {
    let mut response = answer::with_type(StatusCode::OK, "text/html; charset=utf-8", PAGE.as_str());
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
