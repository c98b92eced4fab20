//! Console HTTP: health and metrics.
//!
//! `GET /health` answers 200 while a broker accepts messages, 503 with the reason otherwise. `GET /metrics` renders the
//! metric tables. It has no private door: what it shows are the broker's figures and admin pictures.

mod health;
mod metrics;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::routing::get;
use base::metric::Traffic;
use broker::Broker;
use tokio::net::TcpListener;

/// What the console shows.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Figures of the process.
    pub traffic: Arc<Traffic>,
    /// The brokers of the process; a name server alone has none.
    pub brokers: Vec<Arc<Broker>>,
    /// Why the process ends, from the moment that it does.
    pub ending: Arc<OnceLock<String>>,
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
