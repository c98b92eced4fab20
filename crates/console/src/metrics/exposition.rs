//! How figures are written: the text format of Prometheus, which every tool reads, and OpenMetrics for those that ask for it.

use std::fmt::{Display, Write as _};

use axum::http::{HeaderMap, header};
use base::durations::Buckets;
use base::metric::Kind;

/// What tells a figure from others of its name: pairs of name and value.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;

/// One of the two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    OpenMetrics,
}

const OPEN_METRICS: &str = "application/openmetrics-text";

impl Form {
    /// The form that a request prefers: OpenMetrics if it is named with at least the weight of plain text.
    pub(super) fn asked_for(headers: &HeaderMap) -> Self {
        let (mut text, mut open_metrics) = (0.0_f32, 0.0_f32);
        let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let (mut weight, mut version) = (1.0_f32, None);
            for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                match key.trim() {
                    "q" => weight = value.trim().parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim()),
                    _ => {}
                }
            }
            if name.eq_ignore_ascii_case(OPEN_METRICS) && version.is_none_or(|version| version == "1.0.0") {
                open_metrics = weight.max(open_metrics);
            } else if name.eq_ignore_ascii_case("text/plain") {
                text = weight.max(text);
            }
        }
        if open_metrics > 0.0 && open_metrics >= text { Self::OpenMetrics } else { Self::Text }
    }

    /// What the page is called in its answer.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A page that is being written.
#[derive(Debug)]
pub(super) struct Page {
    form: Form,
    text: String,
}

/// What a family's figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Counter,
    Gauge,
    Histogram,
}

/// The figures of one name, which come one after the other. One without figures leaves no trace.
#[derive(Debug)]
pub(super) struct Family<'a> {
    page: &'a mut Page,
    name: &'a str,
    of: Type,
    help: &'a str,
    is_described: bool,
}

impl Page {
    pub(super) const fn new(form: Form) -> Self {
        Self { form, text: String::new() }
    }

    /// Begins the figures of a name, which for counters goes without its `_total`.
    pub(super) fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &'a str) -> Family<'a> {
        let of = if kind == Kind::Counter { Type::Counter } else { Type::Gauge };
        Family { page: self, name, of, help, is_described: false }
    }

