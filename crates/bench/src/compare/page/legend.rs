//! What the page's words mean, for who did not make it.

use maud::{Markup, html};

use crate::compare::comparison::Comparison;
use crate::compare::peer::Peer;
use crate::compare::scenario::field_note;

/// The words, and the field notes that occur.
pub(super) fn legend(comparison: &Comparison) -> Markup {
    let mut notes: Vec<&str> = Vec::new();
    for scenario in &comparison.scenarios {
        if !notes.contains(&scenario.source) {
            notes.push(scenario.source);
        }
    }
    let first = comparison.peers.first().map_or("the first broker", |peer| peer.kind.title());
    html! {
        details.legend open {
            summary { "What the words mean" }
            dl {
                @if comparison.peers.len() > 1 { (of_ratios(first, comparison.peers.get(1))) }
                dt { "success" }
                dd { "the share of the sends that were answered with success" }
                dt { "p50, p99, p99.9, max" }
                dd { "half, 99 % and 99.9 % of the messages took no longer, and the slowest; from when a message was due, in ms" }
                dt { "CPU s / M" }
                dd { "seconds of processor time the broker took for a million messages" }
                dt { "own memory" }
                dd { "the most memory the broker held that is no page of a file, as seen once a second" }
                dt { "files in memory" }
                dd { "what of the broker's files was in the page cache after the round, whether the broker maps them or not; the kernel takes it back when it is needed" }
                dt { "to disk" }
                dd { "what the broker caused to be written to the disk during the round" }
                @for (name, text) in notes.iter().filter_map(|name| Some((name, field_note(name)?))) {
                    dt { (name) }
                    dd { "field note: " (text) }
                }
            }
        }
    }
}

fn of_ratios(first: &str, other: Option<&Peer>) -> Markup {
    let other = other.map_or("the other", |peer| peer.kind.title());
    html! {
        dt { "ratio" }
        dd {
            (first) "\u{2019}s messages a second divided by " (other) "\u{2019}s in the same round: the middle round, and from the least to the largest. "
            "Below 1 " (first) " was slower, which is marked: " span.slower { "0.80" } "; \u{221e} is a round in which " (other) " did nothing"
        }
        dt { "p99 ratio" }
        dd { "how many times as long the slowest hundredth of the messages took with " (other) " as with " (first) ": below 1 it took less" }
    }
}
