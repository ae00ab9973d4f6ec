//! A page per error code, embedded: what happened, and what to do. Codes are never reused.

/// The page of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Code of the error, as `E0102`.
    pub code: &'static str,
    /// Markdown; the first line is `# E0102: title`.
    pub text: &'static str,
}

impl Page {
    /// What it is about, in a few words.
    pub fn title(&self) -> &'static str {
        let first = self.text.lines().next().unwrap_or_default();
        first.split_once(": ").map_or(first, |(_, title)| title)
    }
}

const fn page(code: &'static str, text: &'static str) -> Page {
    Page { code, text }
}

/// All pages in the order of their codes.
pub const PAGES: &[Page] = &[
    page("E0101", include_str!("../../docs/errors/E0101.md")),
    page("E0102", include_str!("../../docs/errors/E0102.md")),
    page("E0103", include_str!("../../docs/errors/E0103.md")),
    page("E0104", include_str!("../../docs/errors/E0104.md")),
    page("E0105", include_str!("../../docs/errors/E0105.md")),
    page("E0106", include_str!("../../docs/errors/E0106.md")),
    page("E0201", include_str!("../../docs/errors/E0201.md")),
    page("E0202", include_str!("../../docs/errors/E0202.md")),
    page("E0207", include_str!("../../docs/errors/E0207.md")),
    page("E0208", include_str!("../../docs/errors/E0208.md")),
    page("E0209", include_str!("../../docs/errors/E0209.md")),
    page("E0301", include_str!("../../docs/errors/E0301.md")),
    page("E0302", include_str!("../../docs/errors/E0302.md")),
    page("E0401", include_str!("../../docs/errors/E0401.md")),
    page("E0402", include_str!("../../docs/errors/E0402.md")),
    page("E0403", include_str!("../../docs/errors/E0403.md")),
    page("E0404", include_str!("../../docs/errors/E0404.md")),
    page("E0405", include_str!("../../docs/errors/E0405.md")),
    page("E0406", include_str!("../../docs/errors/E0406.md")),
    page("E0501", include_str!("../../docs/errors/E0501.md")),
    page("E0502", include_str!("../../docs/errors/E0502.md")),
    page("E0503", include_str!("../../docs/errors/E0503.md")),
    page("E0504", include_str!("../../docs/errors/E0504.md")),
    page("E0601", include_str!("../../docs/errors/E0601.md")),
    page("E0602", include_str!("../../docs/errors/E0602.md")),
    page("E0701", include_str!("../../docs/errors/E0701.md")),
    page("E0702", include_str!("../../docs/errors/E0702.md")),
    page("E0703", include_str!("../../docs/errors/E0703.md")),
    page("W0301", include_str!("../../docs/errors/W0301.md")),
    page("W0302", include_str!("../../docs/errors/W0302.md")),
    page("W0303", include_str!("../../docs/errors/W0303.md")),
    page("W0304", include_str!("../../docs/errors/W0304.md")),
    page("W0305", include_str!("../../docs/errors/W0305.md")),
    page("W0306", include_str!("../../docs/errors/W0306.md")),
    page("W0307", include_str!("../../docs/errors/W0307.md")),
    page("W0308", include_str!("../../docs/errors/W0308.md")),
    page("W0309", include_str!("../../docs/errors/W0309.md")),
];

/// The page of a code, in upper or lower case, with or without brackets: `E0102`, `e0102`, `error[E0102]`.
pub fn explain(code: &str) -> Option<&'static Page> {
    let code = code.trim().trim_start_matches("error").trim_start_matches("warning").trim_matches(['[', ']']);
    PAGES.iter().find(|page| page.code.eq_ignore_ascii_case(code))
}
