//! The last minutes of the process, as samples: what the charts of the page begin with.
//!
//! **Always holds**: no more than [`SAMPLES_MAX`] samples are kept; rates and percentiles are of the time since the sample before.

use std::collections::VecDeque;
use std::time::Duration;

use base::Now;
use base::durations::Times;
use serde_json::{Value, json};

/// Time between two samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

/// Samples that are kept: five minutes.
pub(crate) const SAMPLES_MAX: usize = 150;

/// What only grows, as it is now.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) messages_in: u64,
    pub(crate) messages_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) processor_ms: u64,
    /// How long sends took.
    pub(crate) sends: Times,
}

/// What goes up and down, as it is now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Levels {
    /// Messages that groups have not consumed.
    pub(crate) lag: u64,
    /// Of the fullest disk.
    pub(crate) disk_used_bytes: u64,
    pub(crate) disk_total_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) connections: u64,
}

/// The samples.
#[derive(Debug, Default)]
pub(crate) struct History {
    last: Option<(Now, Counts)>,
    samples: VecDeque<Value>,
}

impl History {
    /// Keeps a sample of now; the first look only says from where to count.
    pub(crate) fn add(&mut self, now: Now, counts: Counts, levels: Levels) -> Option<&Value> {
        let (then, before) = self.last.take().unzip();
        let sample = then.zip(before).map(|(then, before)| {
            let seconds = now.monotonic.ms_since(then.monotonic).max(1) as f64 / 1000.0;
            shown(now, &counts, &before, seconds, levels)
        });
        self.last = Some((now, counts));
        self.samples.extend(sample);
        while self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.back()
    }

    /// All samples, the oldest first.
    pub(crate) fn samples(&self) -> Vec<Value> {
        self.samples.iter().cloned().collect()
    }
}

/// A sample, as it is shown: rates a second, times in seconds, `null` where nothing was sent.
fn shown(now: Now, counts: &Counts, before: &Counts, seconds: f64, levels: Levels) -> Value {
    let rate = |of: fn(&Counts) -> u64| of(counts).saturating_sub(of(before)) as f64 / seconds;
    let sends = counts.sends.clone().since(&before.sends);
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| sends.percentile(share).map(|time| time.as_secs_f64()));
    json!({
        "time_ms": now.wall.0,
        "messages_in_per_second": rate(|counts| counts.messages_in),
        "messages_out_per_second": rate(|counts| counts.messages_out),
        "bytes_in_per_second": rate(|counts| counts.bytes_in),
        "bytes_out_per_second": rate(|counts| counts.bytes_out),
        "processors": rate(|counts| counts.processor_ms) / 1000.0,
        "send_p50_seconds": p50,
        "send_p99_seconds": p99,
        "send_p999_seconds": p999,
        "lag": levels.lag,
        "disk_used_bytes": levels.disk_used_bytes,
        "disk_total_bytes": levels.disk_total_bytes,
        "memory_bytes": levels.memory_bytes,
        "connections": levels.connections,
    })
}

#[cfg(test)]
mod tests {
    use base::durations::Durations;
    use base::{Monotonic, Timestamp};

    use super::*;

    fn at(second: u64) -> Now {
        Now { wall: Timestamp(1_700_000_000_000 + second * 1000), monotonic: Monotonic(second * 1000) }
    }

    #[test]
    fn a_sample_tells_of_the_time_since_the_one_before() {
        let (sends, mut history) = (Durations::default(), History::default());
        sends.record(Duration::from_millis(700), 1000);
        let counts = |messages_in, messages_out| Counts {
            messages_in,
            messages_out,
            processor_ms: messages_in,
            sends: sends.look(),
            ..Counts::default()
        };
        assert_eq!(history.add(at(10), counts(1000, 0), Levels::default()), None);
        sends.record(Duration::from_millis(3), 100);
        let sample = history.add(at(14), counts(1400, 80), Levels { lag: 7, ..Levels::default() }).cloned();
        let sample = sample.expect("a sample");
        assert_eq!(sample["messages_in_per_second"], 100.0);
        assert_eq!(sample["messages_out_per_second"], 20.0);
        assert_eq!(sample["processors"], 0.1);
        assert_eq!(sample["lag"], 7);
        assert!((sample["send_p999_seconds"].as_f64().expect("a time") - 0.003).abs() < 0.000_01, "{sample}");
        let idle = history.add(at(16), counts(1400, 80), Levels::default()).cloned().expect("a sample");
        assert_eq!((&idle["send_p50_seconds"], &idle["messages_in_per_second"]), (&Value::Null, &json!(0.0)));
    }

    #[test]
    fn only_the_last_minutes_are_kept() {
        let mut history = History::default();
        for second in 0..1000 {
            history.add(at(second), Counts::default(), Levels::default());
        }
        let samples = history.samples();
        assert_eq!(samples.len(), SAMPLES_MAX);
        assert_eq!(samples.last().expect("one")["time_ms"], at(999).wall.0);
    }
}
