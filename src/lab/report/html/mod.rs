//! Reports as one self-contained page: no script, no network, light and dark, fit for a telephone and for paper.
//!
//! Names of sessions, agents and tools come from agents and may be hostile: `Markup` takes foreign text in one way
//! only, escaped, and the page forbids scripts besides.

mod changes;
mod markup;
mod plane;
mod shared;
mod strips;
mod timeline;

pub use markup::BEGINNING;
use markup::Markup;

use crate::report::{Comparison, Judgement, Report, Sweep};

/// Tools in the table; the rest is summed.
const TOOLS_SHOWN: usize = 30;
/// Swarms in the table.
const SWARMS_SHOWN: usize = 30;
/// Lines that are no events, named.
const REJECTIONS_SHOWN: usize = 20;

/// What a replay found.
#[must_use]
pub fn report(report: &Report) -> String {
    let mut page = Markup::page("loopwarden: replay");
    shared::head(&mut page, "What it would have done", &report.headline(), &report.sources, report.is_partial);
    shared::numbers(&mut page, report);
    shared::warnings(&mut page, &report.blind_spots);
    timeline::section(&mut page, report);
    page.raw("<div class=\"pair\">");
    shared::section(&mut page, "By detector", |page| shared::detectors(page, report));
    if let Some(judgement) = &report.judgement {
        shared::section(&mut page, "Against labels and outcomes", |page| judged(page, judgement));
    }
    page.raw("</div>");
    strips::section(&mut page, report);
    swarms(&mut page, report);
    shared::section(&mut page, "By tool", |page| {
        shared::table(page, "calls, and commands about them", &report.tools.table(TOOLS_SHOWN));
    });
    rejections(&mut page, report);
    page.finish()
}

/// One policy against another.
#[must_use]
pub fn comparison(now: &Report, before: &Report, comparison: &Comparison) -> String {
    let mut page = Markup::page("loopwarden: two policies");
    let line = format!("policy {} against {}", now.policy(), before.policy());
    shared::head(&mut page, "What would change", &line, &now.sources, now.is_partial || before.is_partial);
    changes::sections(&mut page, comparison);
    page.raw("<div class=\"pair\">");
    for (title, side) in [("With", now), ("Against", before)] {
        shared::section(&mut page, title, |page| {
            page.raw("<p class=\"quiet\">").text(&side.headline()).raw("</p>");
            shared::detectors(page, side);
            if let Some(judgement) = &side.judgement {
                judged(page, judgement);
            }
        });
    }
    page.raw("</div>");
    page.finish()
}

/// Thresholds swept.
#[must_use]
pub fn sweep(sweep: &Sweep) -> String {
    let mut page = Markup::page("loopwarden: thresholds");
    let mut line = format!("{} policies, begun from {}", sweep.points.len(), sweep.profile);
    for set in sweep.shared() {
        line.push_str(", ");
        line.push_str(&set);
    }
    shared::head(&mut page, "Loops found against false alarms", &line, &sweep.sources, sweep.is_partial);
    shared::warnings(&mut page, &sweep.notes);
    page.raw("<div class=\"pair\">");
    for plot in sweep.plots() {
        shared::section(&mut page, &plot.x_name, |page| plane::draw(page, &plot));
    }
    page.raw("</div>");
    shared::section(&mut page, "Every policy", |page| shared::table(page, "a row per policy", &sweep.table()));
    page.finish()
}

fn judged(page: &mut Markup, judgement: &Judgement) {
    let (labelled, found) = judgement.loops;
    if labelled + judgement.look_alikes.0 > 0 {
        shared::table(page, "labelled stretches", &judgement.table());
    }
    page.raw("<details><summary>In words</summary><pre>").text(&judgement.to_text()).raw("</pre></details>");
    if labelled > 0 && found == labelled {
        page.raw("<p>Every labelled loop was found.</p>");
    }
}

/// Loops that no session of a swarm can see by itself.
fn swarms(page: &mut Markup, report: &Report) {
    if report.swarms.is_empty() {
        return;
    }
    shared::section(page, "Swarms that loop", |page| {
        page.raw("<p class=\"quiet\">The same call, again and again, by several agents of one swarm: the most calls and agents that one command counted.</p>\n");
        shared::table(page, "swarms, the call that goes round, and commands", &report.swarms.table(SWARMS_SHOWN));
        let more = report.swarms.left_out(SWARMS_SHOWN);
        if more > 0 {
            page.raw("<p class=\"quiet\">and ").number(more).raw(" more</p>\n");
        }
    });
}

fn rejections(page: &mut Markup, report: &Report) {
    if report.rejected == 0 {
        return;
    }
    shared::section(page, "Lines that are no events", |page| {
        page.raw("<ul class=\"plain\">");
        for rejection in report.rejections.iter().take(REJECTIONS_SHOWN) {
            page.raw("<li><code>").text(&rejection.file).raw(":").number(rejection.line).raw("</code> ");
            page.text(&rejection.reason).raw("</li>");
        }
        page.raw("</ul>");
        let more = report.rejected.saturating_sub(report.rejections.len().min(REJECTIONS_SHOWN) as u64);
        if more > 0 {
            page.raw("<p class=\"quiet\">and ").number(more).raw(" more</p>");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Said;
    use crate::report::said::tests::said;

    #[test]
    fn a_name_is_never_markup() {
        let evil = "</title><script>alert(1)</script>'\"&\u{202e}\u{1b}";
        let mut hostile = Report { sources: vec![evil.to_owned()], ..Report::default() };
        hostile.tools.row(evil).calls = 1;
        hostile.rejected = 1;
        hostile.rejections.push(crate::report::Rejection { file: evil.to_owned(), line: 1, reason: evil.to_owned() });
        hostile.blind_spots.push(evil.to_owned());
        let mut found = crate::report::Loop::default();
        (found.session, found.agent) = (evil.to_owned(), evil.to_owned());
        let tool = found.strip.tool(evil);
        for sequence in 0..3 {
            found.strip.push(crate::report::Cell { sequence, call: 7, tool, ..Default::default() });
        }
        hostile.loops.push(found);
        let command =
            Said { tool: Some(evil.to_owned()), summary: evil.to_owned(), ..said(evil, "stuck", crate::report::Deed::Block) };
        let tool = Some(evil.to_owned());
        hostile.swarms.note(&Said { is_swarm: true, tool, ..said(evil, "swarm_repeat", crate::report::Deed::Nudge) });
        let mut fates = crate::report::Fates::default();
        fates.note(&command);
        let compared = Comparison::of(&crate::report::Fates::default(), &fates);
        for page in [report(&hostile), comparison(&hostile, &hostile, &compared)] {
            assert!(!page.contains("<script"), "{page}");
            assert!(page.matches("&lt;script&gt;alert(1)&lt;/script&gt;&#39;&quot;&amp;\u{fffd}\u{fffd}").count() >= 4, "{page}");
            assert!(!page.contains('\u{202e}') && page.matches("</title>").count() == page.matches("<title>").count());
            for outside in ["http:", "https:", "src=", "@import"] {
                assert!(!page.contains(outside), "{outside}");
            }
        }
    }

    #[test]
    fn a_report_about_nothing_is_a_page() {
        let page = report(&Report::default());
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(sweep(&Sweep { is_partial: true, ..Sweep::default() }).contains("before the end"));
    }
}
