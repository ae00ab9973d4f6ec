//! The sessions that loop most, each with its calls in order: equal calls have one letter and one colour.

use std::{cmp::Reverse, collections::BTreeMap};

use maud::{Markup, html};

use super::sections::{dollars, whose};
use crate::report::call_timeline::{CallCell, Ended, RepeatedCall};
use crate::report::loops::Loop;
use crate::report::{CommandKind, grouped};

/// Number of colours for letters.
const COLOURS: usize = 10;
/// Repeated calls named below the cells.
const NAMED_MAX: usize = 6;

/// Places of repeated calls, by hash: a letter each.
type Letters = BTreeMap<u64, usize>;

pub(super) fn cards(loops: &[Loop]) -> Markup {
    if loops.is_empty() {
        return html! { p.quiet { "No session loops." } };
    }
    html! {
        p.quiet.key {
            "A cell is a call. The same letter is the same call; " span.c.one { "·" } " comes once, "
            span.c.one { "¶" } " is a text turn. " span.c.one.f { "·" } " failed, "
            span.c.one.l { "·" } " is counted as part of a loop. "
            span.m.nudge { "▲" } " nudge, " span.m.block { "■" } " block, " span.m { "△" } " shadow."
        }
        @for found in loops { (card(found)) }
    }
}

fn card(found: &Loop) -> Markup {
    let (sums, calls) = (&found.sums, &found.calls);
    let repeated = calls.repeated();
    let letters: Letters = repeated.iter().zip(0..).map(|(one, at)| (one.call, at)).collect();
    let facts = [
        (sums.texts_in_loop, ["text turn in loops", "text turns in loops"], ""),
        (sums.commands.nudges, ["nudge", "nudges"], "nudge"),
        (sums.commands.blocks, ["block", "blocks"], "block"),
        (sums.commands.shadow, ["shadow command", "shadow commands"], "quiet"),
    ];
    html! {
        article {
            h3 { code { (found.session) } (whose(&found.agent, &found.tenant)) }
            p.facts {
                span {
                    b { (grouped(sums.calls_in_loop())) } " of " b { (grouped(sums.calls())) }
                    (if sums.calls() == 1 { " call in loops" } else { " calls in loops" })
                }
                @for (count, [one, many], class) in facts.into_iter().filter(|(count, ..)| *count > 0) {
                    span class=(class) { b { (grouped(count)) } " " (if count == 1 { one } else { many }) }
                }
                @if sums.in_loop.is_known() {
                    span { b { (grouped(sums.in_loop.tokens)) } " tokens, " b { (dollars(sums.in_loop)) } }
                }
                span.quiet { @for name in sums.detectors() { code { (name) } " " } }
            }
            p.hidden { (in_words(calls.cells(), &letters)) }
            div.strip aria-hidden="true" {
                @for one in &calls.head { (cell(one, &letters)) }
                @if calls.left_out > 0 { span.more { "… " (grouped(calls.left_out)) " more …" } }
                @for one in &calls.tail { (cell(one, &letters)) }
            }
            (names(&repeated))
        }
    }
}

fn cell(cell: &CallCell, letters: &Letters) -> Markup {
    let place = letters.get(&cell.call).copied();
    let colour = place.map_or("one".to_owned(), |at| format!("k{}", at % COLOURS));
    let (class, ended) = match cell.ended {
        Some(Ended::Ok) => ("", ", worked"),
        Some(Ended::Failed) => (" f", ", failed"),
        Some(Ended::Refused) => (" r", ", refused"),
        None if cell.is_text() => ("", ""),
        None => (" o", ""),
    };
    let title = match &cell.tool {
        Some(tool) => format!("call {}: {tool}{ended}", grouped(cell.sequence + 1)),
        None => "text turn".to_owned(),
    };
    let sign = place.map_or_else(|| if cell.is_text() { "¶" } else { "·" }.to_owned(), letter);
    let letter = html! { span class={ "c " (colour) (class) (if cell.in_loop { " l" } else { "" }) } title=(title) { (sign) } };
    let mark = match (cell.command, cell.is_shadow) {
        (None | Some(CommandKind::Unblock), _) => return letter,
        (Some(_), true) => html! { span.m title="shadow" { "△" } },
        (Some(CommandKind::Nudge), false) => html! { span.m.nudge title="nudge" { "▲" } },
        (Some(CommandKind::Block), false) => html! { span.m.block title="block" { "■" } },
    };
    // A mark stays with its call at the end of a line.
    html! { span.w { (letter) (mark) } }
}

/// The calls repeated most often.
fn names(repeated: &[RepeatedCall]) -> Markup {
    let mut worst: Vec<(usize, &RepeatedCall)> = repeated.iter().enumerate().collect();
    worst.sort_by_key(|(at, one)| (Reverse(one.times), *at));
    html! {
        @if !worst.is_empty() {
            ul.names {
                @for (at, one) in worst.iter().take(NAMED_MAX) {
                    li {
                        span class={ "c k" (at % COLOURS) } { (letter(*at)) } " × " (grouped(one.times)) " "
                        @if let Some(tool) = &one.tool { code { (tool) } } @else { "the same text" }
                        @if one.failed > 0 { " " span.quiet { (grouped(one.failed)) " failed" } }
                        @if let Some(excerpt) = &one.excerpt { " " q { (excerpt) } }
                    }
                }
                @if worst.len() > NAMED_MAX { li.quiet { "and " (worst.len() - NAMED_MAX) " more" } }
            }
        }
    }
}

/// The letter of a repeated call by its place: `A` … `Z`, `a` … `z`, then `AA`, `AB` ….
fn letter(place: usize) -> String {
    const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let digit = |at: usize| char::from(LETTERS.get(at % LETTERS.len()).copied().unwrap_or(b'?'));
    match place.checked_sub(LETTERS.len()) {
        None => digit(place).to_string(),
        Some(place) => [digit(place / 26), digit(place % 26)].iter().collect(),
    }
}

/// The cells for screen readers: runs of equal calls.
fn in_words<'a>(cells: impl Iterator<Item = &'a CallCell>, letters: &Letters) -> String {
    let names: Vec<String> = cells
        .map(|cell| match letters.get(&cell.call) {
            Some(at) => letter(*at),
            None if cell.is_text() => "text turn".to_owned(),
            None => "other call".to_owned(),
        })
        .collect();
    let run = |run: &[String]| match run {
        [name] => name.clone(),
        [name, ..] => format!("{name} {} times", run.len()),
        [] => String::new(),
    };
    let runs: Vec<String> = names.chunk_by(PartialEq::eq).map(run).collect();
    format!("Calls in order: {}.", runs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_can_be_read_aloud() {
        let cell = |call| CallCell { call, tool: Some("t".into()), ..CallCell::default() };
        let letters = Letters::from([(7, 0), (8, 1)]);
        let cells = [cell(1), cell(2), cell(7), cell(7), cell(7), cell(8), cell(7)];
        assert_eq!(in_words(cells.iter(), &letters), "Calls in order: other call 2 times, A 3 times, B, A.");
    }

    #[test]
    fn letters_do_not_run_out() {
        let letters: std::collections::BTreeSet<String> = (0..700).map(letter).collect();
        assert_eq!((letter(0), letter(26), letter(52), letters.len()), ("A".to_owned(), "a".to_owned(), "AA".to_owned(), 700));
    }
}
