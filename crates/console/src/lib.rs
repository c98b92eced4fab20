//! Console HTTP: health and metrics.
//!
//! `GET /health` answers 200 while the broker accepts messages, 503 with the reason otherwise. `GET /metrics` renders the
//! metric table. It has no private door: what it shows are the broker's figures and admin pictures.

mod health;
mod metrics;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use base::metric::Metrics;
use broker::Broker;
use tokio::net::TcpListener;

/// What the console shows.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Every figure.
    pub metrics: Arc<Metrics>,
    /// The broker, unless the process is a name server alone.
    pub broker: Option<Arc<Broker>>,
}

/// Serves the console on `listener` until `stopped` is ready.
pub async fn serve(
    listener: TcpListener,
    sources: Sources,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(sources)).with_graceful_shutdown(stopped).await
}

fn router(sources: Sources) -> Router {
    Router::new().route("/health", get(health::get)).route("/metrics", get(metrics::get)).with_state(sources)
}
