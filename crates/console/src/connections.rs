//! Connections to the console: bounded in number, and in the time that a request may take to come and an answer to be taken.
//!
//! Whoever watches the process must get through to it whatever others do. So a connection that has not said what it wants when all
//! places are taken gives its own to the next, the oldest first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::admin::{Peer, with_dots};
use crate::live::HangUp;
use crate::socket::Socket;

/// How long the head of a request may take, and how long a connection may be silent between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Wait after a connection could not be accepted: most often for want of files.
const RETRY: Duration = Duration::from_millis(50);

struct Connection {
    task: AbortHandle,
    /// Requests being answered.
    answering: Arc<AtomicUsize>,
}

/// Serves `router` on `listener` with at most `connections_max` connections until `stopped` is ready.
pub(crate) async fn serve(
    listener: &TcpListener,
    router: Router,
    connections_max: usize,
    stopped: impl Future<Output = ()>,
) {
    let mut tasks = JoinSet::new();
    let mut open: VecDeque<Connection> = VecDeque::new();
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            // So that nobody who comes later is served as before.
            biased;
            () = &mut stopped => break,
            // So that those that ended are forgotten.
            Some(_) = tasks.join_next() => {}
            accepted = listener.accept() => {
                let Ok((socket, peer)) = accepted else {
                    tokio::time::sleep(RETRY).await;
                    continue;
                };
                open.retain(|known| !known.task.is_finished());
                if open.len() >= connections_max && !give_up_one(&mut open) {
                    continue;
                }
                let answering = Arc::new(AtomicUsize::new(0));
                let task = tasks.spawn(drive(socket, Peer(peer), router.clone(), answering.clone()));
                open.push_back(Connection { task, answering });
            }
        }
    }
    open.iter().filter(|known| !known.is_answering()).for_each(|known| known.task.abort());
    while tasks.join_next().await.is_some() {}
}

/// Ends the oldest connection without a request; `false` if each has one.
fn give_up_one(open: &mut VecDeque<Connection>) -> bool {
    let oldest = open.iter().position(|known| !known.is_answering());
    let given_up = oldest.and_then(|at| open.remove(at));
    given_up.map(|connection| connection.task.abort()).is_some()
}

impl Connection {
    fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed) > 0
    }
}

async fn drive(socket: TcpStream, peer: Peer, router: Router, answering: Arc<AtomicUsize>) {
    let router = TowerToHyperService::new(router);
    let hang_up = HangUp::default();
    let hung_up = hang_up.0.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(hang_up.clone());
        if let Some(address) = with_dots(request.uri()) {
            *request.uri_mut() = address;
        }
        let (answer, answering) = (router.call(request), answering.clone());
        async move {
            answering.fetch_add(1, Ordering::Relaxed);
            let answer = answer.await;
            answering.fetch_sub(1, Ordering::Relaxed);
            answer
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(Socket::of(socket)), service);
    // Whatever ends it concerns its peer alone.
    tokio::select! {
        _ = connection => {}
        () = hung_up.notified() => {}
    }
}
