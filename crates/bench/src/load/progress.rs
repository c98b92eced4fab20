//! What a run shows while it goes on: a bar, and a line a second.

use std::io::{IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Seconds since the load began, at the end of this one.
    pub at_seconds: f64,
    /// Whether it belongs to the warm-up.
    pub warm_up: bool,
    /// Messages answered (one-way: sent; consumer: received) a second.
    pub messages_per_second: f64,
    /// Messages or pulls refused.
    pub refused: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Mean latency in milliseconds (consumer: store to consume).
    pub latency_mean_ms: Option<f64>,
    /// Largest latency in milliseconds.
    pub latency_max_ms: Option<f64>,
    /// Most the machine was late to wake a thread that wanted nothing else.
    pub machine_pause_max_ms: f64,
    /// CPU the broker used, 100 being one whole core.
    pub broker_cpu_percent: Option<f64>,
    /// Resident memory of the broker.
    pub broker_resident_mib: Option<f64>,
    /// What of it is its own: no page of a file.
    pub broker_own_mib: Option<f64>,
}

impl Second {
    /// The line for people.
    pub fn line(&self) -> String {
        let ms = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        let mut line = format!(
            "{:>6.1} s  {:>9.0} msg/s  in flight {:>6}  RT mean {:>8} ms  max {:>9} ms",
            self.at_seconds,
            self.messages_per_second,
            self.in_flight,
            ms(self.latency_mean_ms),
            ms(self.latency_max_ms),
        );
        if self.refused > 0 {
            line.push_str(&format!("  refused {}", self.refused));
        }
        if let (Some(cpu), Some(own)) = (self.broker_cpu_percent, self.broker_own_mib) {
            line.push_str(&format!("  broker {cpu:.0} % CPU, {own:.0} MiB of its own"));
        }
        if self.warm_up {
            line.push_str("  (warm-up)");
        }
        line
    }
}

/// Who watches a run or a comparison. It is called from the thread that started it, about once a second.
pub trait ProgressSink: Sync {
    /// Before the load: `done` of `all` such things are done.
    fn prepare(&self, _what: &str, _done: u64, _all: u64) {}
    /// A measurement of several begins, which shows nothing while it goes on: the `number`th of `all`.
    fn part(&self, _what: &str, _number: usize, _all: usize) {}
    /// A broker is being started or warmed up.
    fn preparing(&self, _what: &str) {}
    /// One round of one step begins: the `done`th of `all`.
    fn round(&self, _what: &str, _done: usize, _all: usize) {}
    /// The load begins: what it is, and how much of it there will be (seconds or messages, warm-up included) if known.
    fn begin(&self, _what: &str, _seconds: Option<f64>, _messages: Option<u64>) {}
    /// A second is over; `messages` were done since the start.
    fn second(&self, _second: &Second, _messages: u64) {}
    /// The load has ended.
    fn end(&self) {}
    /// Asked every few milliseconds: whether the run shall finish early (and still drain and report).
    fn stop_requested(&self) -> bool {
        false
    }
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl ProgressSink for Quiet {}

/// A bar on the terminal (stderr) with a line a second above it.
#[derive(Debug, Default)]
pub struct Terminal {
    preparation: OnceLock<ProgressBar>,
    bar: OnceLock<(ProgressBar, Measure)>,
}

/// What a bar runs over.
#[derive(Clone, Copy, Debug)]
enum Measure {
    Messages,
    Milliseconds,
}

impl ProgressSink for Terminal {
    fn part(&self, what: &str, number: usize, all: usize) {
        say(format_args!("[{number}/{all}] {what}"));
    }

    fn prepare(&self, what: &str, done: u64, all: u64) {
        let bar = self.preparation.get_or_init(|| styled(ProgressBar::new(all), "{msg} {pos} of {len} [{bar:40}]"));
        bar.set_message(what.to_owned());
        bar.set_position(done);
    }

    fn begin(&self, what: &str, seconds: Option<f64>, messages: Option<u64>) {
        let (length, measure) = match (messages, seconds) {
            (Some(messages), _) => (Some(messages), Measure::Messages),
            (None, seconds) => (seconds.map(|seconds| (seconds * 1e3) as u64), Measure::Milliseconds),
        };
        if let Some(preparation) = self.preparation.get() {
            preparation.finish_and_clear();
        }
        let template = if length.is_some() { "{msg} [{bar:40}] {percent:>3} %" } else { "{msg} {spinner} {elapsed}" };
        let bar = styled(length.map_or_else(ProgressBar::no_length, ProgressBar::new), template);
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        let _ = self.bar.set((bar, measure));
    }

    fn second(&self, second: &Second, messages: u64) {
        let Some((bar, measure)) = self.bar.get() else { return };
        bar.suspend(|| say(second.line()));
        bar.set_position(match measure {
            Measure::Messages => messages,
            Measure::Milliseconds => (second.at_seconds * 1e3) as u64,
        });
    }

    fn end(&self) {
        if let Some((bar, _)) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// A line on the error stream, if it takes it: a run goes on though nobody reads any more.
fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// The sink for a command: a bar when stdout is a terminal and no report goes there, else silence.
pub fn progress_sink(report_to_stdout: bool) -> Box<dyn ProgressSink> {
    if report_to_stdout || !std::io::stdout().is_terminal() { Box::new(Quiet) } else { Box::new(Terminal::default()) }
}
