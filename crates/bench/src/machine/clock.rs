//! The two clocks of a run: monotonic nanoseconds since it began, and wall-clock milliseconds for the wire; and how long the machine
//! leaves a thread waiting that wants nothing but to be woken: no program on it can promise less.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;
const SLEEP: Duration = Duration::from_millis(1);
const SLEEP_NS: u64 = SECOND_NS / 1000;

/// Measures from the moment it was made; every thread of a run has a copy of the same one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that stands at 0 now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Nanoseconds since the start.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or(0);
    seconds * SECOND_NS + u64::try_from(spent.tv_nsec).unwrap_or(0)
}

/// Seconds as nanoseconds; what is negative or not a number is 0.
pub fn seconds_to_ns(seconds: f64) -> u64 {
    (seconds.max(0.0) * SECOND_NS as f64) as u64
}

/// Nanoseconds as seconds.
pub fn ns_to_seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / SECOND_NS as f64
}

/// Nanoseconds as milliseconds.
pub fn ns_to_ms(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// Sleeps for a millisecond again and again until `is_over`, and tells `late` each time when it woke and by how many nanoseconds late:
/// its processor was elsewhere, with other work, or, on a virtual machine, with other guests of the host.
pub fn watch_pauses(clock: Clock, is_over: impl Fn() -> bool, mut late: impl FnMut(u64, u64)) {
    let mut begun_ns = clock.now_ns();
    while !is_over() {
        thread::sleep(SLEEP);
        let now_ns = clock.now_ns();
        late(now_ns, (now_ns - begun_ns).saturating_sub(SLEEP_NS));
        begun_ns = now_ns;
    }
}
