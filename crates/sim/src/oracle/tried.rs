//! A value that requests change: everything it was tried to be, and from which on it must be that or something later.

use super::Stopped;
use super::promise::Kept;

/// What was tried, each with the number of its request.
#[derive(Clone, Debug)]
pub(crate) struct Tried<T> {
    values: Vec<(u64, T)>,
    /// The last that is sure to be in memory.
    sure: u64,
    /// The last that a killed process leaves.
    sure_after_kill: u64,
    /// The last that a power cut leaves.
    sure_on_disk: u64,
}

impl<T: Clone + PartialEq> Tried<T> {
    /// A value that nobody has changed.
    pub(crate) fn new(value: T) -> Self {
        Self { values: vec![(0, value)], sure: 0, sure_after_kill: 0, sure_on_disk: 0 }
    }

    /// Request `number` changes it, or will.
    pub(crate) fn try_out(&mut self, number: u64, value: T) {
        self.values.push((number, value));
    }

    /// What request `number` made of it is known now.
    pub(crate) fn settle(&mut self, number: u64, value: T) {
        if let Some(tried) = self.values.iter_mut().find(|(tried, _)| *tried == number) {
            tried.1 = value;
        }
    }

    /// Request `number` has changed it, and requests asked before it that are not answered yet may do so after it.
    pub(crate) fn let_others_follow(&mut self, number: u64) {
        let unanswered = self.sure + 1..number;
        self.values.iter_mut().filter(|(tried, _)| unanswered.contains(tried)).for_each(|(tried, _)| *tried = number);
    }

    /// Request `number` has changed it, which is kept from when `kept` says.
    pub(crate) fn confirm(&mut self, number: u64, kept: Kept) {
        self.sure = self.sure.max(number);
        if kept != Kept::WhenSaved {
            self.sure_after_kill = self.sure_after_kill.max(number);
        }
        if kept == Kept::WhenAnswered {
            self.sure_on_disk = self.sure_on_disk.max(number);
        }
    }

    /// What is sure to be in memory is written to the log.
    pub(crate) fn note_written(&mut self) {
        self.sure_after_kill = self.sure;
    }

    /// What is written to the log is on the disk.
    pub(crate) fn note_synced(&mut self) {
        self.sure_on_disk = self.sure_after_kill;
    }

    /// What is sure to be in memory is on the disk.
    pub(crate) fn note_saved(&mut self) {
        self.note_written();
        self.note_synced();
    }

    /// The last request that is sure to be in memory.
    pub(crate) const fn sure(&self) -> u64 {
        self.sure
    }

    /// Everything it may be for who asked when `sure` was sure.
    pub(crate) fn possible(&self, sure: u64) -> impl Iterator<Item = &T> {
        self.values.iter().filter(move |(number, _)| *number >= sure).map(|(_, value)| value)
    }

    /// The node starts again on what is left; `read` is what becomes of a value on the way.
    pub(crate) fn restart(&mut self, how: Stopped, read: impl Fn(&T) -> T) {
        let sure = match how {
            Stopped::InOrder => {
                self.note_saved();
                self.sure
            }
            Stopped::Killed => self.sure_after_kill,
            Stopped::PowerCut => self.sure_on_disk,
        };
        self.values.retain(|(number, _)| *number >= sure);
        self.values.iter_mut().for_each(|(_, value)| *value = read(value));
        (self.sure, self.sure_after_kill) = (sure, sure);
    }
}
