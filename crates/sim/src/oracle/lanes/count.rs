//! How often a message was given, as far as that is known.

use crate::oracle::Stopped;

/// How often a message was given.
#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    pub(super) min: u32,
    pub(super) max: u32,
    /// The most it may have been at any time: a reset has it counted anew, and a dead letter of before stays.
    pub(super) ever: u32,
    /// Number of the last request when that was known, and how many answers had been lost.
    pub(super) heard: u64,
    pub(super) lost: u64,
    /// What of it the log has, and the disk.
    pub(super) logged: u32,
    pub(super) durable: u32,
}

impl Count {
    /// What of it the log is told at the next occasion: how often it was given back, and that it was given.
    pub(super) const fn told(&self) -> u32 {
        match self.min {
            0 | 1 => self.min,
            min => min - 1,
        }
    }

    /// That it was given more often is not sure any more.
    pub(super) fn lower_to(&mut self, times: u32) {
        let least = |known: u32| known.min(times);
        (self.min, self.logged, self.durable) = (least(self.min), least(self.logged), least(self.durable));
    }

    pub(super) fn restart(&mut self, how: Stopped) {
        let left = match how {
            Stopped::InOrder => self.told(),
            Stopped::Killed => self.logged,
            Stopped::PowerCut => self.durable,
        };
        (self.min, self.logged) = (left.min(self.min), left.min(self.min));
        if how != Stopped::Killed {
            self.durable = self.min;
        }
    }
}
