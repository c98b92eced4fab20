//! Work that a session has done away from the network threads, since it may wait for a disk.

use std::collections::VecDeque;
use std::sync::Arc;

use base::budget::{Budget, Held};
use base::session::Job;
use broker::Mailbox;
use parking_lot::Mutex;

/// Jobs of one session; each has a `D` ready at its end.
pub(crate) struct Jobs<D> {
    queue: VecDeque<Job>,
    running: usize,
    size: usize,
    /// What they have ready, each with the bytes it was counted as, here and for all connections.
    done: Arc<Mutex<Vec<(usize, Held, D)>>>,
}

impl<D> Default for Jobs<D> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), running: 0, size: 0, done: Arc::default() }
    }
}

impl<D: Send + 'static> Jobs<D> {
    /// Queues work that may take `size` bytes; what it has ready comes with a ring of the mailbox.
    pub(crate) fn run(
        &mut self,
        size: usize,
        budget: &Arc<Budget>,
        mailbox: &Arc<Mailbox>,
        work: impl FnOnce() -> D + Send + 'static,
    ) {
        let (done, mailbox) = (self.done.clone(), mailbox.clone());
        self.running += 1;
        self.size += size;
        let held = Held::taken(budget.clone(), size);
        self.queue.push_back(Box::new(move || {
            let result = work();
            done.lock().push((size, held, result));
            mailbox.ring();
        }));
    }

    /// The next that nobody runs yet.
    pub(crate) fn take(&mut self) -> Option<Job> {
        self.queue.pop_front()
    }

    /// How many have not ended.
    pub(crate) const fn count(&self) -> usize {
        self.running
    }

    /// About what they may take, bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// What they have got ready, each with what it holds until it is put to use.
    pub(crate) fn take_done(&mut self) -> Vec<(Held, D)> {
        let done = std::mem::take(&mut *self.done.lock());
        self.running -= done.len();
        self.size -= done.iter().map(|(size, ..)| size).sum::<usize>();
        done.into_iter().map(|(_, held, result)| (held, result)).collect()
    }
}
