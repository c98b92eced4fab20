//! Reads the clocks, which are passed in everywhere else. Cheap: the kernel answers without a system call (vDSO).

use std::time::Duration;

use base::{Monotonic, Now, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};

pub(crate) fn now() -> Now {
    Now { wall: Timestamp(milliseconds(clock_gettime(ClockId::Realtime))), monotonic: monotonic() }
}

/// Reads only the clock that cannot be set.
pub(crate) fn monotonic() -> Monotonic {
    Monotonic(milliseconds(clock_gettime(ClockId::Boottime)))
}

pub(crate) fn after(from: Monotonic, wait: Duration) -> Monotonic {
    from.plus_ms(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

/// Processor time the calling thread has used.
pub(crate) fn thread_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or_default(), u32::try_from(used.tv_nsec).unwrap_or_default())
}

/// 0 for times before 1970.
fn milliseconds(time: Timespec) -> u64 {
    Duration::try_from(time).map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
