//! The waker that the other crates get: it wakes a connection's task from any thread.

use std::sync::Arc;
use std::task::{Wake, Waker};

use tokio::sync::Notify;

/// A wake-up for a connection's task.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    notify: Notify,
}

impl Wakeup {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let wakeup = Arc::new(Self::default());
        (wakeup.clone(), Waker::from(wakeup))
    }

    /// Waits for the waker; returns at once if it was woken since the last call.
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
