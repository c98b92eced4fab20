//! A session that tells how much it has taken, also when what came was encrypted.

use std::sync::Arc;

use base::budget::Budget;
use base::session::{CloseReason, Job, Output, Session};
use base::{Monotonic, Now};
use bytes::BytesMut;

/// A session, and the bytes it has taken.
pub(crate) struct Counting<S> {
    session: S,
    taken: usize,
}

impl<S> Counting<S> {
    pub(crate) const fn new(session: S) -> Self {
        Self { session, taken: 0 }
    }

    /// Bytes it has taken since this was asked last: whole frames.
    pub(crate) const fn take_count(&mut self) -> usize {
        std::mem::replace(&mut self.taken, 0)
    }
}

impl<S: Session> Session for Counting<S> {
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
        let before = input.len();
        let outcome = self.session.receive(input, now);
        self.taken += before - input.len();
        outcome
    }

    fn wake(&mut self, now: Now) {
        self.session.wake(now);
    }

    fn output(&mut self) -> &mut Output {
        self.session.output()
    }

    fn deadline(&self) -> Option<Monotonic> {
        self.session.deadline()
    }

    fn wants_input(&self) -> bool {
        self.session.wants_input()
    }

    fn held_size(&self) -> usize {
        self.session.held_size()
    }

    fn frame_size(&self, input: &[u8]) -> usize {
        self.session.frame_size(input)
    }

    fn share(&mut self, budget: Arc<Budget>) {
        self.session.share(budget);
    }

    fn idle_timeout_ms(&self) -> Option<u64> {
        self.session.idle_timeout_ms()
    }

    fn is_busy(&self) -> bool {
        self.session.is_busy()
    }

    fn has_paused(&self) -> bool {
        self.session.has_paused()
    }

    fn holds_input(&self) -> bool {
        self.session.holds_input()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.session.close_reason()
    }

    fn detach_output(&mut self) {
        self.session.detach_output();
    }

    fn finish(&mut self) {
        self.session.finish();
    }

    fn take_job(&mut self) -> Option<Job> {
        self.session.take_job()
    }

    fn closed(&mut self, now: Now) {
        self.session.closed(now);
    }
}
