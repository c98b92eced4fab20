//! Decides when old segments are removed, by age, log size and disk use, and when appends are refused. Pure: no clock, no disk.

/// Hysteresis: a disk state ends only when disk use is this far below the threshold where it began, so that it does not flap with
/// every small file.
const DISK_SLACK_PERCENT: u8 = 2;

/// The settings `retention.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// A segment expires this long after the last write to it.
    pub age_ms: u64,
    /// Hours of the day (UTC) at which expired segments are removed.
    pub delete_hours: Vec<u8>,
    /// Log size in bytes above which the oldest segments are removed before they expire; `None`: no limit.
    pub size: Option<u64>,
    /// Disk use above which expired segments are removed at any hour.
    pub disk_used_percent: u8,
    /// Disk use above which the oldest segments are removed before they expire; `None`: they never are.
    pub disk_force_percent: Option<u8>,
    /// Disk use above which appends are refused.
    pub disk_refuse_percent: u8,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self {
            age_ms: 72 * 3_600_000,
            delete_hours: vec![4],
            size: None,
            disk_used_percent: 75,
            disk_force_percent: Some(85),
            disk_refuse_percent: 90,
        }
    }
}

/// Disk use compared with the thresholds of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskState {
    /// Below all thresholds.
    #[default]
    Roomy,
    /// Above `disk_used_percent`.
    Tight,
    /// Above `disk_force_percent`.
    Short,
    /// Above `disk_refuse_percent`.
    Full,
}

/// What retention has to know of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Bytes of the log.
    pub size: u64,
    /// Time since the last write to the oldest segment.
    pub oldest_age_ms: u64,
}

/// What one run of retention did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionOutcome {
    /// Segments removed.
    pub removed: usize,
    /// Whether the oldest segment was to go, and stayed for what is in it.
    pub is_held: bool,
    /// State of the disk afterwards.
    pub disk: DiskState,
    /// Disk use afterwards.
    pub disk_used_percent: u8,
}

impl RetentionPolicy {
    /// The state for a disk use, without hysteresis.
    pub fn disk_state(&self, used_percent: u8) -> DiskState {
        if used_percent > self.disk_refuse_percent {
            DiskState::Full
        } else if self.disk_force_percent.is_some_and(|force| used_percent > force) {
            DiskState::Short
        } else if used_percent > self.disk_used_percent {
            DiskState::Tight
        } else {
            DiskState::Roomy
        }
    }

    /// The state that follows `before`, with hysteresis.
    pub fn next_disk_state(&self, before: DiskState, used_percent: u8) -> DiskState {
        let slack = self.disk_state(used_percent.saturating_add(DISK_SLACK_PERCENT));
        self.disk_state(used_percent).max(slack.min(before))
    }

    /// Whether to remove the oldest segment now.
    pub fn removes(&self, disk: DiskState, log: LogState, hour_of_day: u8) -> bool {
        if self.size.is_some_and(|size| log.size > size) {
            return true;
        }
        let is_expired = log.oldest_age_ms > self.age_ms;
        match disk {
            DiskState::Roomy => is_expired && self.delete_hours.contains(&hour_of_day),
            DiskState::Tight => is_expired,
            DiskState::Short | DiskState::Full => is_expired || self.disk_force_percent.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    #[test]
    fn age_hour_and_disk_decide() {
        let policy = RetentionPolicy::default();
        let (old, young) = (73 * HOUR_MS, 1000);
        for (used, age, hour, goes) in [
            (50, old, 4, true),
            (50, old, 5, false),
            (50, young, 4, false),
            (76, old, 5, true),
            (76, young, 5, false),
            (86, young, 5, true),
            (95, young, 5, true),
        ] {
            let log = LogState { size: u64::MAX, oldest_age_ms: age };
            assert_eq!(policy.removes(policy.disk_state(used), log, hour), goes, "{used} % {age} ms {hour} h");
        }
        assert_eq!(policy.disk_state(90), DiskState::Short);
        assert_eq!(policy.disk_state(91), DiskState::Full);
        let gentle = RetentionPolicy { disk_force_percent: None, ..policy };
        let log = LogState { size: u64::MAX, oldest_age_ms: young };
        assert!(!gentle.removes(gentle.disk_state(95), log, 4), "kept, though no more can be written");
    }

    #[test]
    fn a_log_above_its_size_loses_its_oldest_at_any_hour_and_none_at_its_size() {
        let policy = RetentionPolicy { size: Some(1000), disk_force_percent: None, ..RetentionPolicy::default() };
        for (size, goes) in [(0, false), (1000, false), (1001, true), (u64::MAX, true)] {
            for disk in [DiskState::Roomy, DiskState::Tight, DiskState::Short, DiskState::Full] {
                assert_eq!(policy.removes(disk, LogState { size, oldest_age_ms: 0 }, 5), goes, "{size} {disk:?}");
            }
        }
    }

    #[test]
    fn a_disk_state_begins_at_its_edge_and_ends_a_little_below() {
        use DiskState::{Full, Roomy, Short, Tight};
        let policy = RetentionPolicy::default();
        let mut state = Roomy;
        for (used, expected) in [
            (75, Roomy),
            (76, Tight),
            (74, Tight),
            (73, Roomy),
            (91, Full),
            (90, Full),
            (89, Full),
            (88, Short),
            (86, Short),
            (84, Short),
            (83, Tight),
            (10, Roomy),
            (99, Full),
            (0, Roomy),
        ] {
            state = policy.next_disk_state(state, used);
            assert_eq!(state, expected, "{used} %");
        }
    }
}
