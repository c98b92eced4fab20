//! A failing story made short: steps are taken away for as long as the same rule is broken.

use crate::oracle::Rule;
use crate::run::outcome;
use crate::story::Story;

/// Runs of the story at most.
const RUNS_MAX: usize = 3000;

/// A shorter story that breaks the same rule.
pub fn shrink(story: &Story, rule: Rule) -> Story {
    let mut shortest = story.clone();
    let mut runs = 0;
    let mut size = shortest.steps.len().div_ceil(2);
    while size > 0 && runs < RUNS_MAX {
        let mut is_shorter = false;
        let mut at = 0;
        while at < shortest.steps.len() && runs < RUNS_MAX {
            let mut shorter = shortest.clone();
            shorter.steps.drain(at..(at + size).min(shorter.steps.len()));
            runs += 1;
            if outcome(&shorter).is_err_and(|violation| violation.rule == rule) {
                shortest = shorter;
                is_shorter = true;
            } else {
                at += size;
            }
        }
        if !is_shorter || size > 1 {
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }
    shortest
}
