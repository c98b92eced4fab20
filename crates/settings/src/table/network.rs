//! Rows about listening, connections, threads and the process's own log.

use std::path::PathBuf;
use std::time::Duration;

use super::{Alias, PORT, Scope, milliseconds, same, seconds, section, times_ms, within};
use crate::choice::LogFormat;
use crate::kind::Kind;

section!(Listen, "listen", "Where the process listens" {
    host: String = "127.0.0.1", Kind::Host,
        "Address that every port listens on",
        "nothing is reachable from outside until asked for; 0.0.0.0 opens up",
        same("bindAddress");
});

section!(Nameserver, "nameserver", "The name server: which broker has which topic" {
    port: u16 = "9876", PORT,
        "Port of the name server; 0 lets the system choose",
        "the port that RocketMQ clients know",
        within(Scope::NameServer, "listenPort");
    broker_timeout: Duration = "2m", times_ms(1_000, 86_400_000),
        "How long a broker may be silent before its routes are dropped",
        "four missed registrations, as in RocketMQ";
    idle_timeout: Duration = "2m", times_ms(1_000, 86_400_000),
        "How long a connection to the name server may be silent before it is closed; with a broker's go its routes",
        "as broker_timeout",
        Alias { scope: Scope::NameServer, ..seconds("serverChannelMaxIdleTimeSeconds") };
    scan_interval: Duration = "5s", times_ms(100, 3_600_000),
        "How often silent brokers are looked for",
        "short against broker_timeout",
        milliseconds("scanNotActiveBrokerInterval");
    kv_path: Option<PathBuf> = "", Kind::Path,
        "File of the key-value table; when not set, nameserver/kvConfig.json in the (first) data directory",
        "beside the other data",
        same("kvConfigPath");
    order_messages: bool = "false", Kind::Boolean,
        "Whether routes carry the fixed queue order of ordered topics",
        "few clusters fix it, as in RocketMQ",
        same("orderMessageEnable");
    return_order_topics: bool = "true", Kind::Boolean,
        "Whether a registering broker is told which topics are ordered",
        "as in RocketMQ",
        same("returnOrderTopicConfigToBroker");
    list_all_topics: bool = "true", Kind::Boolean,
        "Whether the names of all topics may be listed",
        "the admin tools need it",
        same("enableAllTopicList");
    list_topics: bool = "true", Kind::Boolean,
        "Whether the topics of a cluster, a unit or the system may be listed",
        "the admin tools need it",
        same("enableTopicList");
    delete_topics_on_registration: bool = "false", Kind::Boolean,
        "Whether a topic missing from a broker's registration is dropped from its routes",
        "a broker that starts empty must not take routes away, as in RocketMQ",
        same("deleteTopicWithBrokerRegistration");
});

section!(Rocketmq, "rocketmq", "The port that RocketMQ clients use" {
    port: u16 = "10911", PORT,
        "Port of the broker for RocketMQ clients; 0 lets the system choose",
        "the port that a RocketMQ broker has by default",
        within(Scope::Broker, "listenPort");
    idle_timeout: Duration = "2m", times_ms(1_000, 86_400_000),
        "How long a connection may be silent before it is closed",
        "four missed heartbeats, as in RocketMQ",
        Alias { scope: Scope::Broker, ..seconds("serverChannelMaxIdleTimeSeconds") };
});

section!(Console, "console", "Web pages, admin interface, metrics and health" {
    port: u16 = "8080", PORT,
        "Port of the console; 0 lets the system choose",
        "the usual port of a web console";
});

section!(Log, "log", "What the process says about itself" {
    format: LogFormat = "text", Kind::Choice { known: &["text", "json"], later: &[] },
        "Form of the log lines",
        "read by people first";
    level: String = "info", Kind::Text,
        "Least severity that is logged: error, warn, info, debug or trace, also per crate (info,storage=debug)",
        "one line for each event that an operator acts on";
});

section!(Server, "server", "Threads and connections of the process" {
    threads: usize = "0", Kind::Integer { min: 0, max: 1_024 },
        "Network threads; 0 means one for each core",
        "every core is used, and none is shared by two threads";
    connections_max: usize = "65536", Kind::Integer { min: 1, max: 1_000_000 },
        "Connections of clients and brokers held at once; more are closed at once",
        "bounds memory and file descriptors, above what one broker usually serves";
    backlog: u32 = "1024", Kind::Integer { min: 1, max: 65_535 },
        "Connections that may wait to be accepted",
        "enough for all clients of a large group coming back at once",
        same("serverSocketBacklog");
    drain_timeout: Duration = "30s", times_ms(0, 3_600_000),
        "How long a stopping process waits for open requests",
        "longer than the long polling of a usual client",
        seconds("shutdownWaitTimeSeconds");
});
