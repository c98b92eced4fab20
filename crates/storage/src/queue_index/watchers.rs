//! The wakers that wait for a queue's next entry.

use std::collections::BTreeMap;
use std::task::Waker;

/// Wakers by identity (as `Waker::will_wake` compares them), so that one of thousands is removed fast; each with its turn.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    waiting: BTreeMap<(usize, usize), (u64, Waker)>,
    turns: u64,
}

impl Watchers {
    pub(super) fn add(&mut self, waker: Waker) {
        self.turns += 1;
        self.waiting.insert(key(&waker), (self.turns, waker));
    }

    pub(super) fn remove(&mut self, waker: &Waker) {
        self.waiting.remove(&key(waker));
    }

    /// Takes all, those first that have waited longest. Not in the map's order, which differs from run to run.
    pub(super) fn take(&mut self) -> Vec<Waker> {
        let mut taken: Vec<_> = std::mem::take(&mut self.waiting).into_values().collect();
        taken.sort_unstable_by_key(|(turn, _)| *turn);
        taken.into_iter().map(|(_, waker)| waker).collect()
    }
}

fn key(waker: &Waker) -> (usize, usize) {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use parking_lot::Mutex;

    use super::*;

    struct Numbered(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Numbered {
        fn wake(self: Arc<Self>) {
            self.1.lock().push(self.0);
        }
    }

    #[test]
    fn who_waits_for_longest_is_woken_first() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut wakers: Vec<_> = (0..20).map(|number| Waker::from(Arc::new(Numbered(number, woken.clone())))).collect();
        // Whatever their addresses are.
        wakers.reverse();
        let mut watchers = Watchers::default();
        wakers.iter().for_each(|waker| watchers.add(waker.clone()));
        watchers.remove(&wakers[3]);
        watchers.take().into_iter().for_each(Waker::wake);
        let expected: Vec<_> = (0..20).rev().filter(|number| *number != 16).collect();
        assert_eq!(*woken.lock(), expected);
        assert!(watchers.take().is_empty());
    }
}
