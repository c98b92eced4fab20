//! `GET /metrics`: the metric tables, and how far each group is behind, in the text form of Prometheus, which every tool
//! reads.
//!
//! Figures of a broker carry its name if the process has several; a broker alone has them bare.

use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base::metric::{Kind, Row, TimedRow};
use base::offset::Watermark;
use broker::Broker;
use broker::lease::LeaseCounts;
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{TEXT_FORMAT, TextEncoder};

use crate::Sources;

/// What tells a figure from others of its name: pairs of name and value.
type Labels<'a> = Vec<(&'static str, &'a str)>;

pub(crate) async fn get(State(sources): State<Sources>) -> Response {
    match TextEncoder::new().encode_to_string(&families(&sources)) {
        Ok(page) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Every figure, those of one name together.
fn families(sources: &Sources) -> Vec<MetricFamily> {
    let mut families = table([(Labels::new(), sources.traffic.rows())], family_of, metric_of);
    let brokers = || sources.brokers.iter().map(|broker| (labels(sources, broker), broker));
    families.extend(table(brokers().map(|(labels, one)| (labels, one.metrics().rows())), family_of, metric_of));
    let times = |row: &TimedRow<'_>| described(row.name.to_owned(), row.help, MetricType::HISTOGRAM);
    families.extend(table(brokers().map(|(labels, one)| (labels, one.timings().rows())), times, histogram));
    families.push(refused(sources));
    families.push(lag(sources));
    families.extend(unsettled(sources));
    families.extend(replicas(sources));
    families.extend(masters(sources));
    // The encoder takes no family without a figure.
    families.retain(|family| !family.get_metric().is_empty());
    families
}

/// The figures of tables with the same rows, each row of all of them below one description.
fn table<'a, R>(
    tables: impl IntoIterator<Item = (Labels<'a>, Vec<R>)>,
    family: impl Fn(&R) -> MetricFamily,
    figure: impl Fn(&Labels<'a>, &R) -> Metric,
) -> Vec<MetricFamily> {
    let mut families: Vec<MetricFamily> = Vec::new();
    for (labels, rows) in tables {
        if families.is_empty() {
            families = rows.iter().map(&family).collect();
        }
        for (family, row) in families.iter_mut().zip(&rows) {
            family.mut_metric().push(figure(&labels, row));
        }
    }
    families
}

/// Upper ends of the buckets of times, in microseconds.
const BUCKETS_US: [u64; 15] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 3_000_000,
    10_000_000,
];

fn histogram(labels: &Labels<'_>, row: &TimedRow<'_>) -> Metric {
    let ends: Vec<_> =
        BUCKETS_US.into_iter().filter(|end_us| *end_us >= row.finest_us).map(Duration::from_micros).collect();
    let buckets = row.times.buckets(&ends);
    let mut histogram = Histogram::default();
    histogram.set_bucket(
        buckets
            .up_to
            .iter()
            .map(|(end, count)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(end.as_secs_f64());
                bucket.set_cumulative_count(*count);
                bucket
            })
            .collect(),
    );
    histogram.set_sample_count(buckets.count);
    histogram.set_sample_sum(buckets.sum.as_secs_f64());
    let mut metric = labelled(labels);
    metric.set_histogram(histogram);
    metric
}

fn refused(sources: &Sources) -> MetricFamily {
    let mut family = family("sluice_requests_refused", Kind::Counter, "Requests refused, by request and answer.");
    for broker in &sources.brokers {
        for (kind, count) in broker.refused().counts() {
            let mut labels = labels(sources, broker);
            labels.extend([("request", kind.request), ("answer", kind.answer)]);
            family.mut_metric().push(metric(Kind::Counter, &labels, count));
        }
    }
    family
}

fn lag(sources: &Sources) -> MetricFamily {
    let help = "Messages of a group's topics that it has not consumed.";
    let mut family = family("sluice_group_lag_messages", Kind::Gauge, help);
    for broker in &sources.brokers {
        for (group, lag) in broker.snapshots.lag_by_group() {
            let mut labels = labels(sources, broker);
            labels.push(("group", &group));
            family.mut_metric().push(metric(Kind::Gauge, &labels, lag));
        }
    }
    family
}

/// What groups that settle message by message have not settled, and how much of the log that is, as retention saw it last.
fn unsettled(sources: &Sources) -> [MetricFamily; 2] {
    let count_help = "Messages that a popping group has not acknowledged, by what they are: ready, leased or delayed.";
    let mut counts = family("sluice_unsettled_messages", Kind::Gauge, count_help);
    let bytes_help = "Bytes of the log from the oldest message on that a popping group has not acknowledged.";
    let mut bytes = family("sluice_unsettled_bytes", Kind::Gauge, bytes_help);
    for broker in &sources.brokers {
        for unsettled in broker.retention.unsettled() {
            let mut labels = labels(sources, broker);
            labels.extend([("topic", &*unsettled.topic), ("group", &*unsettled.group)]);
            bytes.mut_metric().push(metric(Kind::Gauge, &labels, unsettled.log_size));
            let LeaseCounts { ready, leased, delayed } = unsettled.counts;
            for (state, count) in [("ready", ready), ("leased", leased), ("delayed", delayed)] {
                let mut labels = labels.clone();
                labels.push(("state", state));
                counts.mut_metric().push(metric(Kind::Gauge, &labels, count));
            }
        }
    }
    [counts, bytes]
}

/// How far each replica is behind, in bytes of the log and in time.
fn replicas(sources: &Sources) -> [MetricFamily; 2] {
    let bytes_help = "Bytes of the log that a replica does not have.";
    let mut bytes = family("sluice_replica_lag_bytes", Kind::Gauge, bytes_help);
    let seconds_help = "Time since a replica had all there was; 0 while it does.";
    let mut seconds = family("sluice_replica_lag_seconds", Kind::Seconds, seconds_help);
    for broker in &sources.brokers {
        let (written, now) = (broker.durability.reached(Watermark::Written), (sources.now)());
        for replica in broker.durability.replicas().all() {
            let address = replica.address.to_string();
            let mut labels = labels(sources, broker);
            labels.push(("replica", &address));
            let lag = written.0.saturating_sub(replica.end.0);
            let lag_ms = if lag == 0 { 0 } else { now.monotonic.ms_since(replica.caught_up.monotonic) };
            bytes.mut_metric().push(metric(Kind::Gauge, &labels, lag));
            seconds.mut_metric().push(metric(Kind::Seconds, &labels, lag_ms));
        }
    }
    [bytes, seconds]
}

/// How far each slave is behind its master, in bytes of the log as the master has sent it, and since when it has heard nothing.
fn masters(sources: &Sources) -> [MetricFamily; 2] {
    let bytes_help = "Bytes of the log that the master has sent and this slave has not stored yet.";
    let mut bytes = family("sluice_master_lag_bytes", Kind::Gauge, bytes_help);
    let seconds_help = "Time since this slave heard of its master's log; about 5 while nothing is sent.";
    let mut seconds = family("sluice_master_silence_seconds", Kind::Seconds, seconds_help);
    for broker in &sources.brokers {
        let Some(master) = broker.following.master() else { continue };
        let labels = labels(sources, broker);
        let lag = master.sent.0.saturating_sub(broker.following.end().0);
        let silence_ms = (sources.now)().monotonic.ms_since(master.at.monotonic);
        bytes.mut_metric().push(metric(Kind::Gauge, &labels, lag));
        seconds.mut_metric().push(metric(Kind::Seconds, &labels, silence_ms));
    }
    [bytes, seconds]
}

/// What tells a broker's figures from another's.
fn labels<'a>(sources: &Sources, broker: &'a Broker) -> Labels<'a> {
    if sources.brokers.len() > 1 { vec![("broker", &*broker.options().broker_name)] } else { Labels::new() }
}

