//! How long steps take.

use std::time::Duration;

use serde::Serialize;

use crate::compare::start_up::StartUp;

/// How thorough a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Seconds a step: all field notes in some minutes.
    Quick,
    /// Long enough for figures to be quoted.
    #[default]
    Full,
    /// So many seconds a step.
    Lasting(u32),
}

impl Scale {
    /// Length of a step.
    pub const fn seconds(self) -> f64 {
        match self {
            Self::Quick => 2.0,
            Self::Full => 20.0,
            Self::Lasting(seconds) => seconds as f64,
        }
    }

    /// Length of each measurement of the machine without a broker.
    pub const fn limit_seconds(self) -> f64 {
        match self {
            Self::Quick => 0.3,
            Self::Full | Self::Lasting(_) => 1.0,
        }
    }

    /// Load before a step is measured.
    pub const fn warm_up_seconds(self) -> f64 {
        match self {
            Self::Quick => 0.8,
            Self::Full | Self::Lasting(_) => 3.0,
        }
    }

    /// Load on a broker that was just started, and that of each step, before anything is measured.
    pub const fn start_up(self) -> StartUp {
        match self {
            Self::Quick => StartUp { slice: Duration::from_secs(1), slices_max: 16 },
            Self::Full | Self::Lasting(_) => StartUp { slice: Duration::from_secs(2), slices_max: 20 },
        }
    }

    /// How long a backlog is read again and again: a short one is read in less time than the machine may pause.
    pub const fn reading_seconds(self) -> f64 {
        match self {
            Self::Quick => 2.0,
            Self::Full | Self::Lasting(_) => 0.0,
        }
    }

    /// Messages of a backlog that the field note made `full` of.
    pub const fn backlog(self, full: u64) -> u64 {
        match self {
            Self::Quick => full / 10,
            Self::Full | Self::Lasting(_) => full,
        }
    }
}
