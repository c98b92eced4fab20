//! Messages that a connection gives up: they become dead letters in the order in which that came to pass.
//!
//! **Always holds**: one job at a time is about them, and it ends only when none wait. What still waits when the connection is gone is ready
//! again.

use std::collections::VecDeque;
use std::sync::Arc;

use base::Now;
use broker::{Broker, Doomed, MessageQueue};
use parking_lot::Mutex;

/// Those that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct GivingUp {
    waiting: Mutex<VecDeque<(Arc<MessageQueue>, Vec<Doomed>)>>,
    turn: Mutex<()>,
}

impl GivingUp {
    /// Has some of a queue wait.
    pub(super) fn add(&self, queue: Arc<MessageQueue>, doomed: Vec<Doomed>) {
        self.waiting.lock().push_back((queue, doomed));
    }

    /// Gives up all that wait, unless another job is about it, which sees what came after it began. Waits for the disk.
    pub(super) fn run(&self, broker: &Broker, now: Now) {
        while !self.waiting.lock().is_empty() {
            let Some(_turn) = self.turn.try_lock() else { return };
            self.give_up_all(broker, now);
        }
    }

    /// Gives up some of a queue, behind all that wait. Waits for the disk, and for another job that is about it.
    pub(super) fn give_up(&self, queue: &Arc<MessageQueue>, doomed: Vec<Doomed>, broker: &Broker, now: Now) {
        self.add(queue.clone(), doomed);
        let _turn = self.turn.lock();
        self.give_up_all(broker, now);
    }

    fn give_up_all(&self, broker: &Broker, now: Now) {
        while let Some((queue, doomed)) = self.next() {
            broker.model.give_up(&queue, doomed, now);
        }
    }

    /// The first that waits: nobody waits for the lock while it is given up.
    fn next(&self) -> Option<(Arc<MessageQueue>, Vec<Doomed>)> {
        self.waiting.lock().pop_front()
    }
}
