//! Work that a session has done away from the network threads, since it may wait for a disk.
//!
//! **Always holds**: what a job may take is counted before it begins. What turns out to take more is large: it is begun, in order, once what
//! runs and what the client has not taken leave room.

use std::collections::VecDeque;
use std::sync::Arc;

use base::budget::{Budget, Held};
use base::session::Job;
use broker::Mailbox;
use parking_lot::Mutex;

/// Jobs of one session; each has a `D` ready at its end.
pub(crate) struct Jobs<D> {
    queue: VecDeque<Job>,
    /// Those that are begun once there is room.
    large: VecDeque<Large<D>>,
    running: usize,
    size: usize,
    /// How many have ended without having anything ready.
    lost: usize,
    done: Arc<Mutex<Vec<Ended<D>>>>,
}

struct Large<D> {
    size: usize,
    budget: Arc<Budget>,
    mailbox: Arc<Mailbox>,
    work: Box<dyn FnOnce() -> D + Send>,
}

/// What a job has ready, with the bytes it was counted as, here and for all connections; nothing, if it has panicked.
struct Ended<D> {
    size: usize,
    held: Held,
    done: Option<D>,
}

/// Tells of the end of a job, however that came.
struct Ending<D> {
    ended: Option<Ended<D>>,
    done: Arc<Mutex<Vec<Ended<D>>>>,
    mailbox: Arc<Mailbox>,
}

impl<D> Drop for Ending<D> {
    fn drop(&mut self) {
        self.done.lock().extend(self.ended.take());
        self.mailbox.ring();
    }
}

impl<D> Default for Jobs<D> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), large: VecDeque::new(), running: 0, size: 0, lost: 0, done: Arc::default() }
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
        self.running += 1;
        self.queue_up(size, budget, mailbox, work);
    }

    /// The same, begun only once there is room.
    pub(crate) fn run_large(
        &mut self,
        size: usize,
        budget: &Arc<Budget>,
        mailbox: &Arc<Mailbox>,
        work: impl FnOnce() -> D + Send + 'static,
    ) {
        self.running += 1;
        let (budget, mailbox) = (budget.clone(), mailbox.clone());
        self.large.push_back(Large { size, budget, mailbox, work: Box::new(work) });
    }

    fn queue_up(
        &mut self,
        size: usize,
        budget: &Arc<Budget>,
        mailbox: &Arc<Mailbox>,
        work: impl FnOnce() -> D + Send + 'static,
    ) {
        self.size += size;
        let ended = Some(Ended { size, held: Held::taken(budget.clone(), size), done: None });
        let mut ending = Ending { ended, done: self.done.clone(), mailbox: mailbox.clone() };
        self.queue.push_back(Box::new(move || {
            let done = work();
            if let Some(ended) = &mut ending.ended {
                ended.done = Some(done);
            }
        }));
    }

    /// The next that nobody runs yet, while jobs have room for `room` bytes.
    pub(crate) fn take(&mut self, room: usize) -> Option<Job> {
        if self.may_begin_large(room)
            && let Some(Large { size, budget, mailbox, work }) = self.large.pop_front()
        {
            self.queue_up(size, &budget, &mailbox, work);
        }
        self.queue.pop_front()
    }

    /// Whether a large one may be begun. One takes as much as it does: what runs is within the bound without it.
    pub(crate) fn may_begin_large(&self, room: usize) -> bool {
        !self.large.is_empty() && self.size < room
    }

    /// Whether there are large ones that were not begun.
    pub(crate) fn has_large(&self) -> bool {
        !self.large.is_empty()
    }

    /// How many have not ended, begun or not.
    pub(crate) const fn count(&self) -> usize {
        self.running
    }

    /// About what those may take that were begun, bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// What they have got ready, each with what it holds until it is put to use.
    pub(crate) fn take_done(&mut self) -> Vec<(Held, D)> {
        let ended = std::mem::take(&mut *self.done.lock());
        self.running -= ended.len();
        self.size -= ended.iter().map(|ended| ended.size).sum::<usize>();
        self.lost += ended.iter().filter(|ended| ended.done.is_none()).count();
        ended.into_iter().filter_map(|Ended { held, done, .. }| Some((held, done?))).collect()
    }

    /// How many have had nothing ready since this was asked last.
    pub(crate) const fn take_lost(&mut self) -> usize {
        std::mem::replace(&mut self.lost, 0)
    }
}
