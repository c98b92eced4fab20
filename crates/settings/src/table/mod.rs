//! The one table of Sluice's settings.
//!
//! A row says everything there is to say about a setting. From the rows come the typed structs, the
//! defaults, the sample file, the reference and the help; nothing about a setting is said twice.

mod broker;
mod network;
mod storage;

use super::conversion::Conversion;
use super::kind::Kind;
use super::values::Values;

pub use broker::{Broker, Delay, Fetch, Group, Message, Offset, Query, Topic};
pub use network::{Console, Listen, Log, Nameserver, Rocketmq, Server};
pub use storage::{Retention, Storage};

/// One setting: a row of the table.
#[derive(Debug)]
pub struct Setting {
    /// Dotted name: section, then noun.
    pub name: &'static str,
    /// What its value must look like.
    pub kind: Kind,
    /// Its default, as a file would write it; empty for an optional setting.
    pub default: &'static str,
    /// What it is, in one line.
    pub meaning: &'static str,
    /// Why the default is what it is, in one line.
    pub reason: &'static str,
    /// The RocketMQ keys that mean it.
    pub aliases: &'static [Alias],
}

/// A RocketMQ key that means a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The key as RocketMQ spells it.
    pub key: &'static str,
    /// How its value becomes ours.
    pub conversion: Conversion,
    /// In whose files it means this setting.
    pub scope: Scope,
}

/// In whose files a RocketMQ key means a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In every file.
    Any,
    /// Only in a name server's file.
    NameServer,
    /// Only in a broker's file.
    Broker,
}

/// A named group of settings, with one line about it.
#[derive(Debug)]
pub struct Section {
    /// The part of the names before the dot.
    pub name: &'static str,
    /// What it is about.
    pub meaning: &'static str,
    /// Its settings.
    pub rows: &'static [Setting],
}

const fn same(key: &'static str) -> Alias {
    Alias { key, conversion: Conversion::Same, scope: Scope::Any }
}

const fn milliseconds(key: &'static str) -> Alias {
    Alias { key, conversion: Conversion::Unit("ms"), scope: Scope::Any }
}

const fn seconds(key: &'static str) -> Alias {
    Alias { key, conversion: Conversion::Unit("s"), scope: Scope::Any }
}

const fn converted(key: &'static str, conversion: Conversion) -> Alias {
    Alias { key, conversion, scope: Scope::Any }
}

const fn within(scope: Scope, key: &'static str) -> Alias {
    Alias { key, conversion: Conversion::Same, scope }
}

/// A port; 0 lets the system choose a free one.
const PORT: Kind = Kind::Integer { min: 0, max: 65_535 };

const fn times_ms(min: u64, max: u64) -> Kind {
    use std::time::Duration;
    Kind::Duration { min: Duration::from_millis(min), max: Duration::from_millis(max) }
}

/// Makes the struct of a section and its rows from one statement of them.
macro_rules! section {
    ($section:ident, $prefix:literal, $about:literal {
        $($field:ident : $type:ty = $default:literal, $kind:expr,
            $meaning:literal, $reason:literal $(, $alias:expr)* ;)*
    }) => {
        #[doc = $about]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $section {
            $(#[doc = $meaning] pub $field: $type,)*
        }

        impl $section {
            /// The rows that the fields come from.
            pub(crate) const SECTION: $crate::table::Section =
                $crate::table::Section {
                    name: $prefix,
                    meaning: $about,
                    rows: &[$($crate::table::Setting {
                        name: concat!($prefix, ".", stringify!($field)),
                        kind: $kind,
                        default: $default,
                        meaning: $meaning,
                        reason: $reason,
                        aliases: &[$($alias),*],
                    }),*],
                };

            pub(crate) fn take(
                values: &$crate::values::Values,
            ) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: values.take(concat!($prefix, ".", stringify!($field)))?,)*
                })
            }
        }
    };
}
use section;

/// Every section, in the order of the sample file.
pub static SECTIONS: [Section; 16] = [
    Listen::SECTION,
    Nameserver::SECTION,
    Rocketmq::SECTION,
    Console::SECTION,
    Broker::SECTION,
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
    /// The console.
    pub console: Console,
    /// Who the broker is.
    pub broker: Broker,
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
            console: Console::take(values)?,
            broker: Broker::take(values)?,
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
