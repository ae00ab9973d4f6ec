//! The sessions that loop most, each with its calls as a strip: equal calls have one letter and one colour.

use std::collections::BTreeMap;

use super::markup::Markup;
use super::shared;
use crate::report::{Cell, Deed, Ended, Loop, Repeated, Report, letter};

/// Colours that letters go round in.
const COLOURS: usize = 10;
/// Repeated calls named below a strip.
const NAMED_MAX: usize = 6;

pub(super) fn section(page: &mut Markup, report: &Report) {
    shared::section(page, "Sessions that loop most", |page| {
        if report.loops.is_empty() {
            page.raw("<p class=\"quiet\">No session loops.</p>\n");
            return;
        }
        page.raw("<p class=\"quiet key\">A cell is a call. The same letter is the same call; <span class=\"c one\">·</span> comes once, ");
        page.raw("<span class=\"c one\">¶</span> is a text turn. <span class=\"c one f\">·</span> failed, ");
        page.raw("<span class=\"c one l\">·</span> is counted as part of a loop. ");
        page.raw("<span class=\"m nudge\">▲</span> nudge, <span class=\"m block\">■</span> block, <span class=\"m\">△</span> shadow.</p>\n");
        for found in &report.loops {
            card(page, found);
        }
    });
}

fn card(page: &mut Markup, found: &Loop) {
    page.raw("<article>\n<h3><code>").text(&found.session).raw("</code>");
    if found.agent != "main" && !found.agent.is_empty() {
        page.raw(" <span class=\"quiet\">agent</span> <code>").text(&found.agent).raw("</code>");
    }
    if !found.tenant.is_empty() {
        page.raw(" <span class=\"quiet\">tenant</span> <code>").text(&found.tenant).raw("</code>");
    }
    page.raw("</h3>\n<p class=\"facts\"><span><b>").number(found.sums.calls_in_loop());
    page.raw("</b> of <b>")
        .number(found.sums.calls())
        .raw(if found.sums.calls() == 1 { "</b> call" } else { "</b> calls" })
        .raw(" in loops</span>");
    for (count, one, many, class) in [
        (found.sums.texts_in_loop, "text turn in loops", "text turns in loops", ""),
        (found.sums.nudges, "nudge", "nudges", "nudge"),
        (found.sums.blocks, "block", "blocks", "block"),
        (found.sums.shadow, "shadow command", "shadow commands", "quiet"),
    ] {
        if count > 0 {
            page.raw("<span class=\"").raw(class).raw("\"><b>").number(count).raw("</b> ");
            page.raw(if count == 1 { one } else { many }).raw("</span>");
        }
    }
    if found.sums.in_loop.is_known() {
        page.raw("<span><b>").number(found.sums.in_loop.tokens).raw("</b> tokens, <b>");
        page.text(&shared::dollars(found.sums.in_loop)).raw("</b></span>");
    }
    page.raw("<span class=\"quiet\">");
    for name in found.sums.detectors() {
        page.raw("<code>").raw(name).raw("</code> ");
    }
    page.raw("</span></p>\n");
    let repeated = found.strip.repeated();
    let letters: BTreeMap<u64, usize> = repeated.iter().enumerate().map(|(at, one)| (one.call, at)).collect();
    let (head, left_out, tail) = found.strip.parts();
    page.raw("<p class=\"hidden\">")
        .text(&in_words(found.strip.cells(), &letters))
        .raw("</p>\n<div class=\"strip\" aria-hidden=\"true\">");
    for one in head {
        cell(page, found, one, &letters);
    }
    if left_out > 0 {
        page.raw("<span class=\"more\">… ").number(left_out).raw(" more …</span>");
    }
    for one in &tail {
        cell(page, found, one, &letters);
    }
    page.raw("</div>\n");
    names(page, &repeated);
    page.raw("</article>\n");
}

