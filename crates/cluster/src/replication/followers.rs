//! The slaves of a master, and how far they are.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{LogOffset, Monotonic, Now};
use parking_lot::Mutex;

/// Slaves of one master that are connected at the same time.
const FOLLOWERS_MAX: usize = 64;

/// A slave that is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Where it connects from.
    pub address: SocketAddr,
    /// The end of its log, as it said last.
    pub end: LogOffset,
    /// How far it was sent the log.
    pub sent: LogOffset,
    /// Bytes that it was sent in a second, of late.
    pub sent_per_second: u64,
    /// When it last had all there was; before that, when it connected.
    pub caught_up: Now,
    /// Another has connected from the same host since it was last heard of: it may be the same one, over a new connection.
    is_doubtful: bool,
    /// When `sent_per_second` was last counted, and how far it had been sent the log then.
    counted: (Monotonic, LogOffset),
}

/// Over how long bytes are counted, ms.
const COUNT_MS: u64 = 1000;

/// Which part of the log is at as many slaves as were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InReach {
    /// So many are connected, and have everything below this.
    Until(LogOffset),
    /// Fewer are connected.
    TooFew,
}

/// Why a slave is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotJoined {
    /// Its log goes beyond this, the furthest that it can have come by the master's: it has what that has lost.
    Ahead(LogOffset),
    /// There are too many.
    TooMany,
}

/// The slaves of a master.
#[derive(Debug)]
pub struct Followers {
    /// How many have to have something before it counts as replicated.
    wanted: usize,
    /// How far any of them can have come by this log.
    furthest: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    followers: BTreeMap<u64, Follower>,
    next_id: u64,
    /// What as many as are wanted have, as was told last; 0 while there are fewer.
    reached: LogOffset,
}

impl Followers {
    /// None yet, of a log that ends at `end`; `wanted` of them are to have what counts as replicated, at least one.
    pub fn new(wanted: usize, end: LogOffset) -> Self {
        Self { wanted: wanted.max(1), furthest: AtomicU64::new(end.0), known: Mutex::default() }
    }

    /// One has connected whose log ends at `end`.
    pub(super) fn join(&self, address: SocketAddr, end: LogOffset, now: Now) -> Result<u64, NotJoined> {
        let mut known = self.known.lock();
        let furthest = LogOffset(self.furthest.load(Ordering::SeqCst));
        if end > furthest {
            return Err(NotJoined::Ahead(furthest));
        }
        if known.followers.len() >= FOLLOWERS_MAX {
            return Err(NotJoined::TooMany);
        }
        let of_host = known.followers.values_mut().filter(|other| other.address.ip() == address.ip());
        of_host.for_each(|other| other.is_doubtful = true);
        let id = known.next_id;
        known.next_id += 1;
        let counted = (now.monotonic, end);
        let follower =
            Follower { address, end, sent: end, sent_per_second: 0, caught_up: now, is_doubtful: false, counted };
        known.followers.insert(id, follower);
        Ok(id)
    }

    /// One is about to be sent the log up to there.
    pub(super) fn note_sent(&self, end: LogOffset) {
        self.furthest.fetch_max(end.0, Ordering::SeqCst);
    }

    /// It has said that its log ends at `end`, of `written` that there is, and was sent it up to `sent`. `tell` hears what that makes, in
    /// the order in which it is so.
    pub(super) fn note(
        &self,
        id: u64,
        (end, sent, written): (LogOffset, LogOffset, LogOffset),
        now: Now,
        tell: impl FnMut(InReach),
    ) {
        let mut known = self.known.lock();
        if let Some(follower) = known.followers.get_mut(&id) {
            (follower.end, follower.sent, follower.is_doubtful) = (end, sent, false);
            if end >= written {
                follower.caught_up = now;
            }
            let (counted_at, counted_to) = follower.counted;
            let took_ms = now.monotonic.ms_since(counted_at);
            if took_ms >= COUNT_MS {
                follower.sent_per_second = sent.0.saturating_sub(counted_to.0).saturating_mul(1000) / took_ms;
                follower.counted = (now.monotonic, sent);
            }
        }
        self.in_reach(&mut known).into_iter().for_each(tell);
    }

    /// Its connection is gone.
    pub(super) fn leave(&self, id: u64, tell: impl FnMut(InReach)) {
        let mut known = self.known.lock();
        known.followers.remove(&id);
        self.in_reach(&mut known).into_iter().for_each(tell);
    }

