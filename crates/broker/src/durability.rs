//! How safe records are, and waiting until they are as safe as was asked for.

use std::sync::Arc;
use std::task::Waker;

use base::limits::STAGED_SIZE_MAX;
use base::offset::{AckPolicy, Watermark};
use base::{LogOffset, Refusal};
use storage::disk::Stall;
use storage::{StorageError, Store};

use crate::host::Host;
use crate::options::Options;
use crate::replicas::Replicas;

/// The log, to whoever waits for it.
#[derive(Debug)]
pub struct Durability {
    store: Arc<Store>,
    host: Arc<dyn Host>,
    ack_policy: AckPolicy,
    replicas: Replicas,
}

impl Durability {
    pub(crate) const fn new(store: Arc<Store>, host: Arc<dyn Host>, options: &Options) -> Self {
        Self { store, host, ack_policy: options.ack_policy, replicas: Replicas::new(options.replica_gap_max) }
    }

    /// The replicas.
    pub const fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    /// As many replicas as are wanted are connected and have everything below `reached`, which was written; `None`: fewer are. If some were lost,
    /// whoever waits for them is woken.
    pub fn note_replicas(&self, reached: Option<LogOffset>) {
        let are_lost = self.replicas.note(reached);
        if let Some(reached) = reached {
            self.store.set_replicated(reached);
        }
        if are_lost {
            self.store.wake_all_of(Watermark::Replicated);
        }
    }

    /// How far the log has come by `watermark`.
    pub fn reached(&self, watermark: Watermark) -> LogOffset {
        self.store.watermarks().get(watermark)
    }

    /// Whether all below `offset` may be answered to who waits as `policy` says.
    pub fn is_kept(&self, policy: AckPolicy, offset: LogOffset) -> bool {
        self.store.watermarks().reached(policy) >= offset
    }

    /// Calls `waker` when `watermark` passes `offset`, or when the log accepts no more writes; for replicas also when some are lost.
    pub fn when(&self, watermark: Watermark, offset: LogOffset, waker: Waker) {
        let waiting = self.store.when(watermark, offset, waker);
        if watermark == Watermark::Durable {
            self.host.sync_wanted(waiting);
        }
    }

    /// How often those who waited for replicas were woken since some were lost. Who registers after it has read this is, while it is the same.
    pub(crate) fn losses_told(&self) -> u64 {
        self.store.wakes_of_all(Watermark::Replicated)
    }

    /// Calls `waker` once what is appended now is written: publishers may not have to wait any more then. Gives where that ends.
    pub fn when_caught_up(&self, waker: &Waker) -> LogOffset {
        self.store.when_caught_up(waker.clone())
    }

    /// Has all below `end` kept as safe as messages are to be. Waits for the disk.
    pub(crate) fn keep_until(&self, end: LogOffset) -> Result<(), StorageError> {
        if self.ack_policy.durable {
            return self.store.sync_until(end);
        }
        while self.store.watermarks().written() < end {
            self.store.write_staged()?;
        }
        Ok(())
    }

    /// Whether publishers must wait: too much is staged and not yet written.
    pub fn is_behind(&self) -> bool {
        self.store.staged_size() >= STAGED_SIZE_MAX
    }

    /// Why there is no space for messages on the disk, or soon will be none, if that is so.
    pub fn lacks_space(&self) -> Option<String> {
        self.store.shortage().map(|error| error.to_string())
    }

    /// What the disk has not answered for so long that it seems to hang, if that is so. Waits for no disk.
    pub fn disk_hangs(&self) -> Option<String> {
        let stall = self.store.stall().filter(Stall::is_long)?;
        Some(format!("the disk does not answer: {stall}; see the kernel's log (dmesg) and the storage behind the disk"))
    }

    /// Why nothing more can be stored, if that is so.
    pub fn poisoned(&self) -> Option<Refusal> {
        let reason = self.store.poisoned()?;
        Some(Refusal::Unavailable(StorageError::Poisoned(reason).to_string()))
    }
}
