//! Work that a session has done away from the network threads, since it may wait for a disk.
//!
//! **Always holds**: what a job may take is counted before it begins, here and for all connections. Messages are read in the order in which
//! that was asked for, as there is room for what the reads take beside what the client has not taken; other work begins at once.

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
    reads: VecDeque<Read<D>>,
    running: usize,
    size: usize,
    /// Of that, what reads take.
    reads_size: usize,
    /// How many have ended without having anything ready.
    lost: usize,
    done: Arc<Mutex<Vec<Ended<D>>>>,
}

/// Whether a read was begun, or there is nobody any more for whom it was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    Yes,
    No,
}

/// Messages to be read.
struct Read<D> {
    /// For whom.
    reader: u64,
    size: usize,
    budget: Arc<Budget>,
    mailbox: Arc<Mailbox>,
    work: Box<dyn FnOnce(Begun) -> D + Send>,
}

/// What a job has ready, with the bytes it was counted as, here and for all connections; nothing, if it has panicked.
struct Ended<D> {
    size: usize,
    is_read: bool,
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
        Self {
            queue: VecDeque::new(),
            reads: VecDeque::new(),
            running: 0,
            size: 0,
            reads_size: 0,
            lost: 0,
            done: Arc::default(),
        }
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
        let ending = self.ending((size, false), budget, mailbox);
        self.queue.push_back(job(ending, work));
    }

    /// Queues work that reads up to `size` bytes of messages for `reader`.
    pub(crate) fn read(
        &mut self,
        (reader, size): (u64, usize),
        budget: &Arc<Budget>,
        mailbox: &Arc<Mailbox>,
        work: impl FnOnce(Begun) -> D + Send + 'static,
    ) {
        self.running += 1;
        let (budget, mailbox) = (budget.clone(), mailbox.clone());
        self.reads.push_back(Read { reader, size, budget, mailbox, work: Box::new(work) });
    }

    /// Ends the reads that were not begun and whose reader is such a one; gives what they have ready.
    pub(crate) fn end_reads(&mut self, is_gone: impl Fn(u64) -> bool) -> Vec<D> {
        let reads = std::mem::take(&mut self.reads).into_iter();
        let (ended, kept): (VecDeque<_>, VecDeque<_>) = reads.partition(|read| is_gone(read.reader));
        self.reads = kept;
        self.running -= ended.len();
        ended.into_iter().map(|read| (read.work)(Begun::No)).collect()
    }

    /// Counts what a job takes.
    fn ending(&mut self, (size, is_read): (usize, bool), budget: &Arc<Budget>, mailbox: &Arc<Mailbox>) -> Ending<D> {
        self.size += size;
        self.reads_size += if is_read { size } else { 0 };
        let ended = Some(Ended { size, is_read, held: Held::taken(budget.clone(), size), done: None });
        Ending { ended, done: self.done.clone(), mailbox: mailbox.clone() }
    }

    /// The next that nobody runs yet, while there is room for `room` bytes of what is read.
    pub(crate) fn take(&mut self, room: usize) -> Option<Job> {
        if self.may_begin_read(room)
            && let Some(Read { size, budget, mailbox, work, .. }) = self.reads.pop_front()
        {
            return Some(job(self.ending((size, true), &budget, &mailbox), || work(Begun::Yes)));
        }
        self.queue.pop_front()
    }

    /// Whether the next read may begin. It takes as much as it does: others are within the bound without it.
    pub(crate) fn may_begin_read(&self, room: usize) -> bool {
        !self.reads.is_empty() && self.reads_size < room
    }

    /// How many have not ended, begun or not.
    pub(crate) const fn count(&self) -> usize {
        self.running
    }

    /// About what those may take that are counted, bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// What they have got ready, each with what it holds until it is put to use.
    pub(crate) fn take_done(&mut self) -> Vec<(Held, D)> {
        let ended = std::mem::take(&mut *self.done.lock());
        self.running -= ended.len();
        for Ended { size, is_read, done, .. } in &ended {
            self.size -= size;
            self.reads_size -= if *is_read { *size } else { 0 };
            self.lost += usize::from(done.is_none());
        }
        ended.into_iter().filter_map(|Ended { held, done, .. }| Some((held, done?))).collect()
    }

    /// How many have had nothing ready since this was asked last.
    pub(crate) const fn take_lost(&mut self) -> usize {
        std::mem::replace(&mut self.lost, 0)
    }
}

fn job<D: Send + 'static>(mut ending: Ending<D>, work: impl FnOnce() -> D + Send + 'static) -> Job {
    Box::new(move || {
        let done = work();
        if let Some(ended) = &mut ending.ended {
            ended.done = Some(done);
        }
    })
}
