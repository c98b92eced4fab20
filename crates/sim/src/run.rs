//! Runs of stories, and of seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::oracle::{Checked, Rule, Violation};
use crate::story::Story;
use crate::trace::Trace;
use crate::world;

/// Runs a story, with its trace.
pub fn tell(story: &Story, trace: Trace) -> (Trace, Checked) {
    let told = catch_unwind(AssertUnwindSafe(|| world::run(story, trace)));
    told.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        (Trace::default(), Err(Violation { rule: Rule::NothingPanics, what: text.unwrap_or_default() }))
    })
}

/// What comes of a story.
pub fn outcome(story: &Story) -> Checked {
    tell(story, Trace::default()).1
}

/// Runs a seed twice: nothing is broken, and both runs are the same.
pub fn check_seed(seed: u64) -> Checked {
    let story = Story::of(seed);
    let (first, told) = tell(&story, Trace::default());
    told?;
    let (second, _) = tell(&story, Trace::default());
    if first.number() == second.number() {
        return Ok(());
    }
    let (one, other) = (tell(&story, Trace::kept()).0, tell(&story, Trace::kept()).0);
    let differs = one.lines().iter().zip(other.lines()).find(|(one, other)| one != other);
    Err(Violation { rule: Rule::OneSeedOneTrace, what: format!("{differs:?}") })
}
