//! What stands for the threads of the server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use broker::{Broker, Host};

/// Does what its broker asks for before the broker goes on, or leaves it to the test.
#[derive(Debug, Default)]
pub struct ManualHost {
    broker: OnceLock<Weak<Broker>>,
    is_stopped: AtomicBool,
    /// How often the broker asked to be registered anew.
    pub registrations: AtomicU64,
}

impl ManualHost {
    /// Writes and syncs this broker's log from here on; until then nothing is done.
    pub fn serve(&self, broker: &Arc<Broker>) {
        self.broker.set(Arc::downgrade(broker)).expect("one broker");
    }

    /// From here on the log is written and synced only when the test does it.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn broker(&self) -> Option<Arc<Broker>> {
        if self.is_stopped.load(Ordering::Relaxed) { None } else { self.broker.get()?.upgrade() }
    }
}

impl Host for ManualHost {
    fn log_changed(&self) {
        if let Some(broker) = self.broker() {
            broker.store().write_staged().expect("writes");
        }
    }

    fn sync_wanted(&self, _waiting: usize) {
        if let Some(broker) = self.broker() {
            broker.store().sync().expect("syncs");
        }
    }

    fn registration_changed(&self) {
        self.registrations.fetch_add(1, Ordering::Relaxed);
    }
}
