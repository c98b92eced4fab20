//! Rows about listening, connections, threads and the process's own log.

use std::path::PathBuf;
use std::time::Duration;

use super::row::{Alias, PORT, Scope, milliseconds, same, seconds, section, times_ms, within};
use crate::choice::{CertificateUser, LogFormat};
use crate::kind::Kind;

section!(Listen, "listen", "Address the process listens on" {
    host: String = "127.0.0.1", Kind::Host,
        "IP address or host name that all ports listen on",
        "only this machine can connect, since nothing is authenticated; use 0.0.0.0 for all interfaces",
        same("bindAddress");
});

section!(Nameserver, "nameserver", "The name server, which tells clients which brokers have a topic" {
    port: u16 = "9876", PORT,
        "TCP port of the name server; 0 lets the system choose",
        "the port that RocketMQ clients expect",
        within(Scope::NameServer, "listenPort");
    broker_timeout: Duration = "2m", times_ms(1_000, 86_400_000),
        "Time without a registration after which a broker is removed from all routes",
        "four registration intervals, as in RocketMQ; lower it to detect dead brokers sooner";
    idle_timeout: Duration = "2m", times_ms(1_000, 86_400_000),
        "Time without traffic after which a connection is closed; a broker on it is removed from all routes",
        "the same as broker_timeout",
        Alias { scope: Scope::NameServer, ..seconds("serverChannelMaxIdleTimeSeconds") };
    scan_interval: Duration = "5s", times_ms(100, 3_600_000),
        "How often brokers are checked against broker_timeout",
        "short compared with broker_timeout, so that removal is not late",
        milliseconds("scanNotActiveBrokerInterval");
    kv_path: Option<PathBuf> = "", Kind::Path,
        "File of the key-value table; when not set, nameserver/kvConfig.json in the (first) data directory",
        "kept with the other data",
        same("kvConfigPath");
    order_messages: bool = "false", Kind::Boolean,
        "Whether routes include the fixed queue order of ordered topics",
        "as in RocketMQ; turn on if you set ORDER_TOPIC_CONFIG in the key-value table",
        same("orderMessageEnable");
    return_order_topics: bool = "true", Kind::Boolean,
        "Whether a registering broker is sent the list of ordered topics",
        "as in RocketMQ",
        same("returnOrderTopicConfigToBroker");
    list_all_topics: bool = "true", Kind::Boolean,
        "Whether clients may list the names of all topics",
        "admin tools need it; turn off to hide topic names",
        same("enableAllTopicList");
    list_topics: bool = "true", Kind::Boolean,
        "Whether clients may list the topics of a cluster, of a unit, or of the system",
        "admin tools need it; turn off to hide topic names",
        same("enableTopicList");
    delete_topics_on_registration: bool = "false", Kind::Boolean,
        "Whether a topic that a broker no longer registers is removed from its routes",
        "as in RocketMQ; off, a broker that starts with an empty disk does not remove routes",
        same("deleteTopicWithBrokerRegistration");
    acting_masters: bool = "true", Kind::Boolean,
        "Whether routes show a slave that allows it (replication.acting_master) in the place of a master that is gone",
        "consumers that have just started ask only a master where they stand; RocketMQ has false",
        same("supportActingMaster");
    notify_slaves: bool = "true", Kind::Boolean,
        "Whether slaves that may act as master are told when the lowest broker id of their group changes",
        "slaves of RocketMQ act, or stop acting, at once instead of when they ask; RocketMQ has false",
        same("notifyMinBrokerIdChanged");
});

section!(Rocketmq, "rocketmq", "The broker port for RocketMQ clients" {
    port: u16 = "10911", PORT,
        "TCP port of the broker for RocketMQ clients; 0 lets the system choose",
        "the default port of a RocketMQ broker",
        within(Scope::Broker, "listenPort");
    idle_timeout: Duration = "2m", times_ms(1_000, 86_400_000),
        "Time without traffic after which a client connection is closed",
        "four heartbeat intervals, as in RocketMQ",
        Alias { scope: Scope::Broker, ..seconds("serverChannelMaxIdleTimeSeconds") };
});

