//! Keeps the broker registered at all name servers, over one connection each. It stays open: a name server drops the broker when it
//! closes.

use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use broker::Broker;
use bytes::{Bytes, BytesMut};
use cluster::registration::{Identity, read_register_answer, register_request, unregister_request};
use format::document::TopicTableDocument;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use wire::rocketmq::frame::{self, Command, Form};

use crate::announcements::Slot;
use crate::background::BrokerHost;
use crate::drive::Stop;
use crate::tls::{Connector, Stream};

/// Pause before an unreachable name server is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long changes of topics are collected before they are announced together.
const GATHER: Duration = Duration::from_millis(5);

/// The broker's permission that restricts no topic.
const READ_AND_WRITE: u32 = 0b110;

#[derive(Clone)]
pub(crate) struct Registrar {
    pub(crate) broker: Arc<Broker>,
    pub(crate) host: Arc<BrokerHost>,
    pub(crate) identity: Identity,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) stop: Stop,
    pub(crate) connector: Connector,
}

impl Registrar {
    /// Registers at `address` until the process stops; signals `first` after the first success.
    pub(crate) async fn run(mut self, address: String, first: oneshot::Sender<()>) {
        let mut first = Some(first);
        let mut has_failed = false;
        let slot = self.host.announcements.join();
        while !*self.stop.borrow() {
            let outcome = self.stay_registered(&address, &slot, &mut first, &mut has_failed).await;
            slot.is_lost();
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
        slot: &Slot,
        first: &mut Option<oneshot::Sender<()>>,
        has_failed: &mut bool,
    ) -> Result<(), String> {
        let connected = tokio::time::timeout(self.timeout, self.connector.connect(address)).await;
        let mut connection = connected.map_err(|_| "no answer".to_owned())??;
        let socket = &mut connection.stream;
        let mut opaque = 0;
        loop {
            opaque += 1;
            // Subscribed before the table is read, so that no change is missed in between.
            let host = self.host.clone();
            let changed = host.topics.notified();
            let change = host.announcements.last_change();
            let request = self.request(opaque).await?;
            let answer = exchange(socket, &request);
            let answer = tokio::time::timeout(self.timeout, answer).await.map_err(|_| "no answer".to_owned())??;
            let command = Command::decode(&answer).map_err(|error| error.to_string())?;
            read_register_answer(&command).map_err(|refusal| refusal.to_string())?;
            slot.knows(change);
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
                    let _ = tokio::time::timeout(self.timeout, exchange(socket, &farewell)).await;
                    return Ok(());
                }
            }
        }
    }

    /// The registration request. Built on a blocking thread: with 200 000 topics it takes a second.
    async fn request(&self, opaque: i32) -> Result<Bytes, String> {
        let registrar = self.clone();
        let request = move || {
            let broker = &registrar.broker;
            let topics = told(broker.catalog.topic_table(), broker.options().permission, broker.started().wall);
            register_request(&registrar.identity, &topics, Form::Json, opaque).map_err(|error| error.to_string())
        };
        tokio::task::spawn_blocking(request).await.unwrap_or_else(|ended| match ended.try_into_panic() {
            // A panic there counts as one of this task, which ends the process.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(ended) => Err(ended.to_string()),
        })
    }
}

/// The topic table for name servers: each topic's permission restricted by `broker.permission`, so that producers do not choose a
/// broker that takes no messages.
///
/// Its version is unique to this process: the setting may have changed since the last one, and a name server ignores a table whose
/// version it already has.
fn told(mut topics: TopicTableDocument, permission: u32, started: Timestamp) -> TopicTableDocument {
    let version = &mut topics.data_version;
    version.timestamp = version.timestamp.max(i64::try_from(started.0).unwrap_or(i64::MAX));
    if permission & READ_AND_WRITE != READ_AND_WRITE {
        topics.topic_config_table.values_mut().for_each(|topic| topic.perm &= permission);
    }
    topics
}

/// Sends one request and reads frames until its answer has come.
async fn exchange(socket: &mut impl Stream, request: &[u8]) -> Result<BytesMut, String> {
    socket.write_all(request).await.map_err(|error| error.to_string())?;
    socket.flush().await.map_err(|error| error.to_string())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use format::document::{DataVersion, TopicDocument};

    fn table(permission: u32, timestamp: i64) -> TopicTableDocument {
        let topic = TopicDocument { perm: permission, ..TopicDocument::default() };
        TopicTableDocument {
            data_version: DataVersion { counter: 7, timestamp, ..DataVersion::default() },
            topic_config_table: [("t".to_owned(), topic)].into(),
        }
    }

    #[test]
    fn name_servers_are_told_what_the_broker_leaves_of_each_permission() {
        for (of_topic, of_broker, expected) in
            [(6, 6, 6), (7, 6, 7), (6, 7, 6), (4, 6, 4), (6, 4, 4), (2, 4, 0), (7, 2, 2)]
        {
            let told = told(table(of_topic, 0), of_broker, Timestamp(0));
            assert_eq!(told.topic_config_table["t"].perm, expected, "{of_topic} of {of_broker}");
        }
    }

    #[test]
    fn the_version_is_never_one_that_the_process_before_has_told() {
        let told_at = |changed, started| told(table(6, changed), 6, Timestamp(started)).data_version;
        assert_eq!((told_at(1000, 5000).timestamp, told_at(1000, 5000).counter), (5000, 7));
        assert_eq!(told_at(6000, 5000).timestamp, 6000);
    }
}
