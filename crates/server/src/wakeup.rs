//! Wakes a connection's task from anywhere: the one kind of waker that the crates below are given.

use std::sync::Arc;
use std::task::{Wake, Waker};

use tokio::sync::Notify;

/// What a connection waits on beside its socket.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    notify: Notify,
}

impl Wakeup {
    /// A wake-up to wait for, and the waker that gives it.
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let wakeup = Arc::new(Self::default());
        (wakeup.clone(), Waker::from(wakeup))
    }

    /// Waits until it was woken since this was last called.
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.notify.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify.notify_one();
    }
}
