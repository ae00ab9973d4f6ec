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

macro_rules! pages {
    ($($code:literal)+) => {
        &[$(Page { code: $code, text: include_str!(concat!("../../docs/errors/", $code, ".md")) }),+]
    };
}

/// All pages in the order of their codes.
pub const PAGES: &[Page] = pages! {
    "E0101" "E0102" "E0103" "E0104" "E0105" "E0106"
    "E0201" "E0202" "E0207" "E0208" "E0209"
    "E0301" "E0302"
    "E0401" "E0402" "E0403" "E0404" "E0405" "E0406"
    "E0501" "E0502" "E0503" "E0504"
    "E0601" "E0602"
    "E0701" "E0702" "E0703"
    "W0301" "W0302" "W0303" "W0304" "W0305" "W0306" "W0307" "W0308" "W0309" "W0310"
    "W0401"
    "W0701" "W0702" "W0703"
};

/// The page of a code, in upper or lower case, with or without brackets: `E0102`, `e0102`, `error[E0102]`.
pub fn explain(code: &str) -> Option<&'static Page> {
    let code = code.trim().trim_start_matches("error").trim_start_matches("warning").trim_matches(['[', ']']);
    PAGES.iter().find(|page| page.code.eq_ignore_ascii_case(code))
}
