//! Runs jobs of sessions that may block, on the runtime's blocking pool.
//!
//! The number of threads is bounded per broker, and the pool is large enough for all bounds together. So a broker whose disk hangs
//! delays no other broker's jobs.

use std::collections::VecDeque;
use std::sync::Arc;

use base::session::Job;
use parking_lot::Mutex;

/// Most jobs of one broker, or of the name server, that run at the same time. Others queue.
pub(crate) const JOBS_AT_ONCE_MAX: usize = 128;

/// The jobs of one broker, or of the name server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    running: usize,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} running, {} waiting", self.running, self.waiting.len())
    }
}

/// A thread that runs jobs until the queue is empty.
struct Worker(Jobs);

impl Jobs {
    /// Runs `job` as soon as a thread is free. Must be called on a runtime thread.
    pub(crate) fn run(&self, job: Job) {
        let mut state = self.0.lock();
        if state.running == JOBS_AT_ONCE_MAX {
            state.waiting.push_back(job);
            return;
        }
        state.running += 1;
        drop(state);
        let worker = Worker(self.clone());
        tokio::task::spawn_blocking(move || worker.work(job));
    }
}

impl Worker {
    fn work(self, first: Job) {
        let mut next = Some(first);
        while let Some(job) = next {
            job();
            next = self.0.0.lock().waiting.pop_front();
        }
    }
}

impl Drop for Worker {
    /// Runs after a panic too, so that the bound does not shrink.
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.running -= 1;
        let next = state.waiting.pop_front();
        drop(state);
        if let Some(job) = next {
            self.0.run(job);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn runtime(brokers: usize) -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(brokers * JOBS_AT_ONCE_MAX).build().expect("a runtime")
    }

    #[test]
    fn a_broker_whose_jobs_all_hang_takes_no_thread_from_another() {
        let runtime = runtime(2);
        let _inside = runtime.enter();
        let (hanging, other) = (Jobs::default(), Jobs::default());
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let (ended, ends) = mpsc::channel();
        let count = 4 * JOBS_AT_ONCE_MAX;
        for _ in 0..count {
            let (released, ended) = (released.clone(), ended.clone());
            hanging.run(Box::new(move || {
                let _ = released.lock().recv();
                ended.send("hung").expect("heard");
            }));
        }
        other.run(Box::new(move || ended.send("other").expect("heard")));
        assert_eq!(ends.recv_timeout(LIMIT), Ok("other"));
        // None is lost.
        drop(release);
        (0..count).for_each(|_| assert_eq!(ends.recv_timeout(LIMIT), Ok("hung")));
    }

    #[test]
    fn a_job_that_panics_keeps_no_other_from_being_done() {
        let runtime = runtime(1);
        let _inside = runtime.enter();
        let jobs = Jobs::default();
        let (ended, ends) = mpsc::channel();
        for number in 0..3 * JOBS_AT_ONCE_MAX {
            let ended = ended.clone();
            jobs.run(Box::new(move || {
                let _tells = (number % 2 == 0).then(|| ended.send(()));
                assert!(number % 2 == 0, "as it should");
            }));
        }
        (0..3 * JOBS_AT_ONCE_MAX / 2).for_each(|_| assert_eq!(ends.recv_timeout(LIMIT), Ok(())));
    }
}
