//! Tracks which changes of topics each name server knows, so that creating a topic is answered only once clients can find it.
//!
//! Changes are numbered. A name server that answered a registration knows all changes up to the number read before the topic table
//! was. Only reachable name servers are waited for: from their first answer until their connection fails.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Most callers that wait at the same time, since each blocks a thread of the blocking pool. Further ones do not wait.
const WAITING_MAX: usize = 32;

/// The number of the last change, and the last one that each name server knows.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    state: Mutex<State>,
    told: Condvar,
}

#[derive(Debug, Default)]
struct State {
    changes: u64,
    name_servers: Vec<NameServer>,
    waiting: usize,
}

#[derive(Debug, Default)]
struct NameServer {
    /// The last change it knows; `None` while it cannot be reached.
    known: Option<u64>,
    /// Wakes the session that tells it.
    session: Option<Waker>,
}

impl Announcements {
    pub(crate) fn note_change(&self) {
        let mut state = self.state.lock();
        state.changes += 1;
        state.name_servers.iter().filter_map(|one| one.session.as_ref()).for_each(Waker::wake_by_ref);
    }

    /// Sessions have something else to ask.
    pub(crate) fn wake_sessions(&self) {
        let state = self.state.lock();
        state.name_servers.iter().filter_map(|one| one.session.as_ref()).for_each(Waker::wake_by_ref);
    }

    /// Number of the last change; must be read before the topic table that is sent.
    pub(crate) fn last_change(&self) -> u64 {
        self.state.lock().changes
    }

    /// Adds a name server, unreachable at first.
    pub(crate) fn join(self: &Arc<Self>) -> Slot {
        let mut state = self.state.lock();
        state.name_servers.push(NameServer::default());
        Slot { announcements: self.clone(), index: state.name_servers.len() - 1 }
    }

    /// Waits until all reachable name servers know all changes so far, at most for `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut state = self.state.lock();
        let wanted = state.changes;
        let waits = |state: &State| state.name_servers.iter().filter_map(|one| one.known).any(|known| known < wanted);
        if waits(&state) && state.waiting == WAITING_MAX {
            return;
        }
        state.waiting += 1;
        while waits(&state) {
            if self.told.wait_until(&mut state, deadline).timed_out() {
                tracing::debug!("a name server takes long to learn of a new topic: its creation is answered before");
                break;
            }
        }
        state.waiting -= 1;
    }
}

/// One name server's entry in `State::name_servers`.
#[derive(Debug)]
pub(crate) struct Slot {
    announcements: Arc<Announcements>,
    index: usize,
}

impl Slot {
    /// The number of the last change there is.
    pub(crate) fn last_change(&self) -> u64 {
        self.announcements.last_change()
    }

    /// From now on each change wakes this session.
    pub(crate) fn wake_by(&self, session: Waker) {
        self.change(|one| one.session = Some(session));
    }

    /// It knows all changes up to this one.
    pub(crate) fn knows(&self, change: u64) {
        self.change(|one| one.known = Some(change));
    }

    /// It cannot be reached, and is not waited for.
    pub(crate) fn is_lost(&self) {
        self.change(|one| *one = NameServer::default());
    }

    fn change(&self, change: impl FnOnce(&mut NameServer)) {
        if let Some(one) = self.announcements.state.lock().name_servers.get_mut(self.index) {
            change(one);
        }
        self.announcements.told.notify_all();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.is_lost();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    /// Longer than any test runs.
    const LONG: Duration = Duration::from_secs(600);

    /// Begins to wait on a thread of its own; what is received tells that the wait is over.
    fn wait(announcements: &Arc<Announcements>) -> mpsc::Receiver<()> {
        let (over, waited) = mpsc::channel();
        let announcements = announcements.clone();
        thread::spawn(move || {
            announcements.wait(LONG);
            let _ = over.send(());
        });
        waited
    }

    #[test]
    fn without_a_name_server_that_can_be_reached_nobody_waits() {
        let announcements = Arc::<Announcements>::default();
        announcements.note_change();
        announcements.wait(LONG);
        let _unreached = announcements.join();
        announcements.wait(LONG);
    }

    #[test]
    fn the_wait_is_over_when_the_last_of_them_knows_of_what_was_made_before_it() {
        let announcements = Arc::<Announcements>::default();
        let (one, two) = (announcements.join(), announcements.join());
        one.knows(0);
        two.knows(0);
        announcements.note_change();
        let waited = wait(&announcements);
        one.knows(announcements.last_change());
        assert!(waited.try_recv().is_err(), "the other does not know yet");
        two.knows(1);
        waited.recv().expect("it ends");
    }

    #[test]
    fn one_that_is_lost_or_leaves_is_not_waited_for() {
        let announcements = Arc::<Announcements>::default();
        let (one, two) = (announcements.join(), announcements.join());
        one.knows(0);
        two.knows(0);
        announcements.note_change();
        let waited = wait(&announcements);
        one.is_lost();
        drop(two);
        waited.recv().expect("it ends");
    }

    #[test]
    fn no_more_wait_than_leaves_threads_to_others() {
        let announcements = Arc::<Announcements>::default();
        let slot = announcements.join();
        slot.knows(0);
        announcements.note_change();
        let (over, ended) = mpsc::channel();
        for _ in 0..=WAITING_MAX {
            let (announcements, over) = (announcements.clone(), over.clone());
            thread::spawn(move || {
                announcements.wait(LONG);
                let _ = over.send(());
            });
        }
        ended.recv_timeout(Duration::from_secs(60)).expect("one too many does not wait");
        assert!(ended.try_recv().is_err(), "the others do");
        slot.knows(1);
        (0..WAITING_MAX).for_each(|_| ended.recv().expect("ends"));
        announcements.note_change();
        let waited = wait(&announcements);
        slot.knows(2);
        waited.recv().expect("there is room again");
    }

    #[test]
    fn one_that_does_not_answer_is_waited_for_no_longer_than_the_limit() {
        let announcements = Arc::<Announcements>::default();
        let slot = announcements.join();
        slot.knows(0);
        announcements.note_change();
        announcements.wait(Duration::from_millis(1));
    }
}
