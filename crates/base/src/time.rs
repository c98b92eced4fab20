//! The time as values: it is passed in, never read, below the crate `server`.
//!
//! Whoever takes the time takes [`Now`]. What is kept of it is a [`Timestamp`] where it belongs to a record or is shown to people, and a
//! [`Monotonic`] where it says how long something lasts: setting the clock moves no deadline, lease or interval.

/// A reading of the wall clock: milliseconds since 1970-01-01T00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// A reading of the clock that nobody sets: milliseconds since the machine started, those it was suspended for too. It never goes back,
/// and means nothing to another process or after a restart: it is neither stored nor sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(pub u64);

/// Both clocks, read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For records, what is computed from their times, and people.
    pub wall: Timestamp,
    /// For deadlines, leases, timeouts and intervals.
    pub monotonic: Monotonic,
}

impl Timestamp {
    /// The moment `milliseconds` later.
    pub const fn plus_ms(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// Milliseconds from `earlier` to here; 0 when `earlier` is later.
    pub const fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The hour of the day in UTC, 0 to 23.
    pub const fn hour_of_day(self) -> u8 {
        (self.0 / 3_600_000 % 24) as u8
    }
}

impl Monotonic {
    /// The moment `milliseconds` later.
    pub const fn plus_ms(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// Milliseconds from `earlier` to here; 0 when `earlier` is later.
    pub const fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Now {
    /// The moment `milliseconds` later by both clocks.
    pub const fn plus_ms(self, milliseconds: u64) -> Self {
        Self { wall: self.wall.plus_ms(milliseconds), monotonic: self.monotonic.plus_ms(milliseconds) }
    }
}
