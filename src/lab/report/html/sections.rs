//! Parts that several pages have: head, numbers, tables.

use maud::{Markup, html};
use serde_json::Value;

use crate::report::{Table, grouped};
use crate::{report::spent::Spent, report::summary::Report, report::table::head as column_head};

/// Characters of a text that stays on one line; a longer one may break anywhere.
const WORD_CHARS_MAX: usize = 32;
/// Sources named in the head.
const SOURCES_SHOWN: usize = 8;

pub(super) fn head(title: &str, line: &str, sources: &[String], is_partial: bool) -> Markup {
    html! {
        h1 { (title) }
        p { (line) }
        @if !sources.is_empty() {
            p.quiet {
                @for (at, source) in sources.iter().take(SOURCES_SHOWN).enumerate() {
                    (if at > 0 { ", " } else { "from " }) code { (source) }
                }
                @if sources.len() > SOURCES_SHOWN { " and " (sources.len() - SOURCES_SHOWN) " more" }
            }
        }
        @if is_partial { p.warn role="note" { b { "Partial:" } " it was stopped before the end of its input." } }
    }
}

pub(super) fn section(title: &str, body: &Markup) -> Markup {
    html! { section { h2 { (title) } (body) } }
}

pub(super) fn warnings(warnings: &[String]) -> Markup {
    html! { @for warning in warnings { p.warn role="note" { (warning) } } }
}

/// The numbers at the top.
pub(super) fn numbers(report: &Report) -> Markup {
    let (total, spent) = (report.total, report.in_loops);
    html! {
        dl.numbers {
            (tile("events", report.events, ""))
            (tile(if report.is_estimate { "sessions, about" } else { "sessions" }, report.sessions, ""))
            (tile("nudged or blocked", total.told, ""))
            (tile("nudges", total.commands.nudges, "nudge"))
            (tile("blocks", total.commands.blocks, "block"))
            (tile("shadow", total.commands.shadow, ""))
            (tile("calls and texts in loops", spent.calls, ""))
            @if spent.is_known() {
                (tile("tokens in loops", spent.tokens, ""))
                div { dt { "cost of loops" } dd { (dollars(spent)) } }
            }
            @if report.duplicates > 0 { (tile("duplicates", report.duplicates, "")) }
            @if report.rejected > 0 { (tile("rejected", report.rejected, "block")) }
        }
    }
}

/// A number below its name. A zero has no colour.
pub(super) fn tile(name: &str, number: u64, class: &str) -> Markup {
    html! { div { dt { (name) } dd class=[Some(class).filter(|_| number > 0)] { (grouped(number)) } } }
}

pub(super) fn dollars(spent: Spent) -> String {
    if spent.cost_micro_usd == 0 && spent.tokens > 0 {
        return "unknown".to_owned();
    }
    let cost = spent.cost_usd();
    if cost >= 100.0 { format!("${}", grouped(cost.round() as u64)) } else { format!("${cost:.2}") }
}

/// An agent and a tenant behind the name of their session, where they say something.
pub(super) fn whose(agent: &str, tenant: &str) -> Markup {
    html! {
        @if !agent.is_empty() && agent != "main" { " " span.quiet { "agent" } " " code { (agent) } }
        @if !tenant.is_empty() { " " span.quiet { "tenant" } " " code { (tenant) } }
    }
}

/// A place for a table that may be wider than the page.
fn scroll(label: &str, table: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="group" aria-label=(label) { table { (table) } } }
}

/// Detectors with a bar each, and the cost of their loops where events say it.
pub(super) fn detectors(report: &Report) -> Markup {
    let knows_cost = report.in_loops.is_known();
    let most = report.detectors.iter().map(|row| row.commands.in_force() + row.commands.shadow).max();
    let Some(most) = most else { return html! { p.quiet { "No detector said anything." } } };
    let table = html! {
        thead {
            tr {
                th { "detector" }
                th.bar aria-label="share" {}
                @for name in ["sessions", "nudges", "blocks", "shadow", "in loops"] { th.n { (name) } }
                @if knows_cost { th.n { "tokens" } th.n { "cost" } }
            }
        }
        tbody {
            @for row in &report.detectors {
                @let (commands, spent) = (row.commands, row.in_loops);
                tr {
                    th scope="row" { code { (row.detector) } }
                    td.bar { (bar(&[(commands.blocks, "b"), (commands.nudges, "u"), (commands.shadow, "s")], most.max(1))) }
                    @for number in [row.sessions, commands.nudges, commands.blocks, commands.shadow, spent.calls] {
                        td.n { (grouped(number)) }
                    }
                    @if knows_cost { td.n { (grouped(spent.tokens)) } td.n { (dollars(spent)) } }
                }
            }
        }
    };
    html! {
        (scroll("by detector", &table))
        @if report.unblocks > 0 { p.quiet { (grouped(report.unblocks)) " blocks were lifted before they expired." } }
    }
}

/// Parts of a whole, side by side.
fn bar(parts: &[(u64, &str)], whole: u64) -> Markup {
    let mut from = 0;
    let mut place = |part: u64| {
        let of_whole = |count: u64| 100.0 * count as f64 / whole as f64;
        from += part;
        (of_whole(from - part), of_whole(part))
    };
    html! {
        svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
            @for (part, class) in parts {
                @let (x, width) = place(*part);
                rect class=(class) x=(length(x)) y="0" height="8" width=(length(width)) {}
            }
        }
    }
}

/// A length or place in a drawing.
pub(super) fn length(length: f64) -> String {
    format!("{length:.2}")
}

pub(super) fn table(label: &str, table: &Table) -> Markup {
    if table.is_empty() {
        return html! { p.quiet { "Nothing." } };
    }
    let columns: Vec<(&str, bool)> = table.columns().collect();
    let class = |cell: &Value, is_number: bool| match cell {
        _ if is_number => Some("n"),
        Value::String(text) if text.chars().count() > WORD_CHARS_MAX => Some("t"),
        _ => None,
    };
    let shown = |cell: &Value| match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        cell => cell.as_u64().map_or_else(|| cell.to_string(), grouped),
    };
    let rows = html! {
        thead { tr { @for (name, is_number) in &columns { th.n[*is_number] { (column_head(name)) } } } }
        tbody {
            @for row in table.rows() {
                tr {
                    @for (cell, (_, is_number)) in row.values().zip(&columns) {
                        td class=[class(cell, *is_number)] { (shown(cell)) }
                    }
                }
            }
        }
    };
    scroll(label, &rows)
}
