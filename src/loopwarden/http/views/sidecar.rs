//! Health and metrics of a guard beside an agent.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};

use crate::{http::answer, http::shared::Sidecar};

/// It answers: that is all there is to it.
pub(crate) async fn livez() -> Response {
    answer::text(StatusCode::OK, "ok\n")
}

/// Whether its verdicts are of now.
pub(crate) async fn readyz(State(sidecar): State<Arc<Sidecar>>) -> Response {
    if sidecar.desk.is_fresh() {
        answer::text(StatusCode::OK, "ok\n")
    } else {
        answer::text(StatusCode::SERVICE_UNAVAILABLE, "no fresh verdicts: every call is let through\n")
    }
}

/// OpenMetrics.
pub(crate) async fn metrics(State(sidecar): State<Arc<Sidecar>>) -> Response {
    answer::open_metrics((sidecar.metrics)())
}
