//! What tests of the console share.

#![allow(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

use std::net::SocketAddr;
use std::sync::Arc;

use base::Now;
use broker::Broker;
use console::{Sources, Token};
use testkit::{GivenSettings, at};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// What time it is.
pub const START: Now = at(1_700_000_000_000);

/// A console with these brokers behind it, on a port of its own, for as long as the runtime lives.
pub async fn serve(brokers: Vec<Arc<Broker>>, token: Option<Token>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("address");
    let sources = Sources {
        token,
        traffic: Arc::default(),
        brokers,
        settings: Arc::new(GivenSettings::new(&[])),
        ending: Arc::default(),
        process: || None,
        now: || START,
        names_max: 2,
    };
    let (opener, opened) = oneshot::channel();
    opener.send(sources).expect("it waits");
    tokio::spawn(console::serve(listener, opened, 64, std::future::pending()));
    address
}
