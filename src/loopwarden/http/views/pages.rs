//! The pages of this version as Markdown, for agents and for people without a network. They link to one another as they do in the repository.

use std::fmt::Write as _;

use axum::{extract::Path, http::StatusCode, response::Response};
use loopwarden_settings::explain;

use crate::http::answer;

const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// A page of `src/docs`, as it was when this program was built.
#[derive(Debug)]
pub struct Page {
    /// Name of its file, without what stands behind the dot.
    pub name: &'static str,
    text: &'static str,
}

const fn page(name: &'static str, text: &'static str) -> Page {
    Page { name, text }
}

/// All pages by their names; those of errors are with `explain`.
pub const PAGES: [Page; 23] = [
    page("agents", include_str!("../../../docs/agents.md")),
    page("architecture", include_str!("../../../docs/architecture.md")),
    page("authentication", include_str!("../../../docs/authentication.md")),
    page("commit", include_str!("../../../docs/commit.md")),
    page("concepts", include_str!("../../../docs/concepts.md")),
    page("decisions", include_str!("../../../docs/decisions.md")),
    page("detection", include_str!("../../../docs/detection.md")),
    page("events", include_str!("../../../docs/events.md")),
    page("guarantees", include_str!("../../../docs/guarantees.md")),
    page("guard", include_str!("../../../docs/guard.md")),
    page("http", include_str!("../../../docs/http.md")),
    page("ingest", include_str!("../../../docs/ingest.md")),
    page("learning", include_str!("../../../docs/learning.md")),
    page("metrics", include_str!("../../../docs/metrics.md")),
    page("operate", include_str!("../../../docs/operate.md")),
    page("operations", include_str!("../../../docs/operations.md")),
    page("performance", include_str!("../../../docs/performance.md")),
    page("policies", include_str!("../../../docs/policies.md")),
    page("reference", include_str!("../../../docs/reference.md")),
    page("replay", include_str!("../../../docs/replay.md")),
    page("state", include_str!("../../../docs/state.md")),
    page("webhooks", include_str!("../../../docs/webhooks.md")),
    page("workers", include_str!("../../../docs/workers.md")),
];

/// Their list, with the title of each.
pub(crate) async fn list() -> Response {
    let mut text = concat!("# loopwarden ", env!("CARGO_PKG_VERSION"), "\n\n").to_owned();
    for Page { name, text: page } in PAGES {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- [{}]({name}.md)", title(page));
    }
    text.push_str("\n## Errors and warnings\n\n");
    for page in loopwarden_settings::PAGES {
        let _ = writeln!(text, "- [{}](errors/{}.md)", title(page.text), page.code);
    }
    answer::with_type(StatusCode::OK, MARKDOWN, text)
}

fn title(page: &str) -> &str {
    page.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default()
}

/// One of them, by its file.
pub(crate) async fn one(Path(file): Path<String>) -> Response {
    let found = file.strip_suffix(".md").and_then(|name| PAGES.iter().find(|page| page.name == name));
    answered(found.map(|page| page.text))
}

/// The page of an error, by its file.
pub(crate) async fn error(Path(file): Path<String>) -> Response {
    answered(file.strip_suffix(".md").and_then(explain).map(|page| page.text))
}

fn answered(text: Option<&'static str>) -> Response {
    match text {
        Some(text) => answer::with_type(StatusCode::OK, MARKDOWN, text),
        None => answer::error(StatusCode::NOT_FOUND, "not_found", "there is no such page; /docs/ lists them"),
    }
}