    /// Begins the histograms of a name.
    pub(super) fn histograms<'a>(&'a mut self, name: &'a str, help: &'a str) -> Family<'a> {
        Family { page: self, name, of: Type::Histogram, help, is_described: false }
    }

    /// The whole page.
    pub(super) fn finish(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Family<'_> {
    /// Adds a counter or a gauge.
    pub(super) fn figure(&mut self, labels: &Labels<'_>, value: impl Display) {
        let suffix = if self.of == Type::Counter { "_total" } else { "" };
        self.line(suffix, labels, None, value);
    }

    /// Adds a histogram.
    pub(super) fn histogram(&mut self, labels: &Labels<'_>, buckets: &Buckets) {
        for (end, count) in &buckets.up_to {
            let end = end.as_secs_f64();
            // OpenMetrics wants a point in every bound.
            let bound = if self.page.form == Form::OpenMetrics { format!("{end:?}") } else { end.to_string() };
            self.line("_bucket", labels, Some(&bound), count);
        }
        self.line("_bucket", labels, Some("+Inf"), buckets.count);
        self.line("_sum", labels, None, buckets.sum.as_secs_f64());
        self.line("_count", labels, None, buckets.count);
    }

    fn line(&mut self, suffix: &str, labels: &Labels<'_>, bound: Option<&str>, value: impl Display) {
        self.describe();
        let text = &mut self.page.text;
        text.push_str(self.name);
        text.push_str(suffix);
        let pairs = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut before = '{';
        for (name, value) in pairs {
            text.push(before);
            text.push_str(name);
            text.push_str("=\"");
            push_escaped(text, value);
            text.push('"');
            before = ',';
        }
        if before == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }

    fn describe(&mut self) {
        if std::mem::replace(&mut self.is_described, true) {
            return;
        }
        let kind = match self.of {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        let (name, help) = (self.name, self.help);
        // In the older form a counter is described by the name of its figures.
        let total = if self.of == Type::Counter && self.page.form == Form::Text { "_total" } else { "" };
        let text = &mut self.page.text;
        let _ = write!(text, "# HELP {name}{total} {help}\n# TYPE {name}{total} {kind}\n");
        let unit = ["seconds", "bytes", "ratio"].into_iter().find(|unit| name.ends_with(unit));
        if let (Form::OpenMetrics, Some(unit)) = (self.page.form, unit) {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
    }
}

fn push_escaped(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn asked(accept: &str) -> Form {
        Form::asked_for(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().expect("a header"))]))
    }

    #[test]
    fn open_metrics_is_for_those_that_prefer_it() {
        assert_eq!(Form::asked_for(&HeaderMap::new()), Form::Text);
        for (accept, form) in [
            ("*/*", Form::Text),
            ("text/html, application/xhtml+xml, */*;q=0.8", Form::Text),
            ("application/openmetrics-text", Form::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Form::OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;q=0.4",
                Form::OpenMetrics,
            ),
            ("text/plain;version=0.0.4, application/openmetrics-text; q=0.5", Form::Text),
            ("application/openmetrics-text; q=0", Form::Text),
            ("application/openmetrics-text; version=0.0.1", Form::Text),
        ] {
            assert_eq!(asked(accept), form, "{accept}");
        }
    }

    /// A page in both forms.
    fn pages(write: impl Fn(&mut Page)) -> [String; 2] {
        [Form::Text, Form::OpenMetrics].map(|form| {
            let mut page = Page::new(form);
            write(&mut page);
            page.finish()
        })
    }

    #[test]
    fn figures_are_described_as_each_form_wants_it() {
        let [text, open_metrics] = pages(|page| {
            let mut counters = page.family("sluice_received_bytes", Kind::Counter, "What came.");
            counters.figure(&Labels::from([("broker", "a")]), 5);
            counters.figure(&Labels::from([("broker", "b\"\\\n")]), 1_u64 << 50);
            page.family("sluice_topics", Kind::Gauge, "How many.").figure(&Labels::new(), 0);
            page.family("sluice_nothing", Kind::Gauge, "Without figures.");
        });
        let text_expected = "\
            # HELP sluice_received_bytes_total What came.\n\
            # TYPE sluice_received_bytes_total counter\n\
            sluice_received_bytes_total{broker=\"a\"} 5\n\
            sluice_received_bytes_total{broker=\"b\\\"\\\\\\n\"} 1125899906842624\n\
            # HELP sluice_topics How many.\n\
            # TYPE sluice_topics gauge\n\
            sluice_topics 0\n";
        assert_eq!(text, text_expected);
        let open_metrics_expected = "\
            # HELP sluice_received_bytes What came.\n\
            # TYPE sluice_received_bytes counter\n\
            # UNIT sluice_received_bytes bytes\n\
            sluice_received_bytes_total{broker=\"a\"} 5\n\
            sluice_received_bytes_total{broker=\"b\\\"\\\\\\n\"} 1125899906842624\n\
            # HELP sluice_topics How many.\n\
            # TYPE sluice_topics gauge\n\
            sluice_topics 0\n\
            # EOF\n";
        assert_eq!(open_metrics, open_metrics_expected);
    }

    #[test]
    fn times_are_cumulative_buckets_in_seconds() {
        let buckets = Buckets {
            up_to: vec![(Duration::from_micros(200), 2), (Duration::from_secs(10), 2)],
            count: 3,
            sum: Duration::from_micros(60_000_300),
        };
        let [text, open_metrics] =
            pages(|page| page.histograms("sluice_sync_seconds", "What it took.").histogram(&Labels::new(), &buckets));
        let expected = "\
            # HELP sluice_sync_seconds What it took.\n\
            # TYPE sluice_sync_seconds histogram\n\
            sluice_sync_seconds_bucket{le=\"0.0002\"} 2\n\
            sluice_sync_seconds_bucket{le=\"10\"} 2\n\
            sluice_sync_seconds_bucket{le=\"+Inf\"} 3\n\
            sluice_sync_seconds_sum 60.0003\n\
            sluice_sync_seconds_count 3\n";
        assert_eq!(text, expected);
        assert!(open_metrics.contains("# UNIT sluice_sync_seconds seconds\n"), "{open_metrics}");
        assert!(open_metrics.contains("sluice_sync_seconds_bucket{le=\"10.0\"} 2\n"), "{open_metrics}");
    }
}
