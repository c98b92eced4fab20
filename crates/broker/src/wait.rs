//! Who waits until a part of the log is as safe as was promised, and for how long.

use std::mem;
use std::task::Waker;

use base::offset::{AckPolicy, Watermark};
use base::{LogOffset, Monotonic, Refusal};

use crate::durability::Durability;

/// One who waits.
///
/// **Always holds**: while it is to wait, it is woken when a watermark passes that it waits for, when the log accepts no more writes, and when
/// replicas are lost; once its `deadline` has come, it has to look by itself. It is registered once for each watermark, however long it waits
/// and however often it looks; once more for replicas after some were lost.
#[derive(Debug)]
pub struct Wait {
    /// What was promised of all below `end`.
    policy: AckPolicy,
    end: LogOffset,
    /// What there is time for, still.
    awaited: AckPolicy,
    replicas_until: Monotonic,
    /// `None`: however long it takes.
    sync_until: Option<Monotonic>,
    registered: Registered,
}

/// For which watermarks it has left a waker.
#[derive(Debug)]
struct Registered {
    written: bool,
    durable: bool,
    /// When so many losses of replicas had been told; the next one takes it from the list.
    replicated: Option<u64>,
}

/// How it stands with what was promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is as safe as was promised.
    Kept,
    /// It is as safe as it gets in the time that there was, with the replicas that there are; what it lacks.
    Lacks(Refusal),
    /// It never will be safe: the log accepts no more writes.
    Lost(Refusal),
    /// None of these yet.
    Waits,
}

impl Wait {
    /// Has until `replicas_until` for replicas, if `policy` wants them, and until `sync_until` for the sync; that it is written is waited for however
    /// long it takes.
    pub const fn new(
        policy: AckPolicy,
        end: LogOffset,
        replicas_until: Monotonic,
        sync_until: Option<Monotonic>,
    ) -> Self {
        let registered = Registered { written: false, durable: false, replicated: None };
        Self { policy, end, awaited: policy, replicas_until, sync_until, registered }
    }

    /// How it stands. Who is to wait has one of the wakers called when it should look again.
    pub fn look(&mut self, durability: &Durability, now: Monotonic, waker: impl Fn() -> Waker) -> Standing {
        if durability.is_kept(self.policy, self.end) {
            return Standing::Kept;
        }
        if let Some(refusal) = durability.poisoned() {
            return Standing::Lost(refusal);
        }
        self.awaited.replicated &= self.replicas_until > now;
        self.awaited.durable &= self.sync_until.is_none_or(|until| until > now);
        loop {
            let are_in_reach = self.policy.replicated && durability.replicas().are_in_reach(self.end);
            let awaited = AckPolicy { replicated: self.awaited.replicated && are_in_reach, ..self.awaited };
            if awaited != self.policy && durability.is_kept(awaited, self.end) {
                return self.without(durability, are_in_reach);
            }
            self.register(awaited, durability, &waker);
            // Those that are lost in between have woken nobody who was not yet registered.
            if !awaited.replicated || durability.replicas().are_in_reach(self.end) {
                return Standing::Waits;
            }
        }
    }

    /// How it stands if it is not waited for any longer. The disk and the replicas go on meanwhile.
    fn without(&self, durability: &Durability, are_in_reach: bool) -> Standing {
        let is_kept_here = durability.is_kept(AckPolicy { replicated: false, ..self.policy }, self.end);
        if durability.is_kept(self.policy, self.end) {
            return Standing::Kept;
        }
        Standing::Lacks(match (self.policy.replicated && is_kept_here, are_in_reach) {
            (false, _) => Refusal::FlushTimedOut,
            (true, false) => Refusal::NoReplica,
            (true, true) => Refusal::ReplicationTimedOut,
        })
    }

    fn register(&mut self, awaited: AckPolicy, durability: &Durability, waker: impl Fn() -> Waker) {
        for watermark in awaited.watermarks() {
            let is_registered = match watermark {
                Watermark::Written => mem::replace(&mut self.registered.written, true),
                Watermark::Durable => mem::replace(&mut self.registered.durable, true),
                Watermark::Replicated => {
                    let losses = durability.losses_told();
                    self.registered.replicated.replace(losses) == Some(losses)
                }
                // Nobody is promised that.
                Watermark::Committed => true,
            };
            if !is_registered {
                durability.when(watermark, self.end, waker());
            }
        }
    }

    /// When it has to look though nothing has woken it. Not passed over before it has.
    pub fn deadline(&self) -> Option<Monotonic> {
        let replicas = Some(self.replicas_until).filter(|_| self.awaited.replicated);
        let sync = self.sync_until.filter(|_| self.awaited.durable);
        replicas.into_iter().chain(sync).min()
    }
}
