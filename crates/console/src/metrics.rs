//! `GET /metrics`: the metric tables, and how far each group is behind, in the text form of Prometheus or as OpenMetrics.
//!
//! Figures of a broker carry its name if the process has several; a broker alone has them bare. Of topics and groups so many are named
//! as the settings allow, and the rest are summed: a page stays small whatever clients make. It is made on a thread that may take its
//! time, one page after the other.

mod exposition;
mod names;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base::metric::{Kind, Row, TimedRow};
use base::offset::Watermark;
use broker::Broker;
use tokio::sync::Mutex;

use crate::Sources;
use exposition::{Form, Labels, Page};
use names::Lasting;

/// Pages that are made at one time, each on a thread of its own.
pub(crate) const PAGES_AT_ONCE_MAX: usize = 1;

/// What pages are made of.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    sources: Sources,
    /// Topics that the last page named, by broker. Held while a page is made.
    lasting: Arc<Mutex<Vec<Lasting>>>,
}

impl Metrics {
    pub(crate) fn of(sources: Sources) -> Self {
        Self { sources, lasting: Arc::default() }
    }
}

pub(crate) async fn get(State(metrics): State<Metrics>, headers: HeaderMap) -> Response {
    let form = Form::asked_for(&headers);
    let mut lasting = metrics.lasting.lock_owned().await;
    match tokio::task::spawn_blocking(move || page(&metrics.sources, form, &mut lasting)).await {
        Ok(page) => ([(header::CONTENT_TYPE, form.content_type())], page).into_response(),
        // Why is in the log already.
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the page was not finished").into_response(),
    }
}

fn page(sources: &Sources, form: Form, lasting: &mut Vec<Lasting>) -> String {
    let mut page = Page::new(form);
    let version = Labels::from([("version", env!("CARGO_PKG_VERSION"))]);
    page.family("sluice_build_info", Kind::Gauge, "1; its label says which version this is.").figure(&version, 1);
    process(&mut page, sources);
    tables(&mut page, &[(Labels::new(), sources.traffic.rows())]);
    let brokers: Vec<_> = sources.brokers.iter().map(|broker| (labels(sources, broker), &**broker)).collect();
    let rows: Vec<_> = brokers.iter().map(|(labels, broker)| (labels.clone(), broker.metrics().rows())).collect();
    tables(&mut page, &rows);
    times(&mut page, &brokers);
    refused(&mut page, &brokers);
    topics::topics(&mut page, &brokers, sources.names_max, lasting);
    topics::progress(&mut page, &brokers, sources.names_max);
    topics::unsettled(&mut page, &brokers, sources.names_max);
    topics::queues(&mut page, &brokers, sources.names_max);
    replicas(&mut page, &brokers, sources);
    masters(&mut page, &brokers, sources);
    page.finish()
}

/// A broker, and what tells its figures from another's.
type Labelled<'a> = (Labels<'a>, &'a Broker);

/// What tells a broker's figures from another's.
fn labels<'a>(sources: &Sources, broker: &'a Broker) -> Labels<'a> {
    if sources.brokers.len() > 1 { vec![("broker", &*broker.options().broker_name)] } else { Labels::new() }
}

fn with<'a>(labels: &Labels<'a>, more: impl IntoIterator<Item = (&'static str, &'a str)>) -> Labels<'a> {
    labels.iter().copied().chain(more).collect()
}

/// What the system counts of the process, by the names that every program has for it.
fn process(page: &mut Page, sources: &Sources) {
    let Some(figures) = (sources.process)() else { return };
    let seconds = |ms| ms as f64 / 1000.0;
    let mut figure = |name, kind, help, value: f64| page.family(name, kind, help).figure(&Labels::new(), value);
    figure("process_cpu_seconds", Kind::Counter, "Time on processors.", seconds(figures.processor_ms));
    figure("process_resident_memory_bytes", Kind::Gauge, "Memory that is really there.", figures.memory_bytes as f64);
    figure("process_open_fds", Kind::Gauge, "Open files, sockets among them.", figures.files as f64);
    if let Some(files_max) = figures.files_max {
        figure("process_max_fds", Kind::Gauge, "Open files that there may be.", files_max as f64);
    }
    let help = "When the process began, since 1970.";
    figure("process_start_time_seconds", Kind::Gauge, help, seconds(figures.started_ms));
}

