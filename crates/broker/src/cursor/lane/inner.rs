//! What a lane's lock guards.

use base::{Monotonic, QueueOffset};

use super::Take;
use crate::cursor::lease::{LeaseCursor, Owner};

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) cursor: LeaseCursor,
    /// Whether the log is to be told of all of it, and not only of what has changed.
    pub(super) is_whole: bool,
    pub(super) is_unkept: bool,
    /// Under which time it is in the schedule.
    pub(super) scheduled: Option<Monotonic>,
    /// The last that took in order.
    pub(super) attempt: Option<Attempt>,
    /// Nothing could be read: until then nobody is told that there is something.
    pub(super) paused_until: Option<Monotonic>,
}

/// Messages taken in order.
#[derive(Debug)]
pub(super) struct Attempt {
    /// By which its consumer asks for the same again.
    pub(super) name: Box<str>,
    /// Its grants: the first, and those by which the time of single messages was changed.
    pub(super) owners: Vec<Owner>,
}

impl Inner {
    /// Ends what has lasted long enough.
    pub(super) fn expire(&mut self, now: Monotonic) {
        self.cursor.expire(now);
        self.paused_until.take_if(|until| *until <= now);
    }

    /// The last attempt, if it is made again by that name.
    pub(super) fn again(&self, attempt: Option<&str>) -> Option<&Attempt> {
        let name = attempt.filter(|name| !name.is_empty())?;
        self.attempt.as_ref().filter(|last| *last.name == *name)
    }

    /// Takes back what was handed out by an attempt of that name, which is made again; gives how many messages that are.
    pub(super) fn take_back(&mut self, attempt: Option<&str>) -> usize {
        let owners = self.again(attempt).map(|last| last.owners.clone()).unwrap_or_default();
        owners.into_iter().map(|owner| self.cursor.hand_back(owner)).sum()
    }

    /// Whether messages may be taken now.
    pub(super) fn may_take(&mut self, take: &Take<'_>) -> bool {
        let Some(name) = take.attempt else { return true };
        let (owner, leased) = (take.grant.owner, self.cursor.counts(QueueOffset(0)).leased);
        if let Some(held) = take.held {
            // Else its time was over, and others may have what came before.
            let is_its_own = |last: &Attempt| *last.name == *name && last.owners.contains(&owner);
            return leased == held as u64 && self.attempt.as_ref().is_some_and(is_its_own);
        }
        if leased == 0 {
            self.attempt = Some(Attempt { name: name.into(), owners: vec![owner] });
        }
        leased == 0
    }
}
