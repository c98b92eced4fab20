//! Console HTTP: health, metrics, the admin API.
//!
//! `GET /health` answers 200 while a broker accepts messages, `GET /ready` while it is to be given clients, 503 with the reason otherwise.
//! `GET /metrics` renders the metric tables, `GET /` is a page for people; `/admin/v1` is the admin API, of
//! which the page has all it shows. It has no private door: what it shows are
//! the broker's figures and admin snapshots. Until the brokers are opened, every page but the files of `/` says that they are not yet.

mod admin;
mod connections;
mod health;
mod history;
mod live;
mod metrics;
mod page;
mod socket;
mod token;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::routing::get;
use base::Now;
use base::metric::Traffic;
use base::running_settings::RunningSettings;
use broker::Broker;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use token::Token;

/// Threads that the console's work may take at one time.
pub const JOBS_AT_ONCE_MAX: usize = admin::JOBS_AT_ONCE_MAX + metrics::PAGES_AT_ONCE_MAX + SAMPLES_AT_ONCE_MAX;

/// Looks at the process for the history of the page.
const SAMPLES_AT_ONCE_MAX: usize = 1;

/// What the system counts of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessFigures {
    /// Time on processors, ms.
    pub processor_ms: u64,
    /// Memory that is really there.
    pub memory_bytes: u64,
    /// Open files, sockets among them.
    pub files: u64,
    /// How many there may be; `None`: any number.
    pub files_max: Option<u64>,
    /// When it began, ms since 1970.
    pub started_ms: u64,
}

/// What the console shows.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Figures of the process.
    pub traffic: Arc<Traffic>,
    /// The brokers of the process; a name server alone has none.
    pub brokers: Vec<Arc<Broker>>,
    /// Its settings.
    pub settings: Arc<dyn RunningSettings>,
    /// What whoever administers has to show; `None`: only this machine is answered.
    pub token: Option<Token>,
    /// Why the process ends, from the moment that it does.
    pub ending: Arc<OnceLock<String>>,
    /// What the system counts of the process; `None` where it does not tell.
    pub process: fn() -> Option<ProcessFigures>,
    /// The time.
    pub now: fn() -> Now,
    /// Topics that the metrics page names at most, of each broker; and groups likewise.
    pub names_max: usize,
}

/// Serves the console on `listener` with at most `connections_max` connections until `stopped` is ready. What there is to show comes by
/// `opened`; if nothing ever does, it ends.
pub async fn serve(
    listener: TcpListener,
    opened: oneshot::Receiver<Sources>,
    connections_max: usize,
    stopped: impl Future<Output = ()>,
) {
    let mut sources = None;
    let opening = async { sources = opened.await.ok() };
    let starting = page::router().fallback(health::starting);
    connections::serve(&listener, starting, connections_max, opening).await;
    let Some(sources) = sources else { return };
    let live = Arc::new(live::Live::default());
    let serving = connections::serve(&listener, router(sources.clone(), live.clone()), connections_max, stopped);
    tokio::select! {
        () = serving => {}
        () = live.keep(sources) => {}
    }
}

fn router(sources: Sources, live: Arc<live::Live>) -> Router {
    Router::new()
        .route("/health", get(health::get))
        .route("/ready", get(health::ready))
        .with_state(sources.clone())
        .route("/metrics", get(metrics::get).with_state(metrics::Metrics::of(sources.clone())))
        .nest("/admin/v1", admin::router(sources, live))
        .merge(page::router())
        .fallback(admin::no_such_page)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    /// A console, and who tells it what there is to show.
    async fn starting(connections_max: usize) -> (std::net::SocketAddr, oneshot::Sender<Sources>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("address");
        let (opener, opened) = oneshot::channel();
        tokio::spawn(serve(listener, opened, connections_max, std::future::pending()));
        (address, opener)
    }

    fn sources() -> Sources {
        Sources {
            traffic: Arc::default(),
            brokers: Vec::new(),
            settings: Arc::new(base::running_settings::NoSettings),
            token: None,
            ending: Arc::default(),
            process: || None,
            now: Now::default,
            names_max: 10,
        }
    }

    async fn console(connections_max: usize) -> std::net::SocketAddr {
        let (address, opener) = starting(connections_max).await;
        opener.send(sources()).expect("it waits");
        address
    }

    async fn page(address: std::net::SocketAddr, path: &str) -> String {
        let mut socket = TcpStream::connect(address).await.expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.expect("sends");
        let mut page = String::new();
        socket.read_to_string(&mut page).await.expect("reads");
        page
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
            let page = page(address, "/health").await;
            assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with(r#"{"status":"up"}"#), "{page}");
        }
        // Those that had to go are closed, the oldest first.
        let mut rest = Vec::new();
        let closed = half_sent[0].read_to_end(&mut rest).await;
        assert!(closed.is_err() || rest.is_empty());
    }

    #[tokio::test]
    async fn until_there_is_something_to_show_every_page_says_so() {
        let (address, opener) = starting(8).await;
        for path in ["/health", "/ready", "/metrics", "/admin/v1/brokers"] {
            let page = page(address, path).await;
            assert!(page.starts_with("HTTP/1.1 503 ") && page.contains(r#""status":"starting""#), "{path}: {page}");
        }
        assert!(page(address, "/").await.starts_with("HTTP/1.1 200 "));
        opener.send(sources()).expect("it waits");
        let page = loop {
            let page = page(address, "/ready").await;
            if !page.starts_with("HTTP/1.1 503 ") {
                break page;
            }
        };
        assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with(r#"{"status":"ready"}"#), "{page}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_does_not_come_whole_is_not_waited_for() {
        let mut socket = half_a_request(console(8).await).await;
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(60), socket.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "it is still open");
    }
}
