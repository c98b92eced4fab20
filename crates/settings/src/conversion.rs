//! How the value of a RocketMQ key becomes the text of a Sluice setting.

use std::time::Duration;

use super::kind::{Value, whole_number};

/// Bytes of one queue entry: RocketMQ sizes its queue files in bytes, Sluice counts entries.
const QUEUE_ENTRY_SIZE: u64 = 20;

/// The way from a RocketMQ value to a Sluice value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Taken as it is.
    Same,
    /// A bare number that gets the unit.
    Unit(&'static str),
    /// A bare number that RocketMQ itself pulls into this range, then gets the unit.
    Clamped {
        /// Smaller numbers become this one.
        min: u64,
        /// Larger numbers become this one.
        max: u64,
        /// The unit it gets, which may be empty.
        unit: &'static str,
    },
    /// The size of a queue file in bytes, rounded up to whole entries.
    QueueEntries,
    /// A number of which every one below 1 means the same, which is 0 for us.
    NothingBelowOne,
    /// RocketMQ's word and ours.
    Words(&'static [(&'static str, &'static str)]),
    /// A path; RocketMQ would split it at commas, and Sluice has one directory.
    OnePath,
}

impl Conversion {
    /// Converts; the error completes the sentence "expected ...".
    pub fn apply(&self, text: &str) -> Result<String, String> {
        let text = text.trim();
        match *self {
            Conversion::Same => Ok(text.to_owned()),
            Conversion::Unit(unit) => Ok(format!("{}{unit}", bare_number(text, unit)?)),
            Conversion::Clamped { min, max, unit } => Ok(format!("{}{unit}", bare_number(text, unit)?.clamp(min, max))),
            Conversion::QueueEntries => Ok(bare_number(text, "bytes")?.div_ceil(QUEUE_ENTRY_SIZE).to_string()),
            Conversion::NothingBelowOne => {
                let number: i32 = text.parse().map_err(|_| "a whole number".to_owned())?;
                Ok(number.max(0).to_string())
            }
            Conversion::Words(words) => {
                let ours = words.iter().find(|(theirs, _)| *theirs == text).map(|(_, ours)| *ours);
                ours.map(str::to_owned).ok_or_else(|| one_of(words))
            }
            Conversion::OnePath if text.contains(',') => {
                Err("one path (one log is not spread over directories; storage.dirs gives each a broker of its own)"
                    .to_owned())
            }
            Conversion::OnePath => Ok(text.to_owned()),
        }
    }

    /// The way back: the value as RocketMQ writes it, `None` for one that RocketMQ would not write.
    pub fn undo(&self, value: &Value) -> Option<String> {
        let in_unit = |unit: &str, time: &Duration| {
            let ms = time.as_millis();
            Some(match unit {
                "ms" => ms,
                "s" => ms / 1000,
                "h" => ms / 3_600_000,
                _ => return None,
            })
        };
        match (*self, value) {
            (_, Value::Absent) => None,
            (Conversion::Unit(unit) | Conversion::Clamped { unit, .. }, Value::Duration(time)) => {
                in_unit(unit, time).map(|number| number.to_string())
            }
            (_, Value::Bytes(bytes)) => Some(bytes.to_string()),
            (Conversion::QueueEntries, Value::Integer(entries)) => Some((entries * QUEUE_ENTRY_SIZE).to_string()),
            (Conversion::NothingBelowOne, Value::Integer(0)) => Some("-1".to_owned()),
            (Conversion::Words(words), value) => {
                let ours = value.to_string();
                words.iter().find(|(_, word)| *word == ours).map(|(theirs, _)| (*theirs).to_owned())
            }
            (_, value) => Some(value.to_string()),
        }
    }

    /// What it does, for tables of settings; empty where nothing is done.
    pub fn note(&self) -> String {
        match self {
            Conversion::Same | Conversion::OnePath => String::new(),
            Conversion::Unit(unit) | Conversion::Clamped { unit: unit @ ("ms" | "s" | "h"), .. } => {
                format!("in {unit}")
            }
            Conversion::Clamped { min, max, .. } => format!("kept within {min} to {max}"),
            Conversion::NothingBelowOne => "below 1 is 0".to_owned(),
            Conversion::QueueEntries => format!("in bytes, {QUEUE_ENTRY_SIZE} an entry"),
            Conversion::Words(words) => {
                let pairs = words.iter().map(|(theirs, ours)| format!("{theirs} = {ours}"));
                pairs.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

fn bare_number(text: &str, unit: &str) -> Result<u64, String> {
    whole_number(text).ok_or_else(|| match unit {
        "" => "a whole number".to_owned(),
        unit => format!("a whole number, in {unit}, without the unit"),
    })
}

fn one_of(words: &[(&str, &str)]) -> String {
    let theirs = words.iter().map(|(theirs, _)| *theirs).collect::<Vec<_>>();
    format!("one of: {}", theirs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_get_the_unit_that_rocketmq_leaves_out() {
        assert_eq!(Conversion::Unit("ms").apply(" 500 "), Ok("500ms".to_owned()));
        assert!(Conversion::Unit("h").apply("72h").is_err());
        assert!(Conversion::Unit("h").apply("-1").is_err());
    }

    #[test]
    fn what_rocketmq_clamps_is_clamped_alike() {
        let percent = Conversion::Clamped { min: 10, max: 95, unit: "" };
        assert_eq!(percent.apply("3"), Ok("10".to_owned()));
        assert_eq!(percent.apply("99"), Ok("95".to_owned()));
    }

    #[test]
    fn administrators_see_values_as_rocketmq_writes_them() {
        let time = Value::Duration(Duration::from_secs(7200));
        assert_eq!(Conversion::Unit("ms").undo(&time).as_deref(), Some("7200000"));
        assert_eq!(Conversion::Unit("h").undo(&time).as_deref(), Some("2"));
        assert_eq!(Conversion::QueueEntries.undo(&Value::Integer(300_000)).as_deref(), Some("6000000"));
        assert_eq!(Conversion::Same.undo(&Value::Bytes(4 << 20)).as_deref(), Some("4194304"));
        assert_eq!(
            Conversion::Words(&[("SYNC_FLUSH", "sync")]).undo(&Value::Text("sync".to_owned())).as_deref(),
            Some("SYNC_FLUSH")
        );
        assert_eq!(Conversion::Same.undo(&Value::Absent), None);
    }

    #[test]
    fn every_number_below_one_is_none_for_us_and_minus_one_for_rocketmq() {
        for (theirs, ours, back) in [("-1", "0", "-1"), ("0", "0", "-1"), ("-2147483648", "0", "-1"), ("3", "3", "3")] {
            assert_eq!(Conversion::NothingBelowOne.apply(theirs).as_deref(), Ok(ours));
            let value = Value::Integer(ours.parse().expect("a number"));
            assert_eq!(Conversion::NothingBelowOne.undo(&value).as_deref(), Some(back));
        }
        assert!(Conversion::NothingBelowOne.apply("x").is_err());
    }

    #[test]
    fn a_queue_file_of_six_million_bytes_has_three_hundred_thousand_entries() {
        assert_eq!(Conversion::QueueEntries.apply("6000000"), Ok("300000".to_owned()));
        assert_eq!(Conversion::QueueEntries.apply("6000001"), Ok("300001".to_owned()));
    }
}
