//! What a broker is called and allows.

use std::net::SocketAddr;

use base::Permission;
use base::offset::AckPolicy;

use crate::model::ModelOptions;

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
    /// What is allowed with any topic of it.
    pub permission: Permission,
    /// Largest body, bytes.
    pub message_size_max: usize,
    /// What has to happen before a message is answered, unless its producer does not wait.
    pub ack_policy: AckPolicy,
    /// How far behind replicas may be and still be waited for, bytes of the log.
    pub replica_gap_max: u64,
    /// Whether topics are made on the first send.
    pub auto_create_topics: bool,
    /// Whether groups are made on first use.
    pub auto_create_groups: bool,
    /// Topics that belong to the broker.
    pub system_topics: SystemTopics,
    /// A client without a heartbeat for this long is gone, ms.
    pub client_expiry_ms: u64,
    /// Whether consumers are told that traces are wanted.
    pub trace_on: bool,
    /// A queue that begins this close to the log's end is read from its start by new groups, bytes.
    pub young_queue_size: u64,
    /// Whether what groups that settle message by message have not settled outlives retention.
    pub keeps_unsettled: bool,
    /// Virtual hosts.
    pub model: ModelOptions,
}

/// Topics that belong to the broker rather than to users. Which they are is for the dialect whose clients know them.
#[derive(Clone, Debug, Default)]
pub struct SystemTopics {
    /// Made at a start if they are not there.
    pub made: Vec<SystemTopic>,
    /// Names that no administrator makes, changes or removes, those of `made` among them.
    pub reserved: Vec<String>,
    /// Names that only the broker writes to.
    pub unwritable: Vec<String>,
    /// The one whose settings new topics take, unless their producer names another.
    pub template: String,
}

/// One that is made.
#[derive(Clone, Debug)]
pub struct SystemTopic {
    /// Name.
    pub name: String,
    /// Queues.
    pub queues: u32,
    /// What it allows.
    pub permission: Permission,
}
