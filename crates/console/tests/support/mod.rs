//! What tests of the console share.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests: what goes wrong is a failed test")]

use std::net::SocketAddr;
use std::sync::Arc;

use base::Now;
use broker::Broker;
use console::{Sources, Token};
use serde_json::Value;
use testkit::{GivenSettings, at};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
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

/// Status and JSON of what the admin API answers.
pub async fn ask(console: SocketAddr, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let headers = "Host: localhost\r\nContent-Type: application/json\r\n";
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let length = body.len();
    let head = format!("{method} /admin/v1{path} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}");
    send(console, &format!("{head}\r\n\r\n{body}")).await
}

/// The same of a whole request.
pub async fn send(console: SocketAddr, request: &str) -> (u16, Value) {
    let mut socket = TcpStream::connect(console).await.expect("connects");
    socket.write_all(request.as_bytes()).await.expect("sends");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {answer}")))
}
