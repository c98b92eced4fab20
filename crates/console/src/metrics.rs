//! `GET /metrics`: the metric tables in Prometheus' text form, and how far each group is behind.
//!
//! Figures of a broker carry its name if the process has several; a broker alone has them bare.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use base::metric::{Kind, Row};
use broker::Broker;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::Sources;

pub(crate) async fn get(State(sources): State<Sources>) -> impl IntoResponse {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Tables(sources)));
    let mut page = String::new();
    let status = match text::encode(&mut page, &registry) {
        Ok(()) => StatusCode::OK,
        Err(error) => {
            page = error.to_string();
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    (status, [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], page)
}

#[derive(Debug)]
struct Tables(Sources);

/// A figure's labels: names and values.
type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Tables {
    /// What tells a broker's figures from another's.
    fn labels<'a>(&self, broker: &'a Broker) -> Labels<'a> {
        if self.0.brokers.len() > 1 { vec![("broker", &*broker.options().broker_name)] } else { Vec::new() }
    }
}

impl Collector for Tables {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for row in self.0.traffic.rows() {
            encode_family(&mut encoder, &[(Labels::new(), row)])?;
        }
        let brokers = &self.0.brokers;
        let mut tables: Vec<_> =
            brokers.iter().map(|one| (self.labels(one), one.metrics().rows().into_iter())).collect();
        loop {
            let family: Vec<_> =
                tables.iter_mut().filter_map(|(labels, rows)| Some((labels.clone(), rows.next()?))).collect();
            if family.is_empty() {
                break;
            }
            encode_family(&mut encoder, &family)?;
        }
        if brokers.is_empty() {
            return Ok(());
        }
        self.encode_refused(&mut encoder)?;
        let help = "Messages of a group's topics that it has not consumed.";
        let mut family = encoder.encode_descriptor("sluice_group_lag_messages", help, None, MetricType::Gauge)?;
        for broker in brokers {
            for (group, lag) in broker.lag_by_group() {
                let mut labels = self.labels(broker);
                labels.push(("group", &group));
                gauge(lag).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Tables {
    fn encode_refused(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "Requests refused, by request and answer.";
        let mut family = encoder.encode_descriptor("sluice_requests_refused", help, None, MetricType::Counter)?;
        for broker in &self.0.brokers {
            for (kind, count) in broker.refused().counts() {
                let mut labels = self.labels(broker);
                labels.extend([("request", kind.request), ("answer", kind.answer)]);
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// One figure of each broker, below one description.
fn encode_family(encoder: &mut DescriptorEncoder<'_>, rows: &[(Labels<'_>, Row)]) -> Result<(), std::fmt::Error> {
    let Some((_, first)) = rows.first() else { return Ok(()) };
    let kind = match first.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
    };
    let mut family = encoder.encode_descriptor(first.name, first.help, None, kind)?;
    for (labels, row) in rows {
        if labels.is_empty() {
            return encode_figure(row, family);
        }
        encode_figure(row, family.encode_family(labels)?)?;
    }
    Ok(())
}

fn encode_figure(row: &Row, encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
    match row.kind {
        Kind::Counter => ConstCounter::new(row.value).encode(encoder),
        Kind::Gauge => gauge(row.value).encode(encoder),
    }
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
