//! How the broker reaches a connection: signals are left in its mailbox and it is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use base::GroupName;
use parking_lot::Mutex;

/// What a connection is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The members or subscriptions of a group changed.
    GroupChanged(GroupName),
    /// A fetch of this number may find messages now.
    FetchReady(u64),
}

/// One connection's signals.
pub struct Mailbox {
    signals: Mutex<Vec<Signal>>,
    waker: Waker,
    /// The connection is gone: whoever still works for it must register nothing under it any more.
    is_closed: AtomicBool,
    /// What its heartbeats cannot get is in the log.
    was_told_of: AtomicBool,
    /// Bytes that what it is in takes.
    pub(crate) seats_size: AtomicUsize,
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mailbox")
    }
}

impl Mailbox {
    /// A mailbox that wakes its connection with `waker`.
    pub fn new(waker: Waker) -> Arc<Self> {
        Arc::new(Self {
            signals: Mutex::default(),
            waker,
            is_closed: AtomicBool::new(false),
            was_told_of: AtomicBool::new(false),
            seats_size: AtomicUsize::new(0),
        })
    }

    /// Leaves a signal and rings.
    pub fn send(&self, signal: Signal) {
        self.signals.lock().push(signal);
        self.ring();
    }

    /// Rings without a signal.
    pub fn ring(&self) {
        self.waker.wake_by_ref();
    }

    /// The waker itself, for watermarks.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Its connection is gone.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Whether this is called for the first time.
    pub(crate) fn tell_first_time(&self) -> bool {
        !self.was_told_of.swap(true, Ordering::Relaxed)
    }

    /// Takes all signals.
    pub fn take(&self) -> Vec<Signal> {
        std::mem::take(&mut *self.signals.lock())
    }
}
