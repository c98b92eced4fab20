//! Copies of the log elsewhere: how far those are that producers wait for, and which there are, for administrators.
//!
//! Nothing here survives a crash: replicas say anew how far they are when they connect.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{LogOffset, Now};

/// Not as many are connected as are wanted.
const TOO_FEW: u64 = u64::MAX;

/// A replica that is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
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
}

/// Who knows which replicas are connected.
pub trait ReplicaList: Debug + Send + Sync {
    /// All of them, the longest connected first.
    fn all(&self) -> Vec<Replica>;
}

/// The replicas of a broker.
#[derive(Debug)]
pub struct Replicas {
    /// What as many as are wanted have, while so many are connected.
    reached: AtomicU64,
    gap_max: u64,
    list: OnceLock<Box<dyn ReplicaList>>,
}

impl Replicas {
    pub(crate) const fn new(gap_max: u64) -> Self {
        Self { reached: AtomicU64::new(TOO_FEW), gap_max, list: OnceLock::new() }
    }

    /// Returns whether some were lost: there are too few now, or what as many as are wanted have is less.
    pub(crate) fn note(&self, reached: Option<LogOffset>) -> bool {
        let reached = reached.map_or(TOO_FEW, |reached| reached.0);
        let before = self.reached.swap(reached, Ordering::AcqRel);
        before != TOO_FEW && (reached == TOO_FEW || reached < before)
    }

    /// Whether as many as are wanted are so near that waiting makes sense until they have what ends at `end`.
    pub fn are_in_reach(&self, end: LogOffset) -> bool {
        let reached = self.reached.load(Ordering::Acquire);
        reached != TOO_FEW && self.is_near(LogOffset(reached), end)
    }

    /// Whether a replica whose log ends at `reached` is near enough to be waited for.
    pub const fn is_near(&self, reached: LogOffset, end: LogOffset) -> bool {
        end.0.saturating_sub(reached.0) <= self.gap_max
    }

    /// Says who knows them. Only the first word counts.
    pub fn listed_by(&self, list: Box<dyn ReplicaList>) {
        drop(self.list.set(list));
    }

    /// Those that are connected.
    pub fn all(&self) -> Vec<Replica> {
        self.list.get().map(|list| list.all()).unwrap_or_default()
    }
}
