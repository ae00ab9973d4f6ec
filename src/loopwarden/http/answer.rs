//! Answers: JSON and text, errors in one form, work that blocks.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use loopwarden_log::LogError;
use serde::Serialize;
use serde_json::json;
use tokio::{sync::Semaphore, time::timeout};

use crate::{http::backlog::Full, operate::lanes::Unanswered};

/// Wait for a thread that may block.
const TURN_WAIT: Duration = Duration::from_secs(5);

pub(crate) fn with_type(status: StatusCode, media: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

pub(crate) fn json_text(status: StatusCode, mut text: String) -> Response {
    // People look at it with curl.
    text.push('\n');
    with_type(status, "application/json", text)
}

pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => json_text(status, text),
        Err(error) => self::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

pub(crate) fn ok(value: &impl Serialize) -> Response {
    json(StatusCode::OK, value)
}

pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    with_type(status, "text/plain; charset=utf-8", text.into())
}

/// Metrics.
pub(crate) fn open_metrics(text: String) -> Response {
    with_type(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
}

/// An answer that ends a request before it is done. Boxed: it travels through many results, and is rare.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Response>);

impl From<Response> for Refusal {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

impl From<Unanswered> for Refusal {
    fn from(why: Unanswered) -> Self {
        later(StatusCode::SERVICE_UNAVAILABLE, "no_answer", why.to_string(), 1).into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        *self.0
    }
}

/// What an error says, kept beside its body for routes whose errors have another form.
#[derive(Debug, Clone)]
struct ErrorText {
    word: String,
    message: String,
}

/// An error: a word for programs, a sentence for people.
pub(crate) fn error(status: StatusCode, word: &str, message: impl AsRef<str>) -> Response {
    let message = message.as_ref();
    let mut response = json(status, &json!({ "error": word, "message": message }));
    response.extensions_mut().insert(ErrorText { word: word.to_owned(), message: message.to_owned() });
    response
}

/// The sentence of an error of this form.
pub(crate) fn sentence(response: &Response) -> &str {
    response.extensions().get::<ErrorText>().map_or("", |said| &said.message)
}

/// An error of this form as a problem (RFC 9457), with its status and headers. Anything else as it is.
pub(crate) fn as_problem(mut response: Response) -> Response {
    let Some(ErrorText { word, message }) = response.extensions_mut().remove::<ErrorText>() else { return response };
    let body = problem_body(response.status(), &word, &message, "");
    *response.body_mut() = body.into();
    let media = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response
}

/// A problem with a field of the body, named by its JSON pointer.
pub(crate) fn problem(status: StatusCode, word: &str, message: &str, pointer: &str) -> Response {
    with_type(status, "application/problem+json", problem_body(status, word, message, pointer))
}

fn problem_body(status: StatusCode, word: &str, message: &str, pointer: &str) -> String {
    let mut problem = json!({
        "type": format!("urn:loopwarden:problem:{word}"),
        "title": word,
        "status": status.as_u16(),
        "detail": message,
    });
    if let (Some(object), false) = (problem.as_object_mut(), pointer.is_empty()) {
        object.insert("pointer".to_owned(), pointer.into());
    }
    problem.to_string() + "\n"
}

/// Come again.
pub(crate) fn later(status: StatusCode, word: &str, message: impl AsRef<str>, seconds: u32) -> Response {
    let mut response = error(status, word, message);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// The log could not be read: what it comes to for whoever asked, and a line of the process's own log where no trying again helps.
pub(crate) fn unread(failed: &LogError) -> Response {
    if let LogError::Transient(cause) = failed {
        return later(StatusCode::SERVICE_UNAVAILABLE, "not_durable", cause, 1);
    }
    note_unread(failed);
    error(StatusCode::SERVICE_UNAVAILABLE, "log_failed", failed.to_string())
}

/// A read failed whose answer has begun, or has no place for it.
pub(crate) fn note_unread(error: &LogError) {
    tracing::error!(%error, "the log cannot be read");
}

/// Too many events wait to be judged.
pub(crate) fn full(full: Full) -> Response {
    let (word, message) = match full {
        Full::Behind(late_ms) => {
            let seconds = late_ms / 1_000;
            ("behind", format!("E0703: events are judged {seconds} s late (http.intake_lag_ms_max); send them again later"))
        }
        Full::Share(most) => (
            "share_full",
            format!(
                "E0703: too many events of this sender wait to be judged (http.intake_share_ms_max); send them again later, at most {most} \
                 at once"
            ),
        ),
    };
    later(StatusCode::TOO_MANY_REQUESTS, word, message, 1)
}

pub(crate) fn busy() -> Response {
    later(StatusCode::SERVICE_UNAVAILABLE, "busy", "the process is busy with other requests", 1)
}

pub(crate) fn bad_request(message: impl AsRef<str>) -> Response {
    error(StatusCode::BAD_REQUEST, "bad_request", message)
}

pub(crate) fn embedded_only() -> Response {
    error(
        StatusCode::NOT_FOUND,
        "embedded_only",
        "this process reads events from Kafka and writes commands to Kafka; /v1 exists in embedded mode only, without kafka.bootstrap_servers",
    )
}

pub(crate) async fn not_found() -> Response {
    error(StatusCode::NOT_FOUND, "not_found", "there is no such route")
}

/// A refusal of the router itself, empty or plain text, in the form of all others.
pub(crate) fn in_form(response: Response) -> Response {
    let in_words = ["application/json", "application/problem+json", "application/x-protobuf"];
    let is_said = response.headers().get(header::CONTENT_TYPE).is_some_and(|media| in_words.iter().any(|words| media == words));
    match response.status() {
        status @ StatusCode::METHOD_NOT_ALLOWED if !is_said => {
            error(status, "wrong_method", "this route has other methods; the header Allow names them")
        }
        StatusCode::BAD_REQUEST if !is_said => bad_request("the path is no percent-encoded UTF-8 text"),
        _ => response,
    }
}

/// Does something that blocks, on a thread for that; `gate` bounds how many do at once.
pub(crate) async fn blocking<T: Send + 'static>(
    gate: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let Ok(Ok(turn)) = timeout(TURN_WAIT, Arc::clone(gate).acquire_owned()).await else {
        return Err(busy().into());
    };
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    // A panic in there is a defect; the client is told, and the process goes on.
    done.await.map_err(|_| error(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the request could not be answered").into())
}
