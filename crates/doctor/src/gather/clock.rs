//! The clock: what the kernel counts time with, and whether someone keeps it in step.

use super::super::facts::Clock;
use super::text;

pub fn look() -> Clock {
    let (is_synchronised, error_us_max) = discipline().map_or((None, None), |(is, error)| (Some(is), Some(error)));
    Clock {
        source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        is_synchronised,
        error_us_max,
    }
}

/// What the kernel knows of the clock's discipline: whether there is any, and the largest error in microseconds.
fn discipline() -> Option<(bool, u64)> {
    #[expect(unsafe_code, reason = "only adjtimex tells whether the clock is kept in step")]
    // SAFETY: the kernel fills in the structure, which is all integers; with no modes set it changes nothing.
    let (state, clock) = unsafe {
        let mut clock: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut clock), clock)
    };
    if state < 0 {
        return None;
    }
    let is_synchronised = state != libc::TIME_ERROR && clock.status & libc::STA_UNSYNC == 0;
    Some((is_synchronised, u64::try_from(clock.maxerror).unwrap_or(0)))
}