fn family_of(row: &Row) -> MetricFamily {
    family(row.name, row.kind, row.help)
}

fn metric_of(labels: &Labels<'_>, row: &Row) -> Metric {
    metric(row.kind, labels, row.value)
}

/// A family without figures; counters have `_total` in their names.
fn family(name: &str, kind: Kind, help: &str) -> MetricFamily {
    match kind {
        Kind::Counter => described(format!("{name}_total"), help, MetricType::COUNTER),
        Kind::Gauge | Kind::Seconds => described(name.to_owned(), help, MetricType::GAUGE),
    }
}

fn described(name: String, help: &str, of: MetricType) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name);
    family.set_help(help.to_owned());
    family.set_field_type(of);
    family
}

fn labelled(labels: &Labels<'_>) -> Metric {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    Metric::from_label(pairs.collect())
}

fn metric(kind: Kind, labels: &Labels<'_>, value: u64) -> Metric {
    let mut metric = labelled(labels);
    match kind {
        Kind::Counter => {
            let mut counter = Counter::default();
            counter.set_value(value as f64);
            metric.set_counter(counter);
        }
        Kind::Gauge | Kind::Seconds => {
            let mut gauge = Gauge::default();
            gauge.set_value(if kind == Kind::Seconds { value as f64 / 1000.0 } else { value as f64 });
            metric.set_gauge(gauge);
        }
    }
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_cumulative_buckets_in_seconds() {
        let times = base::durations::Durations::default();
        times.record(Duration::from_micros(150), 2);
        times.record(Duration::from_secs(60), 1);
        let mut family = described("sluice_sync_seconds".to_owned(), "What it took.", MetricType::HISTOGRAM);
        let row = TimedRow { name: "sluice_sync_seconds", help: "What it took.", finest_us: 200, times: &times };
        family.mut_metric().push(histogram(&Labels::new(), &row));
        let page = TextEncoder::new().encode_to_string(&[family]).expect("encodes");
        assert!(!page.contains("0.0001"), "no finer than it can tell:\n{page}");
        for line in [
            "# TYPE sluice_sync_seconds histogram",
            "sluice_sync_seconds_bucket{le=\"0.0002\"} 2",
            "sluice_sync_seconds_bucket{le=\"10\"} 2",
            "sluice_sync_seconds_bucket{le=\"+Inf\"} 3",
            "sluice_sync_seconds_sum 60.0003",
            "sluice_sync_seconds_count 3",
        ] {
            assert!(page.lines().any(|one| one == line), "{line} in\n{page}");
        }
    }

    #[test]
    fn a_figure_is_described_by_its_whole_name_and_shown_in_its_unit() {
        let row = |name, kind, value| Row { name, kind, help: "What it is.", value };
        let figures = |tables: Vec<(Labels<'static>, Row)>| {
            table(tables.into_iter().map(|(labels, row)| (labels, vec![row])), family_of, metric_of)
        };
        let mut families = figures(vec![
            (vec![("broker", "a")], row("sluice_messages_in", Kind::Counter, 5)),
            (vec![("broker", "b\"\\\n")], row("sluice_messages_in", Kind::Counter, 1 << 50)),
        ]);
        families.extend(figures(vec![(Labels::new(), row("sluice_publish_max_seconds", Kind::Seconds, 12))]));
        families.extend(figures(vec![(Labels::new(), row("sluice_topics", Kind::Gauge, 0))]));
        let expected = "\
            # HELP sluice_messages_in_total What it is.\n\
            # TYPE sluice_messages_in_total counter\n\
            sluice_messages_in_total{broker=\"a\"} 5\n\
            sluice_messages_in_total{broker=\"b\\\"\\\\\\n\"} 1125899906842624\n\
            # HELP sluice_publish_max_seconds What it is.\n\
            # TYPE sluice_publish_max_seconds gauge\n\
            sluice_publish_max_seconds 0.012\n\
            # HELP sluice_topics What it is.\n\
            # TYPE sluice_topics gauge\n\
            sluice_topics 0\n";
        assert_eq!(TextEncoder::new().encode_to_string(&families).expect("a page"), expected);
    }
}
