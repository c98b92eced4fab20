//! The two text forms of a metrics page: that of Prometheus (0.0.4), and OpenMetrics 1.0, which came of it.
//!
//! They differ in where a counter's `_total` belongs, and in OpenMetrics' last line and units. Prometheus asks for the latter by
//! its name and takes both; other tools know the former alone.

use std::fmt::Write;

use base::metric::Kind;

/// A figure's labels: names and values.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;

/// A text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Prometheus,
    OpenMetrics,
}

impl Form {
    /// The form that an `Accept` header asks for: OpenMetrics if it is named and nothing is preferred to it.
    pub(super) fn wanted(accept: &str) -> Self {
        let weight_of = |wanted: &str| {
            let ranges = accept.split(',').filter(|range| media_type(range).eq_ignore_ascii_case(wanted));
            ranges.map(weight).max_by(f32::total_cmp)
        };
        match weight_of("application/openmetrics-text") {
            Some(open) if open > 0.0 && open >= weight_of("text/plain").unwrap_or_default() => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

fn media_type(range: &str) -> &str {
    range.split(';').next().unwrap_or_default().trim()
}

/// How much a range of `Accept` is wanted, 0 to 1.
fn weight(range: &str) -> f32 {
    let given = range.split(';').skip(1).find_map(|parameter| parameter.trim().strip_prefix("q="));
    given.and_then(|weight| weight.trim().parse().ok()).unwrap_or(1.0)
}

/// A page that is being written.
pub(super) struct Page {
    form: Form,
    text: String,
}

impl Page {
    pub(super) const fn new(form: Form) -> Self {
        Self { form, text: String::new() }
    }

    /// Begins the figures of one name.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let suffix = if self.form == Form::Prometheus { suffix(kind) } else { "" };
        let of_type = if kind == Kind::Counter { "counter" } else { "gauge" };
        let _ = writeln!(self.text, "# HELP {name}{suffix} {}", escaped(help));
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {of_type}");
        if self.form == Form::OpenMetrics && kind == Kind::Seconds {
            let _ = writeln!(self.text, "# UNIT {name} seconds");
        }
    }

    /// Adds a figure below its family.
    pub(super) fn figure(&mut self, name: &str, kind: Kind, labels: &Labels<'_>, value: &str) {
        let _ = write!(self.text, "{name}{}", suffix(kind));
        if !labels.is_empty() {
            let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let _ = write!(self.text, "{{{}}}", labels.join(","));
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// The whole page.
    pub(super) fn end(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// What the name of a figure has that its family's in OpenMetrics has not.
fn suffix(kind: Kind) -> &'static str {
    if kind == Kind::Counter { "_total" } else { "" }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(form: Form) -> String {
        let mut page = Page::new(form);
        page.family("sluice_messages_in", Kind::Counter, "Messages stored.");
        page.figure("sluice_messages_in", Kind::Counter, &vec![("broker", "a")], "5");
        page.family("sluice_publish_max_seconds", Kind::Seconds, "Longest time.");
        page.figure("sluice_publish_max_seconds", Kind::Seconds, &Labels::new(), "0.012");
        page.family("sluice_group_lag_messages", Kind::Gauge, "Lag.");
        page.figure("sluice_group_lag_messages", Kind::Gauge, &vec![("group", "a\"b\\c\nd")], "0");
        page.end()
    }

    #[test]
    fn a_page_for_prometheus_describes_each_figure_by_its_whole_name() {
        let expected = "\
            # HELP sluice_messages_in_total Messages stored.\n\
            # TYPE sluice_messages_in_total counter\n\
            sluice_messages_in_total{broker=\"a\"} 5\n\
            # HELP sluice_publish_max_seconds Longest time.\n\
            # TYPE sluice_publish_max_seconds gauge\n\
            sluice_publish_max_seconds 0.012\n\
            # HELP sluice_group_lag_messages Lag.\n\
            # TYPE sluice_group_lag_messages gauge\n\
            sluice_group_lag_messages{group=\"a\\\"b\\\\c\\nd\"} 0\n";
        assert_eq!(page(Form::Prometheus), expected);
    }

    #[test]
    fn a_page_of_open_metrics_has_families_without_total_units_and_an_end() {
        let text = page(Form::OpenMetrics);
        for line in [
            "# TYPE sluice_messages_in counter",
            "sluice_messages_in_total{broker=\"a\"} 5",
            "# UNIT sluice_publish_max_seconds seconds",
        ] {
            assert!(text.lines().any(|one| one == line), "[{line}] in {text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
    }

    #[test]
    fn whoever_does_not_ask_for_open_metrics_gets_what_every_tool_reads() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, form) in [
            ("", Form::Prometheus),
            ("*/*", Form::Prometheus),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Form::Prometheus),
            ("text/plain", Form::Prometheus),
            ("text/plain;version=0.0.4;q=1,application/openmetrics-text;q=0.1", Form::Prometheus),
            ("application/openmetrics-text;q=0", Form::Prometheus),
            ("application/openmetrics-text", Form::OpenMetrics),
            (prometheus, Form::OpenMetrics),
        ] {
            assert_eq!(Form::wanted(accept), form, "{accept}");
        }
    }
}
