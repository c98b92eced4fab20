//! Both clocks as tests set them.

use base::{Monotonic, Now, Timestamp};

/// What the two clocks differ by, so that one is not taken for the other unnoticed.
const APART_MS: u64 = 1_000_000_007;

/// The moment at which the wall clock says `wall_ms`; both clocks go on together (`Now::plus_ms`) until a test sets one.
pub const fn at(wall_ms: u64) -> Now {
    Now { wall: Timestamp(wall_ms), monotonic: Monotonic(wall_ms.saturating_add(APART_MS)) }
}

/// The same moment by a wall clock that was set by so much; below 0, set back.
pub const fn clock_set(now: Now, by_ms: i64) -> Now {
    Now { wall: Timestamp(now.wall.0.saturating_add_signed(by_ms)), ..now }
}

/// An hour back and an hour forward: no deadline moves by it.
pub const CLOCK_STEPS_MS: [i64; 2] = [-3_600_000, 3_600_000];
