//! Console HTTP: health, metrics, the admin API.
//!
//! `GET /health` answers 200 while a broker accepts messages, 503 with the reason otherwise. `GET /metrics` renders the
//! metric tables, `GET /` links to both; `/admin/v1` is the admin API. It has no private door: what it shows are the broker's figures and admin snapshots.

mod admin;
mod connections;
mod health;
mod metrics;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use base::Now;
use base::metric::Traffic;
use base::running_settings::RunningSettings;
use broker::Broker;
use tokio::net::TcpListener;

pub use admin::JOBS_AT_ONCE_MAX;

/// What the console shows.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Figures of the process.
    pub traffic: Arc<Traffic>,
    /// The brokers of the process; a name server alone has none.
    pub brokers: Vec<Arc<Broker>>,
    /// Its settings.
    pub settings: Arc<dyn RunningSettings>,
    /// Why the process ends, from the moment that it does.
    pub ending: Arc<OnceLock<String>>,
    /// The time.
    pub now: fn() -> Now,
}

/// Serves the console on `listener` with at most `connections_max` connections until `stopped` is ready.
pub async fn serve(listener: TcpListener, sources: Sources, connections_max: usize, stopped: impl Future<Output = ()>) {
    connections::serve(listener, router(sources), connections_max, stopped).await;
}

fn router(sources: Sources) -> Router {
    Router::new()
        // For people who follow the address that the ready line shows.
        .route("/", get(async || Html(include_str!("index.html"))))
        .route("/health", get(health::get))
        .route("/metrics", get(metrics::get))
        .with_state(sources.clone())
        .nest("/admin/v1", admin::router(sources))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    async fn console(connections_max: usize) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("address");
        let sources = Sources {
            traffic: Arc::default(),
            brokers: Vec::new(),
            settings: Arc::new(base::running_settings::NoSettings),
            ending: Arc::default(),
            now: Now::default,
        };
        tokio::spawn(serve(listener, sources, connections_max, std::future::pending()));
        address
    }

    async fn half_a_request(address: std::net::SocketAddr) -> TcpStream {
        let mut socket = TcpStream::connect(address).await.expect("connects");
        socket.write_all(b"GET /health HTTP/1.1\r\nHost:").await.expect("sends");
        socket
    }

    #[tokio::test]
    async fn half_sent_requests_keep_nobody_from_the_health_page() {
        let address = console(8).await;
        let mut half_sent = Vec::new();
        for _ in 0..80 {
            half_sent.push(half_a_request(address).await);
        }
        for _ in 0..20 {
            let mut socket = TcpStream::connect(address).await.expect("connects");
            socket.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.expect("sends");
            let mut page = String::new();
            socket.read_to_string(&mut page).await.expect("reads");
            assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with(r#"{"status":"up"}"#), "{page}");
        }
        // Those that had to go are closed, the oldest first.
        let mut rest = Vec::new();
        let closed = half_sent[0].read_to_end(&mut rest).await;
        assert!(closed.is_err() || rest.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_does_not_come_whole_is_not_waited_for() {
        let mut socket = half_a_request(console(8).await).await;
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(60), socket.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "it is still open");
    }
}
