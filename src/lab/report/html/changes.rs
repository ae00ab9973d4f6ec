//! What another policy changes, and for whom.

use maud::{Markup, html};

use super::sections::{section, table, tile, whose};
use crate::report::compare::{Change, Comparison, Example};
use crate::report::{Table, grouped};

pub(super) fn sections(comparison: &Comparison) -> Markup {
    html! {
        dl.numbers {
            @for change in Change::ALL { (tile(change.words(), comparison.agents.get(change), "")) }
            (tile("the same", comparison.agents.same, ""))
        }
        p.quiet { "Sessions and swarms, each agent by the gravest thing said to it." }
        @if comparison.left_out > 0 {
            p.warn role="note" {
                (grouped(comparison.left_out)) " commands were beyond what is kept for a comparison: it is not complete."
            }
        }
        (section("By detector and by tool", &table("changes", &Table::of(comparison.rows()))))
        (section("Examples", &examples(&comparison.examples)))
    }
}

fn examples(examples: &[Example]) -> Markup {
    html! {
        @if examples.is_empty() { p.quiet { "Nothing changes for anybody." } }
        @for group in examples.chunk_by(|one, next| (one.change, &one.detector) == (next.change, &next.detector)) {
            @if let Some(Example { change, detector, .. }) = group.first() {
                h3 { (change.words()) " by " code { (detector) } }
            }
            ul.plain {
                @for example in group {
                    li {
                        code { (example.subject) }
                        (whose(&example.agent, example.tenant.as_deref().unwrap_or_default()))
                        br;
                        span.quiet { (example.summary) }
                    }
                }
            }
        }
    }
}
