//! Reports as one self-contained page: no script, no network, light and dark, for telephones and paper.
//!
//! Names of sessions, agents and tools may be hostile. The templates escape every value, and the page forbids scripts.

mod changes;
mod loops;
mod page;
mod sections;
mod timeline;

use maud::{Markup, html};
pub use page::BEGINNING;
use page::page;
use sections::{detectors, head, numbers, section, table, warnings};

use crate::report::{Table, grouped};
use crate::{
    report::compare::Comparison, report::judge::Judgement, report::summary::Report, report::sweep::Sweep, report::trial::TrialRow,
};

/// Tools in the table; the rest is one row.
const TOOLS_SHOWN: usize = 30;
const SWARMS_SHOWN: usize = 30;
/// Rejected lines that are listed.
const REJECTIONS_SHOWN: usize = 20;

/// The page of a replay.
pub fn report(report: &Report) -> String {
    let header = head("What it would have done", &report.headline(), &report.sources, report.is_partial);
    let main = html! {
        (numbers(report))
        @for line in report.bill() { p.quiet { (line) } }
        (warnings(&report.blind_spots))
        (timeline::over_time(&report.timeline))
        div.pair {
            (section("By detector", &detectors(report)))
            @if let Some(judgement) = &report.judgement { (section("Against labels and outcomes", &judged(judgement))) }
        }
        (section("Sessions that loop most", &loops::cards(&report.loops)))
        @if !report.swarms.is_empty() { (section("Swarms that loop", &swarms(report))) }
        (section("By tool", &table("calls, and commands about them", &Table::of(report.tools.rows(TOOLS_SHOWN)))))
        @if !report.trial.is_empty() { (section("Trial", &trial(report))) }
        @if report.rejected > 0 { (section("Lines that are no events", &rejections(report))) }
    };
    page("loopwarden: replay", &header, &main)
}

/// The page of one policy against another.
pub fn comparison(now: &Report, before: &Report, comparison: &Comparison) -> String {
    let line = format!("policy {} against {}", now.policy(), before.policy());
    let header = head("What would change", &line, &now.sources, now.is_partial || before.is_partial);
    let side = |side: &Report| {
        html! {
            p.quiet { (side.headline()) }
            (detectors(side))
            @if let Some(judgement) = &side.judgement { (judged(judgement)) }
        }
    };
    let main = html! {
        (changes::sections(comparison))
        div.pair { (section("With", &side(now))) (section("Against", &side(before))) }
    };
    page("loopwarden: two policies", &header, &main)
}

/// The page of thresholds swept.
pub fn sweep(sweep: &Sweep) -> String {
    let header = head("Loops found against false alarms", &sweep.headline(), &sweep.sources, sweep.is_partial);
    let main = html! {
        (warnings(&sweep.notes))
        (section("Every policy", &table("a row per policy", &sweep.table())))
    };
    page("loopwarden: thresholds", &header, &main)
}

fn judged(judgement: &Judgement) -> Markup {
    let loops = judgement.quality().loops;
    let is_complete = loops.of > 0 && loops.hit == loops.of;
    html! {
        @if judgement.has_labels() { (table("labelled stretches", &Table::of(judgement.rows()))) }
        details { summary { "In words" } pre { (judgement.to_text()) } }
        @if is_complete { p { "Every labelled loop was found." } }
    }
}

/// Loops that no session of a swarm shows by itself.
fn swarms(report: &Report) -> Markup {
    let rows = Table::of(report.swarms.rows(SWARMS_SHOWN));
    html! {
        p.quiet {
            "The same call, again and again, by several agents of one swarm: the most calls and agents that one command counted."
        }
        (table("swarms, the call that goes round, and commands", &rows))
        (more(report.swarms.left_out(SWARMS_SHOWN)))
    }
}

/// What commands are worth, by the sessions that were only watched.
fn trial(report: &Report) -> Markup {
    html! {
        p.quiet { "Agents from their first command on: means, and intervals of their differences that hold at every look." }
        (table("arms of the trial", &Table::of(report.trial.iter().map(TrialRow::line))))
    }
}

fn rejections(report: &Report) -> Markup {
    let shown = report.rejections.iter().take(REJECTIONS_SHOWN);
    html! {
        ul.plain {
            @for rejection in shown.clone() {
                li { code { (rejection.file) ":" (grouped(rejection.line)) } " " (rejection.reason) }
            }
        }
        (more(report.rejected.saturating_sub(shown.len() as u64)))
    }
}

/// The number of things that are not shown.
fn more(number: u64) -> Markup {
    html! { @if number > 0 { p.quiet { "and " (grouped(number)) " more" } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CommandKind, PublishedCommand};
    use crate::{
        report::call_timeline::CallCell, report::command::tests::command, report::compare::SessionOutcomes, report::loops::Loop,
        report::summary::Rejection,
    };

    #[test]
    fn a_name_is_never_markup() {
        let evil = "</title><script>alert(1)</script>'\"&\u{202e}\u{1b}".to_owned();
        let (session, agent, tool) = (evil.clone(), evil.clone(), Some(evil.clone()));
        let mut found = Loop { session, agent, ..Loop::default() };
        for sequence in 0..3 {
            found.calls.push(CallCell { sequence, call: 7, tool: Some(evil.as_str().into()), ..CallCell::default() });
        }
        let rejection = Rejection { file: evil.clone(), line: 1, reason: evil.clone() };
        let mut hostile = Report {
            sources: vec![evil.clone()],
            blind_spots: vec![evil.clone()],
            rejected: 1,
            rejections: vec![rejection],
            loops: vec![found],
            ..Report::default()
        };
        hostile.tools.counts(&evil).calls = 1;
        let to_swarm = command(&evil, "swarm_repeat", CommandKind::Nudge);
        hostile.swarms.note(&PublishedCommand { is_swarm: true, tool: tool.clone(), ..to_swarm });
        let mut outcomes = SessionOutcomes::default();
        outcomes.note(&PublishedCommand { tool, summary: evil.clone(), ..command(&evil, "stuck", CommandKind::Block) });
        let compared = Comparison::of(&SessionOutcomes::default(), &outcomes);
        for page in [report(&hostile), comparison(&hostile, &hostile, &compared)] {
            assert!(!page.contains("<script"), "{page}");
            assert!(page.matches("&lt;script&gt;alert(1)&lt;/script&gt;'&quot;&amp;\u{fffd}\u{fffd}").count() >= 4, "{page}");
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
