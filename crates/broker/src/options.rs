//! What a broker is called and allows.

use std::net::SocketAddr;

use base::offset::AckPolicy;

/// What a broker is called and allows.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Name of the broker.
    pub broker_name: String,
    /// Region, written into every message.
    pub region: String,
    /// Address written into every message; ids of messages are made of it.
    pub store_host: SocketAddr,
    /// Permission bits of the whole broker.
    pub permission: u32,
    /// Largest body, bytes.
    pub message_size_max: usize,
    /// What has to happen before a message is answered, unless its producer does not wait.
    pub ack_policy: AckPolicy,
    /// Whether topics are made on the first send.
    pub auto_create_topics: bool,
    /// Queues the template for such topics has.
    pub default_queues: u32,
    /// Whether groups are made on first use.
    pub auto_create_groups: bool,
    /// Whether there is a topic named as the cluster.
    pub cluster_topic: bool,
    /// Whether there is a topic named as the broker.
    pub broker_topic: bool,
    /// Whether there is a topic for traces, and its name.
    pub trace_topic: Option<String>,
    /// A client without a heartbeat for this long is gone, ms.
    pub client_expiry_ms: u64,
    /// Whether consumers are told that traces are wanted.
    pub trace_on: bool,
    /// A queue that begins this close to the log's end is read from its start by new groups, bytes.
    pub young_queue_size: u64,
}
