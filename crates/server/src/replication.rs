//! The broker's port for replicas: RocketMQ's slaves follow its log there. What is said there is the business of `cluster::replication`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use base::LogOffset;
use base::offset::Watermark;
use broker::{Broker, Replica, ReplicaList};
use bytes::Bytes;
use cluster::replication::{Follower, Followers, InReach, LeaderLog, LeaderSession, Times};
use settings::{BrokerRole, Settings};
use tokio::net::TcpListener;

use crate::broker_options;
use crate::clock;
use crate::drive::Drive;
use crate::error::StartError;
use crate::net;
use crate::tls::TlsPort;

/// The port.
pub(crate) struct ReplicationPort {
    listener: TcpListener,
    /// How many replicas are to have what counts as replicated.
    wanted: usize,
    times: Times,
}

impl ReplicationPort {
    /// Listens for replicas, if these settings are a master's. Where the port is not named in the settings, another process may have it: then there are none.
    pub(crate) fn listen(settings: &Settings) -> Result<Option<Self>, StartError> {
        if settings.broker.role == BrokerRole::Slave {
            return Ok(None);
        }
        let (host, port, backlog) = (&settings.listen.host, settings.replication_port(), settings.server.backlog);
        let listener = match net::listen(host, port, backlog, "replication.port") {
            Ok(listener) => listener,
            Err(error) if settings.replication.port.is_none() => {
                tracing::warn!(%error, "replicas cannot connect; name another port for them (replication.port)");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // The broker's own copy is one of them.
        let wanted = settings.replication.copies.saturating_sub(1).max(1) as usize;
        Ok(Some(Self { listener, wanted, times: broker_options::replication_times(settings) }))
    }

    pub(crate) fn port(&self) -> u16 {
        net::local(&self.listener).port()
    }

    /// Serves replicas until the process stops.
    pub(crate) async fn serve(self, broker: Arc<Broker>, drive: Drive) {
        // RocketMQ's slaves speak no TLS here, whatever clients speak.
        let drive = Drive { tls: Arc::<TlsPort>::default(), ..drive };
        let (followers, times) =
            (Arc::new(Followers::new(self.wanted, broker.store().watermarks().committed())), self.times);
        broker.durability.replicas().listed_by(Box::new(Connected(followers.clone())));
        let log: Arc<dyn LeaderLog> = Arc::new(ServedLog(broker));
        let begin = move |waker, peer| {
            let (log, followers, address) = (log.clone(), followers.clone(), net::canonical(peer));
            LeaderSession::new(log, followers, address, times, waker, clock::monotonic())
        };
        drive.serve(self.listener, begin).await;
    }
}

/// The replicas that are connected, as the broker shows them.
#[derive(Debug)]
struct Connected(Arc<Followers>);

impl ReplicaList for Connected {
    fn all(&self) -> Vec<Replica> {
        let shown = |Follower { address, end, sent, sent_per_second, caught_up, .. }| Replica {
            address,
            end,
            sent,
            sent_per_second,
            caught_up,
        };
        self.0.all().into_iter().map(shown).collect()
    }
}

/// A broker's log.
struct ServedLog(Arc<Broker>);

impl LeaderLog for ServedLog {
    fn first(&self) -> LogOffset {
        self.0.store().log_first()
    }

    fn end(&self) -> LogOffset {
        self.0.store().watermarks().committed()
    }

    fn recent(&self, start: LogOffset, size: usize) -> Vec<Bytes> {
        self.0.store().recent_raw(start, size)
    }

    fn read(&self, start: LogOffset, size: usize) -> Result<Bytes, String> {
        self.0.store().read_raw(start, size).map_err(|error| error.to_string())
    }

    fn when_written_beyond(&self, end: LogOffset, waker: &Waker) {
        self.0.store().when(Watermark::Committed, end.after(1), waker.clone());
    }

    fn note_joined(&self, address: SocketAddr, end: LogOffset) {
        let behind_bytes = self.end().0.saturating_sub(end.0);
        tracing::info!(replica = %address, end = end.0, behind_bytes, "a replica follows the log");
    }

    fn note_left(&self, address: SocketAddr, end: LogOffset) {
        let behind_bytes = self.end().0.saturating_sub(end.0);
        tracing::warn!(replica = %address, end = end.0, behind_bytes, "a replica is gone");
    }

    fn note_replicated(&self, reached: InReach) {
        self.0.durability.note_replicas(match reached {
            InReach::Until(offset) => Some(offset),
            InReach::TooFew => None,
        });
    }
}
