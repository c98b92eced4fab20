//! The kinds of value a setting can have: how each is written, read and checked.
//!
//! Reading never guesses: a duration has its unit, a size is in bytes or has a binary suffix, and
//! whatever cannot be read says what was expected instead.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What a setting's value must look like.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "min and max are the ends that the variant speaks of")]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number, both ends included.
    Integer { min: u64, max: u64 },
    /// A size in bytes, both ends included; written plainly or with KiB, MiB or GiB.
    Bytes { min: u64, max: u64 },
    /// A length of time, both ends included; written with ms, s, m, h or d.
    Duration { min: Duration, max: Duration },
    /// Words without control characters, not empty.
    Text,
    /// An IP address or a host name, without a port.
    Host,
    /// One of the known words; the later ones are understood and refused, with their feature.
    Choice {
        /// Words that can be used today.
        known: &'static [&'static str],
        /// Words with the feature that they wait for.
        later: &'static [(&'static str, &'static str)],
    },
    /// A path of the file system.
    Path,
    /// Paths; an array, or one text separated by `;`. An empty one keeps a place free.
    Paths,
    /// `host:port` addresses; an array, or one text separated by `;`.
    Addresses,
    /// Hours of the day, 0 to 23; an array, or one text separated by `;`.
    Hours,
    /// Lengths of time separated by spaces, the first being level 1.
    Delays,
}

/// The value of a setting after reading and checking.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An optional setting that is not set.
    Absent,
    /// A switch.
    Boolean(bool),
    /// A count, a port, a percentage.
    Integer(u64),
    /// A size in bytes.
    Bytes(u64),
    /// A length of time.
    Duration(Duration),
    /// A text, a host or a chosen word.
    Text(String),
    /// A path.
    Path(PathBuf),
    /// Paths; empty ones stand for places that are kept free.
    Paths(Vec<PathBuf>),
    /// Addresses.
    List(Vec<String>),
    /// Hours of the day.
    Hours(Vec<u8>),
    /// Delay levels, the first being level 1.
    Delays(Vec<Duration>),
}

/// Why a text is not a value of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It cannot be used; the text says what would be.
    Expected(String),
    /// It is understood but waits for the named feature.
    Later(&'static str),
}

const BYTE_UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
const TIME_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Kind {
    /// Reads a text as a value of this kind.
    pub fn read(&self, text: &str) -> Result<Value, Problem> {
        let text = text.trim();
        let value = match *self {
            Kind::Boolean if text.eq_ignore_ascii_case("true") => Some(Value::Boolean(true)),
            Kind::Boolean if text.eq_ignore_ascii_case("false") => Some(Value::Boolean(false)),
            Kind::Boolean => None,
            Kind::Integer { min, max } => within(whole_number(text), min, max).map(Value::Integer),
            Kind::Bytes { min, max } => within(byte_count(text), min, max).map(Value::Bytes),
            Kind::Duration { min, max } => within(duration(text), min, max).map(Value::Duration),
            Kind::Text => is_text(text).then(|| Value::Text(text.to_owned())),
            Kind::Host => is_host(text).then(|| Value::Text(text.to_owned())),
            Kind::Choice { known, later } => {
                if let Some((_, feature)) = later.iter().find(|(word, _)| *word == text) {
                    return Err(Problem::Later(feature));
                }
                known.contains(&text).then(|| Value::Text(text.to_owned()))
            }
            Kind::Path => is_text(text).then(|| Value::Path(PathBuf::from(text))),
            Kind::Paths => paths(text).map(Value::Paths),
            Kind::Addresses => addresses(text).map(Value::List),
            Kind::Hours => hours(text).map(Value::Hours),
            Kind::Delays => delays(text).map(Value::Delays),
        };
        value.ok_or_else(|| Problem::Expected(self.to_string()))
    }

    /// One word for tables of settings.
    pub fn noun(&self) -> &'static str {
        match self {
            Kind::Boolean => "boolean",
            Kind::Integer { .. } => "integer",
            Kind::Bytes { .. } => "bytes",
            Kind::Duration { .. } => "duration",
            Kind::Text => "text",
            Kind::Host => "host",
            Kind::Choice { .. } => "choice",
            Kind::Path => "path",
            Kind::Paths => "paths",
            Kind::Addresses => "addresses",
            Kind::Hours => "hours",
            Kind::Delays => "durations",
        }
    }

    /// The values allowed, for tables of settings; empty where the noun says all.
    pub fn range(&self) -> String {
        match self {
            Kind::Integer { min, max } => format!("{min} to {max}"),
            Kind::Bytes { min, max } => format!("{} to {}", bytes_text(*min), bytes_text(*max)),
            Kind::Duration { min, max } => {
                format!("{} to {}", duration_text(*min), duration_text(*max))
            }
            Kind::Choice { known, .. } => known.join(", "),
            _ => String::new(),
        }
    }
}

