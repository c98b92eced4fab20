//! The one table of Sluice's settings.
//!
//! A row says everything there is to say about a setting. From the rows come the typed structs, the
//! defaults, the sample file, the reference and the help; nothing about a setting is said twice.

mod broker;
mod network;
mod replication;
mod row;
mod storage;
mod tls;

use super::values::Values;

pub use broker::{Broker, Delay, Fetch, Group, Message, Offset, Query, Topic};
pub use network::{Amqp, Console, Listen, Log, Nameserver, Rocketmq, Server};
pub use replication::Replication;
pub use row::{Alias, Scope, Section, Setting};
pub use storage::{Retention, Storage};
pub use tls::Tls;

/// Every section, in the order of the sample file.
pub static SECTIONS: [Section; 19] = [
    Listen::SECTION,
    Nameserver::SECTION,
    Rocketmq::SECTION,
    Amqp::SECTION,
    Tls::SECTION,
    Console::SECTION,
    Broker::SECTION,
    Replication::SECTION,
    Storage::SECTION,
    Retention::SECTION,
    Topic::SECTION,
    Group::SECTION,
    Message::SECTION,
    Fetch::SECTION,
    Offset::SECTION,
    Delay::SECTION,
    Query::SECTION,
    Log::SECTION,
    Server::SECTION,
];

/// Everything that can be set, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where the process listens.
    pub listen: Listen,
    /// The name server.
    pub nameserver: Nameserver,
    /// The RocketMQ port of the broker.
    pub rocketmq: Rocketmq,
    /// The AMQP port of the broker.
    pub amqp: Amqp,
    /// TLS.
    pub tls: Tls,
    /// The console.
    pub console: Console,
    /// Who the broker is.
    pub broker: Broker,
    /// Its replicas.
    pub replication: Replication,
    /// The log and its files.
    pub storage: Storage,
    /// How long messages are kept.
    pub retention: Retention,
    /// Topics.
    pub topic: Topic,
    /// Groups and their clients.
    pub group: Group,
    /// What a message may be.
    pub message: Message,
    /// What a fetch returns.
    pub fetch: Fetch,
    /// Committed offsets.
    pub offset: Offset,
    /// Delayed messages.
    pub delay: Delay,
    /// Queries by key.
    pub query: Query,
    /// The process's own log.
    pub log: Log,
    /// Threads and connections.
    pub server: Server,
}

impl Settings {
    /// Gives the values their types; the error is the name of a row that does not fit its field.
    pub(super) fn take(values: &Values) -> Result<Self, &'static str> {
        Ok(Self {
            listen: Listen::take(values)?,
            nameserver: Nameserver::take(values)?,
            rocketmq: Rocketmq::take(values)?,
            amqp: Amqp::take(values)?,
            tls: Tls::take(values)?,
            console: Console::take(values)?,
            broker: Broker::take(values)?,
            replication: Replication::take(values)?,
            storage: Storage::take(values)?,
            retention: Retention::take(values)?,
            topic: Topic::take(values)?,
            group: Group::take(values)?,
            message: Message::take(values)?,
            fetch: Fetch::take(values)?,
            offset: Offset::take(values)?,
            delay: Delay::take(values)?,
            query: Query::take(values)?,
            log: Log::take(values)?,
            server: Server::take(values)?,
        })
    }
}

/// Every row, in the order of the sample file.
pub fn rows() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

/// The row of a dotted name.
pub fn find(name: &str) -> Option<&'static Setting> {
    rows().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_row_is_complete_and_its_default_is_valid() {
        let mut names = HashSet::new();
        for row in rows() {
            assert!(names.insert(row.name), "{} is there twice", row.name);
            assert!(row.meaning.len() > 10 && !row.meaning.ends_with('.'), "{}", row.name);
            assert!(row.reason.len() > 10 && !row.reason.ends_with('.'), "{}", row.name);
            if !row.default.is_empty() {
                let value = row.kind.read(row.default);
                let written = value.map(|value| value.to_string());
                assert_eq!(written.as_deref(), Ok(row.default), "default of {}", row.name);
            }
        }
    }

    #[test]
    fn a_rocketmq_key_means_one_setting_in_one_kind_of_file() {
        let mut keys = HashSet::new();
        for alias in rows().flat_map(|row| row.aliases) {
            assert!(keys.insert((alias.key, alias.scope as u8)), "{} is there twice", alias.key);
        }
    }
}