/// The figures of tables with the same rows, each row of all of them together.
fn tables(page: &mut Page, tables: &[(Labels<'_>, Vec<Row>)]) {
    let Some((_, rows)) = tables.first() else { return };
    for (number, row) in rows.iter().enumerate() {
        let mut family = page.family(row.name, row.kind, row.help);
        for (labels, rows) in tables {
            rows.get(number).into_iter().for_each(|row| family.figure(labels, row.text()));
        }
    }
}

/// Upper ends of the buckets of times, in microseconds.
const BUCKETS_US: [u64; 15] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 3_000_000,
    10_000_000,
];

fn times(page: &mut Page, brokers: &[Labelled<'_>]) {
    let tables: Vec<_> = brokers.iter().map(|(labels, broker)| (labels, broker.timings().rows())).collect();
    let Some((_, rows)) = tables.first() else { return };
    for (number, row) in rows.iter().enumerate() {
        let mut family = page.histograms(row.name, row.help);
        for (labels, rows) in &tables {
            rows.get(number).into_iter().for_each(|row| family.histogram(labels, &row.times.buckets(&ends(row))));
        }
    }
}

/// Ends of buckets, none finer than what can be told apart.
fn ends(row: &TimedRow<'_>) -> Vec<Duration> {
    BUCKETS_US.into_iter().filter(|end_us| *end_us >= row.finest_us).map(Duration::from_micros).collect()
}

fn refused(page: &mut Page, brokers: &[Labelled<'_>]) {
    let mut family = page.family("sluice_requests_refused", Kind::Counter, "Requests refused, by request and answer.");
    for (labels, broker) in brokers {
        for (kind, count) in broker.refused().counts() {
            family.figure(&with(labels, [("request", kind.request), ("answer", kind.answer)]), count);
        }
    }
}

/// Writes a count of bytes and a time for each of some, which `those` gives with their labels.
fn behind<'a>(
    page: &mut Page,
    [(bytes_name, bytes_help), (seconds_name, seconds_help)]: [(&str, &str); 2],
    those: &[(Labels<'a>, u64, u64)],
) {
    let mut bytes = page.family(bytes_name, Kind::Gauge, bytes_help);
    those.iter().for_each(|(labels, lag, _)| bytes.figure(labels, lag));
    let mut seconds = page.family(seconds_name, Kind::Seconds, seconds_help);
    those.iter().for_each(|(labels, _, lag_ms)| seconds.figure(labels, *lag_ms as f64 / 1000.0));
}

/// How far each replica is behind, in bytes of the log and in time.
fn replicas(page: &mut Page, brokers: &[Labelled<'_>], sources: &Sources) {
    let now = (sources.now)();
    let replicas: Vec<_> = brokers
        .iter()
        .flat_map(|(labels, broker)| {
            let written = broker.durability.reached(Watermark::Written);
            broker.durability.replicas().all().into_iter().map(move |replica| {
                let lag = written.0.saturating_sub(replica.end.0);
                let lag_ms = if lag == 0 { 0 } else { now.monotonic.ms_since(replica.caught_up.monotonic) };
                (labels, replica.address.to_string(), lag, lag_ms)
            })
        })
        .collect();
    let those: Vec<_> = replicas
        .iter()
        .map(|(labels, address, lag, lag_ms)| (with(labels, [("replica", &**address)]), *lag, *lag_ms))
        .collect();
    let bytes = ("sluice_replica_lag_bytes", "Bytes of the log that a replica does not have.");
    let seconds = ("sluice_replica_lag_seconds", "Time since a replica had all there was; 0 while it does.");
    behind(page, [bytes, seconds], &those);
}

/// How far each slave is behind its master, in bytes of the log as the master has sent it, and since when it has heard nothing.
fn masters(page: &mut Page, brokers: &[Labelled<'_>], sources: &Sources) {
    let those: Vec<_> = brokers
        .iter()
        .filter_map(|(labels, broker)| {
            let master = broker.following.master()?;
            let lag = master.sent.0.saturating_sub(broker.following.end().0);
            Some((labels.clone(), lag, (sources.now)().monotonic.ms_since(master.at.monotonic)))
        })
        .collect();
    let bytes =
        ("sluice_master_lag_bytes", "Bytes of the log that the master has sent and this slave has not stored yet.");
    let seconds = (
        "sluice_master_silence_seconds",
        "Time since this slave heard of its master's log; about 5 while nothing is sent.",
    );
    behind(page, [bytes, seconds], &those);
}