/// What is expected, as it completes the sentence "expected ...".
impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Boolean => out.write_str("true or false"),
            Kind::Integer { .. } => write!(out, "a whole number from {}", self.range()),
            Kind::Bytes { .. } => {
                write!(out, "a size from {} (bytes, or with KiB, MiB, GiB)", self.range())
            }
            Kind::Duration { .. } => {
                write!(out, "a time from {} with its unit (ms, s, m, h, d)", self.range())
            }
            Kind::Text => out.write_str("a text that is not empty"),
            Kind::Host => out.write_str("an IP address or a host name, without a port"),
            Kind::Choice { known, .. } => write!(out, "one of: {}", known.join(", ")),
            Kind::Path => out.write_str("a path"),
            Kind::Paths => out.write_str("paths, as an array or separated by ;"),
            Kind::Addresses => out.write_str("addresses as host:port, separated by ;"),
            Kind::Hours => out.write_str("hours of the day from 0 to 23, separated by ;"),
            Kind::Delays => out.write_str("times with their units (ms, s, m, h, d), separated by spaces"),
        }
    }
}

/// The value as a settings file would write it, without quotes.
impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Absent => Ok(()),
            Value::Boolean(on) => write!(out, "{on}"),
            Value::Integer(number) => write!(out, "{number}"),
            Value::Bytes(count) => out.write_str(&bytes_text(*count)),
            Value::Duration(time) => out.write_str(&duration_text(*time)),
            Value::Text(text) => out.write_str(text),
            Value::Path(path) => write!(out, "{}", path.display()),
            Value::Paths(paths) => out.write_str(&joined(paths, ";", |path| path.display().to_string())),
            Value::List(items) => out.write_str(&items.join(";")),
            Value::Hours(hours) => out.write_str(&joined(hours, ";", |hour| format!("{hour:02}"))),
            Value::Delays(times) => out.write_str(&joined(times, " ", |time| duration_text(*time))),
        }
    }
}

fn joined<T>(items: &[T], separator: &str, text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(separator)
}

fn within<T: PartialOrd>(value: Option<T>, min: T, max: T) -> Option<T> {
    value.filter(|value| *value >= min && *value <= max)
}

/// Digits only: no sign, no separators.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn byte_count(text: &str) -> Option<u64> {
    for (suffix, size) in BYTE_UNITS {
        if let Some(number) = text.strip_suffix(suffix) {
            return whole_number(number.trim_end())?.checked_mul(size);
        }
    }
    whole_number(text)
}

/// A length of time as settings have it: a whole number and its unit, as in `500ms`, `90s` or `72h`.
pub fn duration(text: &str) -> Option<Duration> {
    let digits_end = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits_end);
    let (_, unit_ms) = TIME_UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    whole_number(number)?.checked_mul(*unit_ms).map(Duration::from_millis)
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

fn is_host(text: &str) -> bool {
    if text.parse::<std::net::IpAddr>().is_ok() {
        return true;
    }
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let only_numbers = text.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    !text.is_empty() && !only_numbers && text.chars().all(plain)
}

/// Nothing is no path; among paths it is a free place.
fn paths(text: &str) -> Option<Vec<PathBuf>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let paths: Vec<_> = text.split(';').map(|item| PathBuf::from(item.trim())).collect();
    let has_any = paths.iter().any(|path| !path.as_os_str().is_empty());
    (is_text(text) && has_any).then_some(paths)
}

fn addresses(text: &str) -> Option<Vec<String>> {
    let items = text.split(';').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| is_address(item).then(|| item.to_owned())).collect()
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = whole_number(port).is_some_and(|port| (1..=65_535).contains(&port));
    port && is_host(host)
}

fn hours(text: &str) -> Option<Vec<u8>> {
    let items = text.split(';').map(str::trim).filter(|item| !item.is_empty());
    let read = |item| whole_number(item).filter(|hour| *hour < 24).map(|hour| hour as u8);
    items.map(read).collect::<Option<Vec<u8>>>().filter(|hours| !hours.is_empty())
}

