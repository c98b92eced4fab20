//! How safe records are, and waiting until they are as safe as was asked for.

use std::sync::Arc;
use std::task::Waker;

use base::offset::{AckPolicy, Watermark};
use base::{LogOffset, Refusal};

use super::Broker;
use crate::published::Published;

impl Broker {
    /// How far the log has come by `watermark`.
    pub fn reached(&self, watermark: Watermark) -> LogOffset {
        self.store.watermarks().get(watermark)
    }

    /// Whether all below `offset` may be answered to who waits as `policy` says.
    pub fn is_kept(&self, policy: AckPolicy, offset: LogOffset) -> bool {
        self.store.watermarks().reached(policy) >= offset
    }

    /// Calls `waker` whenever a watermark that `policy` names passes `offset`, or when the log accepts no more writes.
    pub fn when(&self, policy: AckPolicy, offset: LogOffset, waker: &Waker) {
        for watermark in policy.watermarks() {
            let waiting = self.store.when(watermark, offset, waker.clone());
            if watermark == Watermark::Durable {
                self.host.sync_wanted(waiting);
            }
        }
    }

    /// Waits until records are in the log as safe as messages are to be. Not for a network thread.
    pub fn wait_until_kept(&self, published: &Published) -> Result<(), Refusal> {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let policy = self.options.ack_policy;
        while !self.is_kept(policy, published.end()) {
            if let Some(refusal) = self.poisoned() {
                return Err(refusal);
            }
            self.when(policy, published.end(), &Waker::from(Arc::new(Unpark(std::thread::current()))));
            std::thread::park();
        }
        Ok(())
    }
}
