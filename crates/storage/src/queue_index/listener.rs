//! Who is told that a queue has got entries.

use std::any::Any;
use std::fmt::Debug;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, OnceLock};

/// Told of a queue's new entries: on the thread that made them visible, so it must be quick.
pub trait QueueListener: Any + Debug + Send + Sync {
    /// Entries can be read that could not before.
    fn entries_added(&self);
}

/// The one listener of a queue, from when it is first asked for.
#[derive(Debug, Default)]
pub(super) struct Listener(OnceLock<Arc<dyn QueueListener>>);

impl Listener {
    pub(super) fn get<L: QueueListener + Default>(&self) -> Option<Arc<L>> {
        let listener: Arc<dyn Any + Send + Sync> = self.0.get_or_init(|| Arc::<L>::default()).clone();
        listener.downcast().ok()
    }

    pub(super) fn tell(&self) {
        // With the fence of who waits between registering and looking at the queue's end, one of the two sides always sees the other.
        fence(Ordering::SeqCst);
        if let Some(listener) = self.0.get() {
            listener.entries_added();
        }
    }
}
