//! What a name server is told about a broker process, and what it tells back. Plain data, no behaviour.

use base::Now;

/// One connection to the name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Which process registers.
#[derive(Clone, Copy, Debug)]
pub struct BrokerIdentity<'a> {
    /// Cluster.
    pub cluster: &'a str,
    /// Name the master shares with its replicas.
    pub name: &'a str,
    /// 0 for the master.
    pub id: i64,
    /// Where clients reach it.
    pub address: &'a str,
}

/// What a broker says of itself besides its topics.
#[derive(Clone, Copy, Debug, Default)]
pub struct BrokerTraits<'a> {
    /// Where replicas reach it.
    pub ha_address: &'a str,
    /// Zone.
    pub zone: Option<&'a str>,
    /// How long it may be silent, in ms.
    pub heartbeat_timeout_ms: Option<i64>,
    /// Whether a replica may stand in for the master. Brokers before 5.0 do not say.
    pub enable_acting_master: Option<bool>,
}

/// What a replica learns by registering: where its master is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// Where replicas reach the master.
    pub ha_address: Option<String>,
    /// Where clients reach the master.
    pub master_address: Option<String>,
    /// The group's lowest broker id became lower.
    pub lowest_id_change: Option<LowestIdChange>,
}

/// The lowest broker id of a group changed: a replica may have to stand in for its master, or to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowestIdChange {
    /// The group.
    pub broker_name: String,
    /// Its lowest id now.
    pub lowest_id: i64,
    /// The address under that id.
    pub lowest_address: String,
    /// The address that went, if one did.
    pub offline_address: Option<String>,
    /// Where replicas reach the one that came, if one did.
    pub ha_address: Option<String>,
    /// Addresses to be told.
    pub recipients: Vec<String>,
}

/// How and when a registration came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The connection it came on; when that closes, the broker is gone.
    pub connection: ConnectionId,
    /// Now.
    pub now: Now,
    /// How long the broker may be silent if it does not say so itself, in ms.
    pub timeout_ms: u64,
    /// Whether topics that the broker does not name any more are to be removed.
    pub removes_missing_topics: bool,
}

/// A broker that was silent for too long and is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Its name.
    pub broker_name: String,
    /// Its address.
    pub address: String,
    /// The group's lowest broker id became another.
    pub lowest_id_change: Option<LowestIdChange>,
}
