//! How the broker reaches a connection: signals are left in its mailbox and it is woken.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use base::GroupName;
use parking_lot::Mutex;

/// What one connection tells another of its dialect, in a type of the dialect's own. A copy is the same word.
#[derive(Clone)]
pub struct Word(Arc<dyn Any + Send + Sync>);

impl Word {
    /// Says something.
    pub fn new(said: impl Any + Send + Sync) -> Self {
        Self(Arc::new(said))
    }

    /// What was said, if it is of that type.
    pub fn read<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Word {}

impl Debug for Word {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Word")
    }
}

/// What a connection is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The members or subscriptions of a group changed.
    GroupChanged(GroupName),
    /// A fetch of this number may find messages now.
    FetchReady(u64),
    /// Who waits for leases by this number may be given some now.
    LeaseReady(u64),
    /// The message queue from which it consumes by this number is gone.
    QueueGone(u64),
    /// It has to end, for this reason.
    Dismissed(Arc<str>),
    /// Another connection of its dialect says this.
    Told(Word),
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

impl Debug for Mailbox {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
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

    /// Leaves a signal and rings; `false` if the connection is gone and nobody will take it.
    pub fn send(&self, signal: Signal) -> bool {
        {
            let mut signals = self.signals.lock();
            if self.is_closed() {
                return false;
            }
            signals.push(signal);
        }
        self.ring();
        true
    }

    /// Rings without a signal.
    pub fn ring(&self) {
        self.waker.wake_by_ref();
    }

    /// The waker itself, for watermarks.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Its connection is gone. Gives what it has not taken; nothing comes after that.
    pub fn close(&self) -> Vec<Signal> {
        let mut signals = self.signals.lock();
        self.is_closed.store(true, Ordering::SeqCst);
        std::mem::take(&mut *signals)
    }

    /// Whether its connection is gone.
    pub fn is_closed(&self) -> bool {
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