fn cell(page: &mut Markup, found: &Loop, cell: &Cell, letters: &BTreeMap<u64, usize>) {
    let mark = mark(cell);
    // A mark stays with its call at the end of a line.
    page.raw(if mark.is_some() { "<span class=\"w\"><span class=\"c " } else { "<span class=\"c " });
    let letter_at = letters.get(&cell.call).copied();
    match letter_at {
        Some(at) => page.raw("k").index(at % COLOURS),
        None => page.raw("one"),
    };
    page.raw(match cell.ended {
        Ended::Failed => " f",
        Ended::Refused => " r",
        Ended::Unknown if !cell.is_text => " o",
        _ => "",
    });
    page.raw(if cell.in_loop { " l" } else { "" }).raw("\" title=\"");
    if cell.is_text {
        page.raw("text turn");
    } else {
        page.raw("call ").number(cell.sequence + 1).raw(": ").text(found.strip.tool_name(cell));
        page.raw(match cell.ended {
            Ended::Unknown => "",
            Ended::Ok => ", worked",
            Ended::Failed => ", failed",
            Ended::Refused => ", refused",
        });
    }
    page.raw("\">");
    match letter_at {
        Some(at) => page.text(&letter(at)),
        None => page.raw(if cell.is_text { "¶" } else { "·" }),
    };
    page.raw("</span>");
    if let Some(mark) = mark {
        page.raw(mark).raw("</span>");
    }
}

/// What was said because of a call.
const fn mark(cell: &Cell) -> Option<&'static str> {
    match (cell.deed, cell.is_shadow) {
        (None | Some(Deed::Unblock), _) => None,
        (Some(_), true) => Some("<span class=\"m\" title=\"shadow\">△</span>"),
        (Some(Deed::Nudge), false) => Some("<span class=\"m nudge\" title=\"nudge\">▲</span>"),
        (Some(Deed::Block), false) => Some("<span class=\"m block\" title=\"block\">■</span>"),
    }
}

fn names(page: &mut Markup, repeated: &[Repeated]) {
    if repeated.is_empty() {
        return;
    }
    let mut worst: Vec<(usize, &Repeated)> = repeated.iter().enumerate().collect();
    worst.sort_by_key(|(at, one)| (std::cmp::Reverse(one.times), *at));
    page.raw("<ul class=\"names\">\n");
    for (at, one) in worst.iter().take(NAMED_MAX) {
        page.raw("<li><span class=\"c k")
            .index(at % COLOURS)
            .raw("\">")
            .text(&letter(*at))
            .raw("</span> × ")
            .number(one.times)
            .raw(" ");
        match &one.tool {
            Some(tool) => page.raw("<code>").text(tool).raw("</code>"),
            None => page.raw("the same text"),
        };
        if one.failed > 0 {
            page.raw(" <span class=\"quiet\">").number(one.failed).raw(" failed</span>");
        }
        if let Some(excerpt) = &one.excerpt {
            page.raw(" <q>").text(excerpt).raw("</q>");
        }
        page.raw("</li>\n");
    }
    if worst.len() > NAMED_MAX {
        page.raw("<li class=\"quiet\">and ").number((worst.len() - NAMED_MAX) as u64).raw(" more</li>\n");
    }
    page.raw("</ul>\n");
}

/// The strip for those who cannot see it: runs of equal calls.
fn in_words<'a>(cells: impl Iterator<Item = &'a Cell>, letters: &BTreeMap<u64, usize>) -> String {
    let mut runs: Vec<(String, u64)> = Vec::new();
    for cell in cells {
        let name = match letters.get(&cell.call) {
            Some(at) => letter(*at),
            None if cell.is_text => "text turn".to_owned(),
            None => "other call".to_owned(),
        };
        match runs.last_mut() {
            Some((last, times)) if *last == name => *times += 1,
            _ => runs.push((name, 1)),
        }
    }
    let words: Vec<String> =
        runs.into_iter().map(|(name, times)| if times > 1 { format!("{name} {times} times") } else { name }).collect();
    format!("Calls in order: {}.", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_can_be_heard() {
        let cell = |call| Cell { call, ..Cell::default() };
        let letters = BTreeMap::from([(7, 0), (8, 1)]);
        let cells = [cell(1), cell(2), cell(7), cell(7), cell(7), cell(8), cell(7)];
        assert_eq!(in_words(cells.iter(), &letters), "Calls in order: other call 2 times, A 3 times, B, A.");
    }
}
