//! Asking the disk once more for what it could not read, since it may fail in passing.

/// So often what cannot be read is asked for again before it counts as damaged.
pub(crate) const ASKED_AGAIN: usize = 2;

/// What `read` reads; where it cannot, it is asked again.
pub(crate) fn asked_again<T, E>(
    is_unreadable: impl Fn(&E) -> bool,
    mut read: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut outcome = read();
    for _ in 0..ASKED_AGAIN {
        if outcome.as_ref().is_err_and(&is_unreadable) {
            outcome = read();
        }
    }
    outcome
}
