//! A connection between two sessions: what each has said and the other has not heard yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use base::Now;
use base::session::Session;
use bytes::BytesMut;

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One end.
struct End<S> {
    session: S,
    woken: Arc<Woken>,
    /// What the other has said.
    arriving: BytesMut,
    /// What of it is in front of the session.
    input: BytesMut,
}

impl<S: Session> End<S> {
    fn of(open: impl FnOnce(Waker) -> S) -> Self {
        let woken = Arc::<Woken>::default();
        let session = open(Waker::from(woken.clone()));
        Self { session, woken, arriving: BytesMut::new(), input: BytesMut::new() }
    }

    /// Takes in so many bytes and goes on. Gives what it says.
    fn step(&mut self, bytes: usize, now: Now) -> Result<Vec<u8>, String> {
        let arrived = self.arriving.split_to(bytes.min(self.arriving.len()));
        self.input.unsplit(arrived);
        if !self.input.is_empty() && self.session.wants_input() {
            self.session.receive(&mut self.input, now).map_err(|reason| reason.0)?;
        }
        let is_due = self.session.deadline().is_some_and(|deadline| deadline <= now.monotonic);
        if is_due || self.woken.0.swap(false, Ordering::Relaxed) {
            self.session.wake(now);
        }
        while let Some(job) = self.session.take_job() {
            job();
            self.session.wake(now);
        }
        let said = self.session.output().take_all();
        self.session.close_reason().map_or(Ok(said.to_vec()), |reason| Err(reason.0))
    }

    fn close(mut self, now: Now) {
        self.session.closed(now);
        while let Some(job) = self.session.take_job() {
            job();
        }
    }
}

/// Both ends: who opened the connection, and who accepted it.
pub(super) struct Line<N, F> {
    near: End<N>,
    far: End<F>,
}

impl<N: Session, F: Session> Line<N, F> {
    pub(super) fn of(near: impl FnOnce(Waker) -> N, far: impl FnOnce(Waker) -> F) -> Self {
        Self { near: End::of(near), far: End::of(far) }
    }

    /// Both go on; at most so many bytes arrive at each. An error tells why the connection ends.
    pub(super) fn step(&mut self, bytes: usize, now: Now) -> Result<(), String> {
        let said = self.near.step(bytes, now)?;
        self.far.arriving.extend_from_slice(&said);
        let said = self.far.step(bytes, now)?;
        self.near.arriving.extend_from_slice(&said);
        Ok(())
    }

    /// It breaks.
    pub(super) fn close(self, now: Now) {
        self.near.close(now);
        self.far.close(now);
    }
}
