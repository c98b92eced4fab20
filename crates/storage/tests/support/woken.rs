//! Who waits until it is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Notes that it was woken.
#[derive(Default)]
pub struct Woken(pub AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
