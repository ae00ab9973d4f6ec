//! The live page: one file, no network, no build step.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::http::answer;

const PAGE: &str = include_str!("page.html");

/// Nothing from elsewhere, nothing to elsewhere, in nobody's frame.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers.
pub(super) async fn page() -> Response {
    let mut response = answer::with_type(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
