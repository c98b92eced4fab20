//! When old segments go: by age at the quiet hour, by disk use at any hour, and when writes stop.

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Segments whose last record is older than this are expired.
    pub age_ms: u64,
    /// Hours of the day (UTC) at which expired segments go.
    pub delete_hours: Vec<u8>,
    /// Above this use of the disk, expired segments go at any hour.
    pub disk_used_percent: u8,
    /// Above this, the oldest segments go though they are not expired; `None`: they never do.
    pub disk_force_percent: Option<u8>,
    /// Above this, writes are refused until there is room again.
    pub disk_refuse_percent: u8,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self {
            age_ms: 72 * 3_600_000,
            delete_hours: vec![4],
            disk_used_percent: 75,
            disk_force_percent: Some(85),
            disk_refuse_percent: 90,
        }
    }
}

/// How full the disk is, in the words of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskState {
    /// Nothing to do.
    Roomy,
    /// Expired segments go at once.
    Tight,
    /// The oldest segments go.
    Short,
    /// Writes are refused.
    Full,
}

impl RetentionPolicy {
    /// What `used_percent` of the disk means.
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

    /// Whether the oldest segment, whose last record is `age_ms` old, goes now.
    pub fn removes(&self, disk: DiskState, age_ms: u64, hour_of_day: u8) -> bool {
        let is_expired = age_ms > self.age_ms;
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

    #[test]
    fn age_hour_and_disk_decide() {
        let policy = RetentionPolicy::default();
        let (old, young) = (73 * 3_600_000, 1000);
        for (used, age, hour, goes) in [
            (50, old, 4, true),
            (50, old, 5, false),
            (50, young, 4, false),
            (76, old, 5, true),
            (76, young, 5, false),
            (86, young, 5, true),
            (95, young, 5, true),
        ] {
            assert_eq!(policy.removes(policy.disk_state(used), age, hour), goes, "{used} % {age} ms {hour} h");
        }
        assert_eq!(policy.disk_state(90), DiskState::Short);
        assert_eq!(policy.disk_state(91), DiskState::Full);
        let gentle = RetentionPolicy { disk_force_percent: None, ..policy };
        assert!(!gentle.removes(gentle.disk_state(95), young, 4), "kept, though no more can be written");
    }
}
