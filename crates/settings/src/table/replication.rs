//! Rows about the replicas of a broker.

use std::time::Duration;

use super::row::{PORT, milliseconds, same, section, times_ms};
use crate::kind::Kind;

section!(Replication, "replication", "Replicas of the broker: RocketMQ's slaves" {
    port: Option<u16> = "", PORT,
        "TCP port for replicas; 0 lets the system choose; when not set, rocketmq.port + 1",
        "the port that RocketMQ's slaves expect; whoever connects gets the whole log, and TLS is not spoken there",
        same("haListenPort");
    copies: u32 = "2", Kind::Integer { min: 1, max: 64 },
        "Copies that a message has before its producer is answered with broker.role = sync_master, the broker's own among them; 1 means 2",
        "one replica, as with RocketMQ 4; RocketMQ 5 has 1, with which it waits for none",
        same("inSyncReplicas");
    gap_max: u64 = "256MiB", Kind::Bytes { min: 1024, max: 1 << 50 },
        "How far behind a replica may be and still be waited for, in bytes of the log",
        "as in RocketMQ; producers are told at once (11) that no replica is in reach, rather than after the timeout",
        same("haMaxGapNotInSync");
    timeout: Duration = "3s", times_ms(1, 3_600_000),
        "Time limit for replicas to have a message whose producer waits for them",
        "as in RocketMQ; the message is stored all the same, and the producer told (12)",
        milliseconds("slaveTimeout");
    heartbeat_interval: Duration = "5s", times_ms(100, 3_600_000),
        "How often a replica hears from the broker if there is nothing to send",
        "a quarter of the silence that a RocketMQ slave takes for a lost connection",
        milliseconds("haSendHeartbeatInterval");
    silence_max: Duration = "20s", times_ms(1_000, 3_600_000),
        "Time without a word from a replica after which its connection is closed",
        "as in RocketMQ, whose slaves report every 5 s",
        milliseconds("haHousekeepingInterval");
    master: Vec<String> = "", Kind::Addresses,
        "Where a slave finds its master's log (host:port of its replication.port); when not set, name servers tell",
        "name servers know it, also after the master has moved",
        same("haMasterAddress");
    slave_reads: bool = "false", Kind::Boolean,
        "Whether consumers that are far behind read from a slave while there is a master; without one they always do",
        "as in RocketMQ: a slave may lack the newest messages for a moment",
        same("slaveReadEnable");
    acting_master: bool = "true", Kind::Boolean,
        "Whether name servers may show a slave in the master's place while there is none, for reading",
        "consumers that have just started ask only a master where they stand; RocketMQ 5 has false",
        same("enableSlaveActingMaster");
});
