//! When to sync: at once for whoever is alone, a moment later if those who waited last time are likely to be back by then.
//!
//! A sync takes as long for one sender as for many. Senders that wait for each answer come back in a bunch after each sync; a
//! sync begun with the first of them would make the others wait for the next one. So a sync that was shared is followed by a
//! pause, until as many wait again as were there, and at most a part of a sync's own time. Only counts and durations are looked at.

use std::time::Duration;

/// What the last sync was like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupCommit {
    /// Senders it answered and senders it left.
    expected: usize,
    /// Time it took.
    took: Duration,
}

impl GroupCommit {
    /// A sync ended that took `took`, answered `answered` senders, and left `left` that came too late for it.
    pub(crate) const fn note(&mut self, answered: usize, left: usize, took: Duration) {
        *self = Self { expected: answered + left, took };
    }

    /// How many senders are worth waiting for, and for how long at most, when `waiting` are there. `None`: sync now.
    pub(crate) fn pause(&self, waiting: usize) -> Option<(usize, Duration)> {
        (waiting < self.expected).then(|| (self.expected, self.took / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_micros(300);

    fn after(answered: usize, left: usize) -> GroupCommit {
        let mut commit = GroupCommit::default();
        commit.note(answered, left, TOOK);
        commit
    }

    #[test]
    fn a_lone_sender_waits_for_nobody() {
        assert_eq!(GroupCommit::default().pause(1), None);
        assert_eq!(after(1, 0).pause(1), None);
    }

    #[test]
    fn those_who_waited_together_are_waited_for_but_not_for_longer_than_a_part_of_a_sync() {
        assert_eq!(after(10, 6).pause(6), Some((16, TOOK / 2)));
        assert_eq!(after(10, 6).pause(16), None);
    }
}
