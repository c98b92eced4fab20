//! What sessions of AMQP share, and what RabbitMQ's clients expect to be there.

use std::sync::Arc;

use broker::ModelOptions;
use format::model::RoutingKind;

use super::deaths::Deaths;
use super::replies::Replies;

/// What all sessions share.
#[derive(Clone, Debug)]
pub struct AmqpOptions {
    /// Product that clients are told: drivers switch features on by it.
    pub product: String,
    /// Its version.
    pub version: String,
    /// Name of the cluster.
    pub cluster_name: String,
    /// Largest frame that is offered, bytes.
    pub frame_max: u32,
    /// Most channels of a connection.
    pub channel_max: u16,
    /// Seconds between signs of life that are offered; 0: none.
    pub heartbeat_s: u16,
    /// How long a client may take until it is connected, ms.
    pub handshake_timeout_ms: u64,
    /// How long confirms wait for replicas, ms.
    pub replica_timeout_ms: u64,
    /// How long a client may have a message and not acknowledge it, ms; 0: for ever.
    pub consumer_timeout_ms: u64,
    /// Users that may connect from this machine alone.
    pub loopback_users: Vec<String>,
    /// What of a client's certificate is its user's name.
    pub certificate_user: CertificateUser,
    /// Channels that wait for direct replies.
    pub replies: Arc<Replies>,
}

/// What of a client's certificate is its user's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateUser {
    /// Its common name.
    #[default]
    CommonName,
    /// The whole name.
    DistinguishedName,
}

impl Default for AmqpOptions {
    fn default() -> Self {
        Self {
            product: "RabbitMQ".to_owned(),
            version: "4.0.9".to_owned(),
            cluster_name: "sluice".to_owned(),
            frame_max: 131_072,
            channel_max: 2047,
            heartbeat_s: 60,
            handshake_timeout_ms: 10_000,
            replica_timeout_ms: 3_000,
            consumer_timeout_ms: 1_800_000,
            loopback_users: vec!["guest".to_owned()],
            certificate_user: CertificateUser::default(),
            replies: Arc::default(),
        }
    }
}

/// The virtual host, the user and the exchanges that RabbitMQ has from its first start on.
pub fn model_options() -> ModelOptions {
    let exchange = |name: &str, kind, internal| (name.as_bytes().into(), kind, internal);
    ModelOptions {
        exchanges: vec![
            exchange("amq.direct", RoutingKind::Direct, false),
            exchange("amq.fanout", RoutingKind::Fanout, false),
            exchange("amq.headers", RoutingKind::Headers, false),
            exchange("amq.match", RoutingKind::Headers, false),
            exchange("amq.rabbitmq.trace", RoutingKind::Topic, true),
            exchange("amq.topic", RoutingKind::Topic, false),
        ],
        first_host: Some("/".to_owned()),
        first_user: ("guest".to_owned(), "guest".to_owned()),
        death_form: Arc::new(Deaths),
    }
}
