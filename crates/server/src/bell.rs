//! Wakes a connection's task from anywhere: the one kind of waker the rooms below are given.

use std::sync::Arc;
use std::task::{Wake, Waker};

use tokio::sync::Notify;

/// A bell and its listener.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    notify: Notify,
}

impl Bell {
    /// A bell, and the waker that rings it.
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let bell = Arc::new(Self::default());
        (bell.clone(), Waker::from(bell))
    }

    /// Waits until it was rung since this was last called.
    pub(crate) async fn rung(&self) {
        self.notify.notified().await;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.notify.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify.notify_one();
    }
}
