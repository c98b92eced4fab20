//! Threads that must not wait for a disk: what would wait there is found by a panic that names it.
//!
//! Only the disks of tests ask. What the page cache or a file's memory takes or gives at once does not count: writing a part of a file,
//! reading what is cached, opening.

use std::cell::Cell;
use std::path::Path;

thread_local! {
    static MAY_WAIT: Cell<bool> = const { Cell::new(true) };
}

/// Gives the thread back what it was allowed before.
struct Before(bool);

impl Drop for Before {
    fn drop(&mut self) {
        MAY_WAIT.set(self.0);
    }
}

/// Runs `act` as a thread does that serves connections: it panics where a disk of tests may have to be waited for.
pub fn without_waiting<T>(act: impl FnOnce() -> T) -> T {
    let _before = Before(MAY_WAIT.replace(false));
    act()
}

/// What follows may take as long as a disk takes.
pub(super) fn wait(operation: &str, path: &Path) {
    assert!(MAY_WAIT.get(), "a thread that serves connections waits for the disk: {operation} {}", path.display());
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn only_what_is_run_without_waiting_may_not_wait_and_the_thread_may_afterwards() {
        let waits = || catch_unwind(|| wait("read", Path::new("a"))).is_ok();
        assert!(waits());
        assert!(!without_waiting(waits));
        assert!(waits());
        assert!(catch_unwind(|| without_waiting(|| wait("sync", Path::new("b")))).is_err());
        assert!(waits());
    }
}
