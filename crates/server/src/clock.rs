//! The clock: read here, passed in everywhere else.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// The time now.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How long until `deadline`.
pub(crate) fn until(deadline: Timestamp) -> Duration {
    Duration::from_millis(deadline.ms_since(now()))
}

/// Processor time the calling thread has used.
pub(crate) fn thread_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or_default(), u32::try_from(used.tv_nsec).unwrap_or_default())
}

/// The hour of the day in UTC, 0 to 23.
pub(crate) fn hour_of_day(now: Timestamp) -> u8 {
    u8::try_from(now.0 / 3_600_000 % 24).unwrap_or_default()
}
