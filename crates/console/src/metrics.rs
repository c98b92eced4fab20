//! `GET /metrics`: the metric tables, and how far each group is behind, for Prometheus.
//!
//! Figures of a broker carry its name if the process has several; a broker alone has them bare.

mod page;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use base::metric::{Kind, Row};
use broker::Broker;

use crate::Sources;
use page::{Form, Labels, Page};

pub(crate) async fn get(State(sources): State<Sources>, headers: HeaderMap) -> impl IntoResponse {
    let accepted: Vec<_> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let form = Form::wanted(&accepted.join(","));
    ([(header::CONTENT_TYPE, form.content_type())], render(&sources, form))
}

fn render(sources: &Sources, form: Form) -> String {
    let mut page = Page::new(form);
    for row in sources.traffic.rows() {
        write_family(&mut page, &[(Labels::new(), row)]);
    }
    let brokers = &sources.brokers;
    let mut tables: Vec<_> =
        brokers.iter().map(|one| (labels(sources, one), one.metrics().rows().into_iter())).collect();
    loop {
        let family: Vec<_> =
            tables.iter_mut().filter_map(|(labels, rows)| Some((labels.clone(), rows.next()?))).collect();
        if family.is_empty() {
            break;
        }
        write_family(&mut page, &family);
    }
    if !brokers.is_empty() {
        write_refused(&mut page, sources);
        write_lag(&mut page, sources);
    }
    page.end()
}

fn write_refused(page: &mut Page, sources: &Sources) {
    let name = "sluice_requests_refused";
    page.family(name, Kind::Counter, "Requests refused, by request and answer.");
    for broker in &sources.brokers {
        for (kind, count) in broker.refused().counts() {
            let mut labels = labels(sources, broker);
            labels.extend([("request", kind.request), ("answer", kind.answer)]);
            page.figure(name, Kind::Counter, &labels, &count.to_string());
        }
    }
}

fn write_lag(page: &mut Page, sources: &Sources) {
    let name = "sluice_group_lag_messages";
    page.family(name, Kind::Gauge, "Messages of a group's topics that it has not consumed.");
    for broker in &sources.brokers {
        for (group, lag) in broker.lag_by_group() {
            let mut labels = labels(sources, broker);
            labels.push(("group", &group));
            page.figure(name, Kind::Gauge, &labels, &lag.to_string());
        }
    }
}

/// What tells a broker's figures from another's.
fn labels<'a>(sources: &Sources, broker: &'a Broker) -> Labels<'a> {
    if sources.brokers.len() > 1 { vec![("broker", &*broker.options().broker_name)] } else { Labels::new() }
}

/// One figure of each broker, below one description.
fn write_family(page: &mut Page, rows: &[(Labels<'_>, Row)]) {
    let Some((_, first)) = rows.first() else { return };
    page.family(first.name, first.kind, first.help);
    for (labels, row) in rows {
        page.figure(row.name, row.kind, labels, &row.text());
    }
}
