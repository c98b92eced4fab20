//! What stands for the server's threads when the broker asks for work: some of it is done on the spot, the rest is left to the story.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use broker::{Broker, Host};
use storage::schedule::WRITE_HERE_MAX;

/// The node's way to its threads.
#[derive(Debug)]
pub(crate) struct SimHost {
    broker: OnceLock<Weak<Broker>>,
    /// Bits that say, one after the other and round and round, whether what was appended is written at once.
    rhythm: AtomicU64,
    /// A job or a background thread is running that others' work must not wait for, and that may wait for others.
    is_in_job: AtomicBool,
    /// Who appends gives way, and leaves the writing to others.
    gives_way: AtomicBool,
    topic_changes: AtomicU64,
}

impl SimHost {
    pub(crate) fn new(rhythm: u64) -> Arc<Self> {
        Arc::new(Self {
            broker: OnceLock::new(),
            rhythm: AtomicU64::new(rhythm),
            is_in_job: AtomicBool::new(false),
            gives_way: AtomicBool::new(false),
            topic_changes: AtomicU64::new(0),
        })
    }

    pub(crate) fn serve(&self, broker: &Arc<Broker>) {
        let _ = self.broker.set(Arc::downgrade(broker));
    }

    /// Runs a session's job. It may wait for the log: meanwhile the writer and the syncer do their work.
    pub(crate) fn run_job(&self, job: impl FnOnce()) {
        self.is_in_job.store(true, Ordering::Relaxed);
        job();
        self.is_in_job.store(false, Ordering::Relaxed);
    }

    /// Runs what a thread does that gives way to all others.
    pub(crate) fn give_way<T>(&self, work: impl FnOnce() -> T) -> T {
        self.gives_way.store(true, Ordering::Relaxed);
        let done = work();
        self.gives_way.store(false, Ordering::Relaxed);
        done
    }

    /// How often topics have changed.
    pub(crate) fn topic_changes(&self) -> u64 {
        self.topic_changes.load(Ordering::Relaxed)
    }

    fn broker(&self) -> Option<Arc<Broker>> {
        self.broker.get()?.upgrade()
    }

    fn next_of_rhythm(&self) -> bool {
        let bits = self.rhythm.load(Ordering::Relaxed);
        self.rhythm.store(bits.rotate_left(1), Ordering::Relaxed);
        bits & 1 == 1
    }
}

impl Host for SimHost {
    fn log_changed(&self) {
        let Some(broker) = self.broker() else { return };
        // What fails poisons the log, which is what others see of it.
        if self.is_in_job.load(Ordering::Relaxed) {
            let _ = broker.store().write_staged();
        } else if !self.gives_way.load(Ordering::Relaxed) && self.next_of_rhythm() {
            let _ = broker.store().write_if_little(WRITE_HERE_MAX);
        }
    }

    fn sync_wanted(&self, _waiting: usize) {
        if let Some(broker) = self.broker().filter(|_| self.is_in_job.load(Ordering::Relaxed)) {
            let _ = broker.store().sync();
        }
    }

    fn registration_changed(&self) {
        self.topic_changes.fetch_add(1, Ordering::Relaxed);
    }
}
