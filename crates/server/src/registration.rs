//! Keeps the broker registered at every name server: one connection each, held open since name servers drop the broker
//! with it.

use std::sync::Arc;
use std::time::Duration;

use broker::Broker;
use bytes::BytesMut;
use cluster::registration::{Identity, read_register_answer, register_request, unregister_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use wire::rocketmq::frame::{self, Command, Form};

use crate::background::Bells;
use crate::drive::Stop;

/// Wait before a name server that cannot be reached is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Changes of topics are gathered this long before they are announced.
const GATHER: Duration = Duration::from_millis(5);

/// What registering needs.
#[derive(Clone)]
pub(crate) struct Registrar {
    pub(crate) broker: Arc<Broker>,
    pub(crate) bells: Arc<Bells>,
    pub(crate) identity: Identity,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) stop: Stop,
}

impl Registrar {
    /// Registers at `address` until the process stops; tells `first` once it has succeeded for the first time.
    pub(crate) async fn run(mut self, address: String, first: oneshot::Sender<()>) {
        let mut first = Some(first);
        let mut has_failed = false;
        while !*self.stop.borrow() {
            let outcome = self.stay_registered(&address, &mut first, &mut has_failed).await;
            match outcome {
                Ok(()) => return,
                Err(problem) if !has_failed => {
                    tracing::warn!(name_server = address, problem, "cannot register at the name server; trying again");
                    has_failed = true;
                }
                Err(problem) => tracing::debug!(name_server = address, problem, "still not registered"),
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_INTERVAL) => {}
                _ = self.stop.changed() => {}
            }
        }
    }

    async fn stay_registered(
        &mut self,
        address: &str,
        first: &mut Option<oneshot::Sender<()>>,
        has_failed: &mut bool,
    ) -> Result<(), String> {
        let connected = tokio::time::timeout(self.timeout, TcpStream::connect(address)).await;
        let mut socket = connected.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())?;
        let _ = socket.set_nodelay(true);
        let mut opaque = 0;
        loop {
            opaque += 1;
            // Listening begins before the table is read, so that no change falls in between.
            let bells = self.bells.clone();
            let changed = bells.topics.notified();
            let topics = self.broker.catalog().topic_table();
            let request = register_request(&self.identity, &topics, Form::Json, opaque).map_err(|e| e.to_string())?;
            let answer = exchange(&mut socket, &request);
            let answer = tokio::time::timeout(self.timeout, answer).await.map_err(|_| "no answer".to_owned())??;
            let command = Command::decode(&answer).map_err(|error| error.to_string())?;
            read_register_answer(&command).map_err(|refusal| refusal.to_string())?;
            if let Some(first) = first.take() {
                tracing::info!(name_server = address, "registered at the name server");
                let _ = first.send(());
            } else if std::mem::take(has_failed) {
                tracing::info!(name_server = address, "registered at the name server again");
            }
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                () = changed => tokio::time::sleep(GATHER).await,
                _ = self.stop.changed() => {
                    let farewell = unregister_request(&self.identity, Form::Json, opaque + 1);
                    let _ = tokio::time::timeout(self.timeout, exchange(&mut socket, &farewell)).await;
                    return Ok(());
                }
            }
        }
    }
}

/// Sends one request and reads frames until its answer has come.
async fn exchange(socket: &mut TcpStream, request: &[u8]) -> Result<BytesMut, String> {
    socket.write_all(request).await.map_err(|error| error.to_string())?;
    let mut input = BytesMut::new();
    loop {
        if let Some(length) = frame::frame_len(&input).map_err(|error| error.to_string())? {
            let answer = input.split_to(length);
            if Command::decode(&answer).is_ok_and(|command| command.header.is_response()) {
                return Ok(answer);
            }
            continue;
        }
        if socket.read_buf(&mut input).await.map_err(|error| error.to_string())? == 0 {
            return Err("the name server closed the connection".to_owned());
        }
    }
}
