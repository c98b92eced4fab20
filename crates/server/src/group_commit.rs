//! Group commit: decides when to sync, so that one sync serves many producers. Pure: looks at counts and durations only.
//!
//! Producers that wait for each reply come back together after a sync. A sync started for the first of them would make the others
//! wait for the next one. So after a sync that several shared, the next one waits until as many are back, but at most for a fraction
//! of a sync's duration. A single producer never waits.

use std::time::Duration;

/// What is known of the last sync.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupCommit {
    /// Producers that waited when it ended, those it served included.
    expected: usize,
    took: Duration,
}

impl GroupCommit {
    /// Records a sync that served `answered` producers; `left` more came while it ran.
    pub(crate) const fn note(&mut self, answered: usize, left: usize, took: Duration) {
        *self = Self { expected: answered + left, took };
    }

    /// With `waiting` producers: how many to wait for, and for how long at most. `None`: sync now.
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
