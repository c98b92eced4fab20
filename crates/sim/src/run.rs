//! Runs of stories, and of seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::oracle::{Checked, Rule, Violation};
use crate::queues::QueueStory;
use crate::story::Story;
use crate::trace::Trace;
use crate::world;

/// Runs a story, with its trace.
pub fn tell(story: &Story, trace: Trace) -> (Trace, Checked) {
    caught(|| world::run(story, trace))
}

/// A panic is a broken rule like any other.
pub(crate) fn caught(run: impl FnOnce() -> (Trace, Checked)) -> (Trace, Checked) {
    let told = catch_unwind(AssertUnwindSafe(run));
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

/// Runs both stories of a seed twice: nothing is broken, and both runs are the same.
pub fn check_seed(seed: u64) -> Checked {
    let (of_topics, of_queues) = (Story::of(seed), QueueStory::of(seed));
    check_story(|trace| tell(&of_topics, trace))?;
    check_story(|trace| of_queues.tell(trace))
}

fn check_story(tell: impl Fn(Trace) -> (Trace, Checked)) -> Checked {
    let (first, told) = tell(Trace::default());
    told?;
    let (second, _) = tell(Trace::default());
    if first.number() == second.number() {
        return Ok(());
    }
    let (one, other) = (tell(Trace::kept()).0, tell(Trace::kept()).0);
    let differs = one.lines().iter().zip(other.lines()).find(|(one, other)| one != other);
    Err(Violation { rule: Rule::OneSeedOneTrace, what: format!("{differs:?}") })
}