    /// `None`: as before. Of those that may be the same one only the last counts; but what another of them had is not lost until that is certain.
    fn in_reach(&self, known: &mut Known) -> Option<InReach> {
        if known.followers.len() < self.wanted {
            known.reached = LogOffset(0);
            return Some(InReach::TooFew);
        }
        let reached_by = |is_counted: fn(&&Follower) -> bool| {
            let mut ends: Vec<_> = known.followers.values().filter(is_counted).map(|follower| follower.end).collect();
            ends.sort_unstable_by(|one, other| other.cmp(one));
            ends.get(self.wanted - 1).copied()
        };
        let certain = reached_by(|follower| !follower.is_doubtful)?;
        if certain < known.reached && reached_by(|_| true) >= Some(known.reached) {
            return None;
        }
        known.reached = certain;
        Some(InReach::Until(certain))
    }

    /// All that are connected, the longest connected first.
    pub fn all(&self) -> Vec<Follower> {
        self.known.lock().followers.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;

    const fn at(ms: u64) -> Now {
        Now { wall: Timestamp(1_700_000_000_000 + ms), monotonic: Monotonic(ms) }
    }

    fn address_of(host: u8) -> SocketAddr {
        ([10, 0, 0, host], 1).into()
    }

    #[test]
    fn what_is_replicated_is_what_as_many_as_were_asked_for_have() {
        let followers = Followers::new(2, LogOffset(100));
        let told = std::cell::Cell::new(InReach::TooFew);
        let note = |id, end| {
            let end = LogOffset(end);
            followers.note(id, (end, end, LogOffset(100)), at(0), |reached| told.set(reached));
            told.get()
        };
        let leave = |id| {
            followers.leave(id, |reached| told.set(reached));
            told.get()
        };
        let join = |host| followers.join(address_of(host), LogOffset(0), at(0)).expect("room");
        let first = join(1);
        assert_eq!(note(first, 100), InReach::TooFew);
        let second = join(2);
        assert_eq!(note(second, 50), InReach::Until(LogOffset(50)));
        let third = join(3);
        assert_eq!(note(third, 70), InReach::Until(LogOffset(70)));
        assert_eq!(leave(first), InReach::Until(LogOffset(50)));
        assert_eq!(leave(third), InReach::TooFew);
        assert_eq!(followers.all().len(), 1);
    }

    #[test]
    fn another_of_the_same_host_takes_nothing_from_the_first() {
        let followers = Followers::new(1, LogOffset(1000));
        let told = std::cell::Cell::new(InReach::TooFew);
        let join = |end| followers.join(address_of(1), LogOffset(end), at(0)).expect("room");
        let note = |id, end| {
            let end = LogOffset(end);
            followers.note(id, (end, end, LogOffset(1000)), at(0), |reached| told.set(reached));
            told.get()
        };
        let first = join(900);
        assert_eq!(note(first, 900), InReach::Until(LogOffset(900)));
        let second = join(0);
        assert_eq!(note(second, 0), InReach::Until(LogOffset(900)), "the first has said nothing else since");
        assert_eq!(note(second, 950), InReach::Until(LogOffset(950)));
        assert_eq!(note(first, 970), InReach::Until(LogOffset(970)));
        followers.leave(first, |reached| told.set(reached));
        assert_eq!(told.get(), InReach::Until(LogOffset(950)), "it is gone");
    }

    #[test]
    fn it_is_known_since_when_one_lags_and_how_fast_it_is_sent_the_log() {
        let followers = Followers::new(1, LogOffset(100));
        let id = followers.join(address_of(1), LogOffset(100), at(0)).expect("room");
        let note = |end, sent, written, ms| {
            followers.note(id, (LogOffset(end), LogOffset(sent), LogOffset(written)), at(ms), drop);
            let known = followers.all().remove(0);
            (known.caught_up.monotonic.0, known.sent_per_second)
        };
        assert_eq!(note(200, 300, 1000, 500), (0, 0), "it has never had all");
        assert_eq!(note(1000, 1000, 1000, 2000), (2000, 450));
        assert_eq!(note(1000, 2000, 2000, 2900), (2000, 450));
        assert_eq!(note(1500, 2000, 2000, 4000), (2000, 500));
    }

    #[test]
    fn there_is_a_bound() {
        let followers = Followers::new(1, LogOffset(100));
        let join = || followers.join(address_of(1), LogOffset(0), at(1));
        let joined: Vec<_> = (0..100).map_while(|_| join().ok()).collect();
        assert_eq!(joined.len(), FOLLOWERS_MAX);
        followers.leave(joined[0], drop);
        assert!(join().is_ok());
    }
}
