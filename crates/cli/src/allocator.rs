//! The allocator of the process, and when it gives memory back to the system.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, for which the bindings have no name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Has memory given back as soon as it is free. By itself the allocator waits for a second, and then for a thread that happens to
/// come by: a broker kept for good what one burst had taken.
pub(crate) fn give_back_at_once() {
    #[expect(unsafe_code, reason = "it sets a number, which any thread may do at any time")]
    // SAFETY: an option that exists, with a value that its description allows.
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options are numbered by their positions in a list: the one that is a second by itself is the delay.
    #[test]
    fn the_number_of_the_option_is_that_of_the_delay() {
        let value = || {
            #[expect(unsafe_code, reason = "it reads a number")]
            // SAFETY: an option that exists.
            unsafe {
                libmimalloc_sys::mi_option_get(PURGE_DELAY)
            }
        };
        assert_eq!(value(), 1000);
        give_back_at_once();
        assert_eq!(value(), 0);
    }
}
