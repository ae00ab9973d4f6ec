//! Parts that several pages have: head, numbers, tables.

use serde_json::Value;

use super::markup::Markup;
use crate::report::{Report, Spent, Table};

/// Characters of a text that is kept on one line; a longer one may break anywhere.
const WORD_CHARS_MAX: usize = 32;
/// Sources named in the head.
const SOURCES_SHOWN: usize = 8;

pub(super) fn head(page: &mut Markup, title: &'static str, line: &str, sources: &[String], is_partial: bool) {
    page.raw("<header>\n<h1>").raw(title).raw("</h1>\n<p>").text(line).raw("</p>\n");
    if !sources.is_empty() {
        page.raw("<p class=\"quiet\">");
        for (at, source) in sources.iter().take(SOURCES_SHOWN).enumerate() {
            page.raw(if at > 0 { ", " } else { "from " }).raw("<code>").text(source).raw("</code>");
        }
        if sources.len() > SOURCES_SHOWN {
            page.raw(" and ").number((sources.len() - SOURCES_SHOWN) as u64).raw(" more");
        }
        page.raw("</p>\n");
    }
    if is_partial {
        page.raw("<p class=\"warn\" role=\"note\"><b>Partial:</b> it was stopped before the end of its input.</p>\n");
    }
    page.raw("</header>\n<main>\n");
}

pub(super) fn section(page: &mut Markup, title: &str, body: impl FnOnce(&mut Markup)) {
    page.raw("<section>\n<h2>").text(title).raw("</h2>\n");
    body(page);
    page.raw("</section>\n");
}

pub(super) fn warnings(page: &mut Markup, warnings: &[String]) {
    for warning in warnings {
        page.raw("<p class=\"warn\" role=\"note\">").text(warning).raw("</p>\n");
    }
}

/// The numbers at the top.
pub(super) fn numbers(page: &mut Markup, report: &Report) {
    page.raw("<dl class=\"numbers\">\n");
    tile(page, "events", report.events, "");
    tile(page, if report.is_estimate { "sessions, about" } else { "sessions" }, report.sessions, "");
    tile(page, "nudged or blocked", report.counts.told(), "");
    tile(page, "nudges", report.counts.nudges(), "nudge");
    tile(page, "blocks", report.counts.blocks(), "block");
    tile(page, "shadow", report.counts.shadow(), "");
    tile(page, "calls and texts in loops", report.spent.total().calls, "");
    let spent = report.spent.total();
    if spent.is_known() {
        tile(page, "tokens in loops", spent.tokens, "");
        page.raw("<div><dt>cost of loops</dt><dd>").text(&dollars(spent)).raw("</dd></div>\n");
    }
    if report.duplicates > 0 {
        tile(page, "duplicates", report.duplicates, "");
    }
    if report.rejected > 0 {
        tile(page, "rejected", report.rejected, "block");
    }
    page.raw("</dl>\n");
}

fn tile(page: &mut Markup, name: &'static str, number: u64, class: &'static str) {
    page.raw("<div><dt>").raw(name).raw("</dt><dd class=\"").raw(if number > 0 { class } else { "" }).raw("\">");
    page.number(number).raw("</dd></div>\n");
}

pub(super) fn dollars(spent: Spent) -> String {
    if spent.cost_micro_usd == 0 && spent.tokens > 0 {
        return "unknown".to_owned();
    }
    let cost = spent.cost_usd();
    if cost >= 100.0 { format!("${}", crate::report::grouped(cost.round() as u64)) } else { format!("${cost:.2}") }
}

/// Detectors with a bar each, and what their loops cost where events say.
pub(super) fn detectors(page: &mut Markup, report: &Report) {
    let rows = report.counts.detectors();
    if rows.is_empty() {
        page.raw("<p class=\"quiet\">No detector said anything.</p>\n");
        return;
    }
    let knows_cost = report.spent.total().is_known();
    let top = rows.iter().map(|row| row.nudges + row.blocks + row.shadow).max().unwrap_or_default().max(1);
    page.raw(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"by detector\"><table>\n<thead><tr><th>detector</th>",
    );
    page.raw("<th class=\"bar\" aria-label=\"share\"></th><th class=\"n\">sessions</th><th class=\"n\">nudges</th><th class=\"n\">blocks</th><th class=\"n\">shadow</th><th class=\"n\">in loops</th>");
    if knows_cost {
        page.raw("<th class=\"n\">tokens</th><th class=\"n\">cost</th>");
    }
    page.raw("</tr></thead>\n<tbody>\n");
    for row in &rows {
        page.raw("<tr><th scope=\"row\"><code>").text(&row.name).raw("</code></th><td class=\"bar\">");
        bar(page, &[(row.blocks, "b"), (row.nudges, "u"), (row.shadow, "s")], top);
        page.raw("</td>");
        let spent = report.spent.of(&row.name);
        for number in [row.sessions, row.nudges, row.blocks, row.shadow, spent.calls] {
            page.raw("<td class=\"n\">").number(number).raw("</td>");
        }
        if knows_cost {
            page.raw("<td class=\"n\">").number(spent.tokens).raw("</td><td class=\"n\">").text(&dollars(spent)).raw("</td>");
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>\n");
    if report.counts.unblocks() > 0 {
        page.raw("<p class=\"quiet\">").number(report.counts.unblocks()).raw(" blocks were lifted before they expired.</p>\n");
    }
}

/// Parts of a whole, one behind the other.
fn bar(page: &mut Markup, parts: &[(u64, &'static str)], top: u64) {
    page.raw("<svg viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
    let mut from = 0.0;
    for (part, class) in parts {
        let width = 100.0 * *part as f64 / top as f64;
        page.raw("<rect class=\"")
            .raw(class)
            .raw("\" x=\"")
            .length(from)
            .raw("\" y=\"0\" height=\"8\" width=\"")
            .length(width)
            .raw("\"/>");
        from += width;
    }
    page.raw("</svg>");
}

/// Any table.
pub(super) fn table(page: &mut Markup, label: &'static str, table: &Table) {
    if table.is_empty() {
        page.raw("<p class=\"quiet\">Nothing.</p>\n");
        return;
    }
    page.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"").raw(label).raw("\"><table>\n<thead><tr>");
    for column in table.columns() {
        page.raw(if column.is_number { "<th class=\"n\">" } else { "<th>" }).text(&column.head()).raw("</th>");
    }
    page.raw("</tr></thead>\n<tbody>\n");
    for row in table.rows() {
        page.raw("<tr>");
        for (column, cell) in table.columns().iter().zip(row) {
            page.raw(match cell {
                _ if column.is_number => "<td class=\"n\">",
                Value::String(text) if text.chars().count() > WORD_CHARS_MAX => "<td class=\"t\">",
                _ => "<td>",
            });
            match cell {
                Value::Null => {}
                Value::String(text) => {
                    page.text(text);
                }
                Value::Number(number) => match number.as_u64() {
                    Some(number) => {
                        page.number(number);
                    }
                    None => {
                        page.text(&number.to_string());
                    }
                },
                other => {
                    page.text(&other.to_string());
                }
            }
            page.raw("</td>");
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>\n");
}
