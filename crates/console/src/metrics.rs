//! `GET /metrics`: the metric table in Prometheus' text form, and how far each group is behind.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use base::metric::Kind;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::Sources;

pub(crate) async fn get(State(sources): State<Sources>) -> impl IntoResponse {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Table(sources)));
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
struct Table(Sources);

impl Collector for Table {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for row in self.0.metrics.rows() {
            match row.kind {
                Kind::Counter => {
                    let value = ConstCounter::new(row.value);
                    value.encode(encoder.encode_descriptor(row.name, row.help, None, value.metric_type())?)?;
                }
                Kind::Gauge => {
                    let value = ConstGauge::new(i64::try_from(row.value).unwrap_or(i64::MAX));
                    value.encode(encoder.encode_descriptor(row.name, row.help, None, value.metric_type())?)?;
                }
            }
        }
        let Some(broker) = &self.0.broker else { return Ok(()) };
        let help = "Messages of a group's topics that it has not consumed.";
        let mut family = encoder.encode_descriptor(
            "sluice_group_lag_messages",
            help,
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for (group, lag) in broker.lag_by_group() {
            let value = ConstGauge::new(i64::try_from(lag).unwrap_or(i64::MAX));
            value.encode(family.encode_family(&[("group", group)])?)?;
        }
        Ok(())
    }
}
