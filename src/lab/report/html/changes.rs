//! What another policy changes, and for whom.

use super::markup::Markup;
use super::shared;
use crate::report::{Change, Comparison};

pub(super) fn sections(page: &mut Markup, comparison: &Comparison) {
    page.raw("<dl class=\"numbers\">\n");
    for change in Change::ALL {
        page.raw("<div><dt>").raw(change.words()).raw("</dt><dd>").number(comparison.agents.get(change)).raw("</dd></div>\n");
    }
    page.raw("<div><dt>the same</dt><dd>").number(comparison.agents.same).raw("</dd></div>\n</dl>\n");
    page.raw("<p class=\"quiet\">Sessions and swarms, each agent by the gravest thing said to it.</p>\n");
    if comparison.left_out > 0 {
        page.raw("<p class=\"warn\" role=\"note\">").number(comparison.left_out);
        page.raw(" commands were beyond what is kept for a comparison: it is not complete.</p>\n");
    }
    shared::section(page, "By detector and by tool", |page| shared::table(page, "changes", &comparison.table()));
    shared::section(page, "Examples", |page| {
        if comparison.examples.is_empty() {
            page.raw("<p class=\"quiet\">Nothing changes for anybody.</p>\n");
        }
        let mut last = None;
        for example in &comparison.examples {
            let kind = (example.change, example.detector.as_str());
            if last != Some(kind) {
                page.raw(if last.is_some() { "</ul>\n<h3>" } else { "<h3>" }).raw(example.change.words());
                page.raw(" by <code>").text(&example.detector).raw("</code></h3>\n<ul class=\"plain\">\n");
                last = Some(kind);
            }
            page.raw("<li><code>").text(&example.subject).raw("</code>");
            if !example.agent.is_empty() && example.agent != "main" {
                page.raw(" <span class=\"quiet\">agent</span> <code>").text(&example.agent).raw("</code>");
            }
            if !example.tenant.is_empty() {
                page.raw(" <span class=\"quiet\">tenant</span> <code>").text(&example.tenant).raw("</code>");
            }
            page.raw("<br><span class=\"quiet\">").text(&example.summary).raw("</span></li>\n");
        }
        if last.is_some() {
            page.raw("</ul>\n");
        }
    });
}
