//! Requests that were refused: counted by request and answer, and told now and then, so that a client which repeats what
//! cannot be done is logged, and not without end.
//!
//! Names come from the tables of codes, so there are as many counts as pairs of them at most. Not on the hot path.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::time::{Monotonic, Now};

/// How often a refusal of one kind is told.
const TOLD_EVERY_MS: u64 = 60_000;

/// A request and what it was answered, each by the name of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The request.
    pub request: &'static str,
    /// The answer.
    pub answer: &'static str,
}

/// What the log is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What was refused, and how.
    pub kind: Kind,
    /// Number of the request: all without a name are one kind.
    pub code: i32,
    /// How many since this kind was told last.
    pub count: u64,
    /// Whose was the one that is shown.
    pub from: String,
    /// What it was told.
    pub remark: String,
}

#[derive(Debug, Default)]
struct Count {
    all: u64,
    told: u64,
    told_at: Option<Monotonic>,
    /// To be told, with a count that is still to be taken.
    due: Option<Box<Told>>,
}

/// Counts of refused requests.
#[derive(Debug, Default)]
pub struct RefusedRequests(Mutex<BTreeMap<Kind, Count>>);

impl RefusedRequests {
    /// Counts one. `from` and `remark` are looked at if it is to be told.
    pub fn note(&self, kind: Kind, code: i32, from: impl std::fmt::Display, remark: &str, now: Now) {
        let mut counts = self.0.lock();
        let count = counts.entry(kind).or_default();
        count.all += 1;
        if count.due.is_none() && count.told_at.is_none_or(|told_at| now.monotonic.ms_since(told_at) >= TOLD_EVERY_MS) {
            count.told_at = Some(now.monotonic);
            let (from, remark) = (from.to_string(), remark.to_owned());
            count.due = Some(Box::new(Told { kind, code, count: 0, from, remark }));
        }
    }

    /// What is to be told since this was last asked.
    pub fn take_due(&self) -> Vec<Told> {
        let mut counts = self.0.lock();
        let due = counts.values_mut().filter_map(|count| {
            let mut told = count.due.take()?;
            told.count = count.all - count.told;
            count.told = count.all;
            Some(*told)
        });
        due.collect()
    }

    /// Every kind there was, with its count.
    pub fn counts(&self) -> Vec<(Kind, u64)> {
        self.0.lock().iter().map(|(kind, count)| (*kind, count.all)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { request: "POP_MESSAGE", answer: "REQUEST_CODE_NOT_SUPPORTED" };

    #[test]
    fn each_is_counted_and_a_kind_is_told_once_a_minute_with_what_came_since() {
        let refused = RefusedRequests::default();
        let now = |ms| Now { monotonic: Monotonic(ms), ..Now::default() };
        let note = |now_ms| refused.note(KIND, 200_050, "10.0.0.1:5", "no", now(now_ms));
        let told =
            |count| Told { kind: KIND, code: 200_050, count, from: "10.0.0.1:5".to_owned(), remark: "no".to_owned() };
        (0..3).for_each(|_| note(1_000));
        assert_eq!(refused.take_due(), [told(3)]);
        (0..1000).for_each(note);
        assert_eq!(refused.take_due(), []);
        note(60_999);
        assert_eq!(refused.take_due(), []);
        note(61_000);
        assert_eq!(refused.take_due(), [told(1002)]);
        let other = Kind { answer: "SYSTEM_BUSY", ..KIND };
        refused.note(other, 200_050, "", "", now(61_000));
        assert_eq!(refused.take_due().len(), 1);
        assert_eq!(refused.counts(), [(KIND, 1005), (other, 1)]);
    }
}