fn delays(text: &str) -> Option<Vec<Duration>> {
    let times = text.split_whitespace().map(duration).collect::<Option<Vec<_>>>()?;
    (!times.is_empty()).then_some(times)
}

fn bytes_text(count: u64) -> String {
    let unit = BYTE_UNITS.iter().find(|(_, size)| count >= *size && count.is_multiple_of(*size));
    match unit {
        Some((suffix, size)) => format!("{}{suffix}", count / size),
        None => count.to_string(),
    }
}

/// Days are understood but not written: `72h` is how people think of retention.
fn duration_text(time: Duration) -> String {
    let time_ms = time.as_millis();
    let exact = |size: u64| time_ms >= u128::from(size) && time_ms.is_multiple_of(size.into());
    match TIME_UNITS.iter().skip(1).find(|(_, size)| exact(*size)) {
        Some((suffix, size)) => format!("{}{suffix}", time_ms / u128::from(*size)),
        None => format!("{time_ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Kind {
        Kind::Bytes { min: 1, max: u64::MAX }
    }

    fn times() -> Kind {
        Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(u64::MAX / 1000) }
    }

    #[test]
    fn sizes_are_bytes_or_have_a_binary_suffix() {
        for (text, count) in [("7", 7), ("1KiB", 1024), ("64 MiB", 64 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(sizes().read(text), Ok(Value::Bytes(count)), "{text}");
        }
        for text in ["", "1GB", "1.5GiB", "-1", "GiB", "99999999999999GiB", "1kib"] {
            assert!(sizes().read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_needs_its_unit() {
        for (text, time_ms) in [("500ms", 500), ("30 s", 30_000), ("2m", 120_000), ("3d", 259_200_000)] {
            assert_eq!(times().read(text), Ok(Value::Duration(Duration::from_millis(time_ms))));
        }
        for text in ["500", "s", "", "-1s", "1 week", "1s2s", "99999999999999999999d"] {
            assert!(times().read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let cases = [
            (sizes(), "1000"),
            (sizes(), "1KiB"),
            (sizes(), "3GiB"),
            (times(), "72h"),
            (times(), "1500ms"),
            (times(), "90s"),
            (times(), "0ms"),
            (Kind::Boolean, "true"),
            (Kind::Hours, "04;16"),
            (Kind::Delays, "1s 5s 1m 2h"),
            (Kind::Paths, "/disk1/sluice;;disk 3/sluice"),
            (Kind::Addresses, "127.0.0.1:9876;name-server.local:9876;[::1]:9876"),
        ];
        for (kind, text) in cases {
            assert_eq!(kind.read(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn hosts_and_addresses_are_told_apart() {
        assert!(Kind::Host.read("127.0.0.1").is_ok());
        assert!(Kind::Host.read("::1").is_ok());
        assert!(Kind::Host.read("broker-1.local").is_ok());
        for text in ["", "127.0.0.1:9876", "127.0.0", "a b", "300.1.1.1"] {
            assert!(Kind::Host.read(text).is_err(), "{text}");
        }
        for text in ["127.0.0.1", "host:", "host:0", "host:70000", "a:1,b:2"] {
            assert!(Kind::Addresses.read(text).is_err(), "{text}");
        }
        assert_eq!(Kind::Addresses.read(""), Ok(Value::List(Vec::new())));
    }

    #[test]
    fn paths_have_places_and_at_least_one_is_taken() {
        let paths = |items: &[&str]| Ok(Value::Paths(items.iter().map(PathBuf::from).collect()));
        assert_eq!(Kind::Paths.read(""), paths(&[]));
        assert_eq!(Kind::Paths.read("; /b"), paths(&["", "/b"]));
        for text in [";", " ; ;", "/a;/b\u{7}"] {
            assert!(Kind::Paths.read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_word_that_waits_for_a_feature_names_it() {
        let kind = Kind::Choice { known: &["async"], later: &[("remote", "replication")] };
        assert_eq!(kind.read("async"), Ok(Value::Text("async".to_owned())));
        assert_eq!(kind.read("remote"), Err(Problem::Later("replication")));
        assert_eq!(kind.read("ASYNC"), Err(Problem::Expected("one of: async".to_owned())));
    }
}
