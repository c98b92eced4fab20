//! A moment, as people name one.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// ms since 1970 of a moment: a date with time and offset as of RFC 3339, a date alone (it begins at midnight, UTC), or an age such as
/// 90s, 10m, 2h or 3d.
pub(in crate::cmd) fn moment(text: &str) -> Result<u64, String> {
    moment_at(text, Timestamp::now())
}

fn moment_at(text: &str, now: Timestamp) -> Result<u64, String> {
    let wrong = || "name a date as 2026-11-25 or 2026-11-25T10:00:00Z, or an age as 90s, 10m, 2h or 3d".to_owned();
    let midnight = || Some(text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let before_now = || now.checked_sub(age(text)?).ok();
    let at = text.parse::<Timestamp>().ok().or_else(midnight).or_else(before_now).ok_or_else(wrong)?;
    u64::try_from(at.as_millisecond()).map_err(|_| wrong())
}

fn age(text: &str) -> Option<SignedDuration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    let number: u32 = number.parse().ok()?;
    Some(SignedDuration::from_secs(i64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_ages_are_moments() {
        let now = Timestamp::from_second(1_700_000_000).expect("a time");
        for (text, seconds) in [
            ("2023-11-14T22:13:20Z", 1_700_000_000),
            ("2023-11-14T23:13:20.500+01:00", 1_700_000_000),
            ("2023-11-14", 1_699_920_000),
            ("90s", 1_699_999_910),
            ("3d", 1_699_740_800),
        ] {
            assert_eq!(moment_at(text, now).map(|time| time / 1000), Ok(seconds), "{text}");
        }
        for text in ["", "m", "10", "10y", "-5m", "yesterday", "2023-11-32", "4294967296d", "ä"] {
            assert!(moment_at(text, now).is_err(), "{text}");
        }
    }
}
