//! Calendar times in file names.

/// `yyyyMMddHHmmssSSS` in UTC (days to civil date after the well-known proleptic Gregorian arithmetic).
pub(crate) fn calendar_name(time_ms: u64) -> String {
    let (days, ms_of_day) = (time_ms / 86_400_000, time_ms % 86_400_000);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second, ms) =
        (ms_of_day / 3_600_000, ms_of_day / 60_000 % 60, ms_of_day / 1000 % 60, ms_of_day % 1000);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{ms:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_calendar_times() {
        assert_eq!(calendar_name(0), "19700101000000000");
        assert_eq!(calendar_name(951_782_400_123), "20000229000000123");
        assert_eq!(calendar_name(1_767_225_599_999), "20251231235959999");
    }
}
