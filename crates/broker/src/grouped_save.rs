//! One save for many who wait for it: whoever asks while another writes is served with all who ask meanwhile, by one more write.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// Who has asked for a save, and whose changes are saved.
#[derive(Debug, Default)]
pub(crate) struct GroupedSave {
    /// How many have asked.
    asked: AtomicU64,
    /// How many of them are served. Held through a save.
    served: Mutex<u64>,
}

impl GroupedSave {
    /// Has `write` save everything there is, unless somebody's did that who began after this was called.
    pub(crate) fn save<E>(&self, write: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let own = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut served = self.served.lock();
        let mut outcome = Ok(());
        if *served < own {
            let all = self.asked.load(Ordering::Acquire);
            outcome = write();
            if outcome.is_ok() {
                *served = all;
            }
        }
        // Those who are served leave before anyone who asks again comes in, who would otherwise have a write for himself alone.
        MutexGuard::unlock_fair(served);
        outcome
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const WAITING: usize = 16;

    #[test]
    fn one_write_serves_all_that_wait_and_none_is_served_without_its_change() {
        let save = GroupedSave::default();
        let (value, written, writes) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let write = || {
            writes.fetch_add(1, Ordering::SeqCst);
            written.store(value.load(Ordering::SeqCst), Ordering::SeqCst);
            Ok::<(), ()>(())
        };
        std::thread::scope(|scope| {
            let first = save.save(|| {
                for _ in 0..WAITING {
                    scope.spawn(|| {
                        let own = value.fetch_add(1, Ordering::SeqCst) + 1;
                        save.save(write).expect("saves");
                        assert!(written.load(Ordering::SeqCst) >= own, "served without its change");
                    });
                }
                // This one began before any of theirs.
                while save.asked.load(Ordering::SeqCst) <= WAITING as u64 {
                    std::thread::yield_now();
                }
                Ok::<(), ()>(())
            });
            first.expect("saves");
        });
        assert_eq!(writes.into_inner(), 1);
    }

    #[test]
    fn what_could_not_be_saved_is_saved_by_whoever_asks_next() {
        let save = GroupedSave::default();
        assert_eq!(save.save(|| Err("full")), Err("full"));
        assert_eq!(save.save(|| Err("still full")), Err("still full"));
    }
}