section!(Amqp, "amqp", "The broker port for AMQP 0-9-1, which RabbitMQ's clients speak" {
    port: Option<u16> = "", PORT,
        "TCP port of the broker for AMQP 0-9-1 clients, such as 5672; 0 lets the system choose; when not set, AMQP is not spoken",
        "AMQP is new here and lacks things that docs/semantics.md names";
    tls_port: Option<u16> = "", PORT,
        "TCP port for AMQP 0-9-1 clients that speak TLS from their first byte, such as 5671; 0 lets the system choose; with the certificate of \
         tls.certificate; amqp.port goes on as tls.mode says",
        "needed only for clients that are told another port for TLS";
    heartbeat: Duration = "1m", times_ms(0, 3_600_000),
        "Time between signs of life that clients are offered, in whole seconds; 0 offers none",
        "as in RabbitMQ";
    product: String = "RabbitMQ", Kind::Text,
        "Name of the server that clients are told",
        "drivers switch features on by it";
    version: String = "4.0.9", Kind::Text,
        "Version of the server that clients are told",
        "drivers switch features on by it";
    loopback_users: String = "guest", Kind::Text,
        "Users, with commas between them, that may connect from this machine alone",
        "as in RabbitMQ: everybody knows the password of guest";
    certificate_user: CertificateUser = "common_name",
        Kind::Choice { known: &["common_name", "distinguished_name"], later: &[] },
        "What of a client's certificate names the user whom the mechanism EXTERNAL lets in; offered where tls.client_auth asks for certificates",
        "as RabbitMQ's ssl_cert_login_from with common_name; RabbitMQ itself has distinguished_name (CN=anna,O=Example)";
    consumer_timeout: Duration = "30m", times_ms(0, 315_360_000_000),
        "How long a client may have a message without acknowledging it before its channel is closed; 0: for ever. A queue's x-consumer-timeout goes before",
        "as in RabbitMQ: what a client has forgotten comes to another";
});

impl Amqp {
    /// Whether it is spoken at all.
    pub const fn is_spoken(&self) -> bool {
        self.port.is_some() || self.tls_port.is_some()
    }
}

section!(Console, "console", "HTTP console: metrics, health and the admin API" {
    port: u16 = "8080", PORT,
        "TCP port of the HTTP console; 0 lets the system choose",
        "a usual port for HTTP; change it if another program uses 8080";
    metric_names_max: usize = "1000", Kind::Integer { min: 0, max: 100_000 },
        "Topics that the metrics page names, and groups likewise, of each broker; the others are summed under the name _other",
        "what most clusters have; each name is some lines of every page, and some series in Prometheus";
    token_file: Option<PathBuf> = "", Kind::Path,
        "File with the token, of 16 characters or more, that whoever asks the admin API has to show, from this machine or another",
        "without one the admin API answers this machine alone, and anybody on it";
});

section!(Log, "log", "Log output of the process, on standard error" {
    format: LogFormat = "text", Kind::Choice { known: &["text", "json"], later: &[] },
        "Format of log lines",
        "text is for people; choose json for log collectors";
    level: String = "info", Kind::Text,
        "Lowest level that is logged: error, warn, info, debug or trace; also per crate, as in info,storage=debug",
        "info logs one line for each event that matters to an operator";
});

section!(Server, "server", "Threads and connections of the process" {
    threads: usize = "0", Kind::Integer { min: 0, max: 1_024 },
        "Network threads; 0 means one per core",
        "uses all cores; lower it to leave some for other programs";
    connections_max: usize = "65536", Kind::Integer { min: 1, max: 1_000_000 },
        "Most connections of clients and brokers; further ones are closed at once",
        "bounds memory and file descriptors; the limit of open files (ulimit -n) may lower it";
    backlog: u32 = "1024", Kind::Integer { min: 1, max: 65_535 },
        "Connections that the kernel holds until they are accepted, per port",
        "enough for the clients of a large group that reconnect at once",
        same("serverSocketBacklog");
    drain_timeout: Duration = "30s", times_ms(0, 3_600_000),
        "How long a stopping process waits for open requests",
        "longer than the long polling of usual clients",
        seconds("shutdownWaitTimeSeconds");
});
