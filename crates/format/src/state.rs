//! Changes of a broker's state: topics, groups, committed offsets, settled leases, progress of delayed messages, how groups ask for
//! messages. Each is a record of the log.
//!
//! A state record has the topic `rmq_sys_sluice_state`, queue 0, no properties but the checksum that every record of its log may have, and
//! in its system flag ROLLBACK and a bit of our own, so that a Java broker makes neither queue entry nor key of it. Its body:
//!
//! ```text
//! offset  size  field
//!      0     1  version of what follows: 1
//!      1     n  the changes, as postcard encodes a list of `StateChange`
//! ```
//! Changes hold absolute values: applied twice, or again after later ones of the same log, they lead to the same state.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use base::{QueueId, QueueNumber, Timestamp, TopicName};
use serde::{Deserialize, Serialize};

use crate::document::{DataVersion, GroupDocument, TopicDocument};
use crate::lease::LeaseChange;
use crate::model::ModelChange;
use crate::record::{Draft, system_flag};
use crate::request_mode::{RequestMode, RequestModeDocument};

/// Topic of state records: no client may send to it.
pub const STATE_TOPIC: &str = "rmq_sys_sluice_state";

/// Version of the encoding that is written.
pub const STATE_VERSION: u8 = 1;

/// Bytes of changes above which they are split over several records; a single change may be longer.
pub const STATE_BODY_SIZE_MAX: usize = 1 << 20;

/// One change, with absolute values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StateChange {
    /// A topic is there, with these settings.
    Topic {
        /// Its settings, name included.
        #[serde(with = "as_json")]
        settings: Box<TopicDocument>,
        /// Version of the table of topics with this change.
        version: DataVersion,
    },
    /// A topic is not there, and neither are its messages of before.
    TopicRemoved {
        /// Its name.
        name: String,
        /// Version of the table of topics with this change.
        version: DataVersion,
    },
    /// A group is there, with these settings.
    Group {
        /// Its settings, name included.
        #[serde(with = "as_json")]
        settings: Box<GroupDocument>,
        /// Version of the table of groups with this change.
        version: DataVersion,
    },
    /// A group is not there.
    GroupRemoved {
        /// Its name.
        name: String,
        /// Version of the table of groups with this change.
        version: DataVersion,
    },
    /// How far a group has come in queues of a topic.
    Offsets {
        /// Topic and group, as `consumerOffset.json` names them: `topic@group`.
        of: String,
        /// Whether other queues have no offset.
        replaces: bool,
        /// Committed offsets by queue.
        offsets: BTreeMap<u32, i64>,
    },
    /// How far a delay level is delivered.
    Delay {
        /// The level, from 1.
        level: u32,
        /// Every message below this offset of its queue is delivered.
        delivered: u64,
    },
    /// A document that a Java broker wrote is taken in.
    Imported {
        /// Name of its file.
        document: String,
        /// CRC-32 of its text: the same text is not taken in again.
        checksum: u32,
    },
    /// What of a queue a group has settled whose messages are handed out one by one.
    Leases {
        /// Topic and group: `topic@group`.
        of: String,
        /// The queue.
        queue: u32,
        /// Whether what was known before does not count.
        replaces: bool,
        /// What has changed, or all of it.
        change: LeaseChange,
    },
    /// Of no queue is anything known that the group has settled in that way.
    LeasesRemoved {
        /// Topic and group: `topic@group`.
        of: String,
    },
    /// How a group asks for messages of a topic.
    RequestMode {
        /// What was said, with topic and group.
        #[serde(with = "as_json")]
        settings: Box<RequestModeDocument>,
    },
    /// Nothing is said of how a group asks for messages of a topic.
    RequestModeRemoved {
        /// The topic.
        topic: String,
        /// The group.
        group: String,
    },
    /// Of virtual hosts and what is in them.
    Model(Box<ModelChange>),
}

impl StateChange {
    /// Whether no document tells of it: what groups have settled message by message, and virtual hosts with what is in them.
    pub const fn is_undocumented(&self) -> bool {
        matches!(self, Self::Leases { .. } | Self::LeasesRemoved { .. } | Self::Model(_))
    }

    /// In which of `parts` parts it is told where all changes are too long for one answer: the same whenever it is asked.
    pub fn part_of(&self, parts: u32) -> u32 {
        let subject = match self {
            Self::Leases { of, queue, .. } => postcard::to_allocvec(&(of, queue)),
            Self::Model(change) => postcard::to_allocvec(&change.subject()),
            // Of nothing else are there so many.
            _ => return 0,
        };
        subject.map_or(0, |subject| crc32fast::hash(&subject)) % parts.max(1)
    }

    /// The topic whose queues go with it: a topic's that is removed, or a message queue's.
    pub fn removed_topic(&self) -> Option<TopicName> {
        match self {
            Self::TopicRemoved { name, .. } => Some(TopicName::trusted(name)),
            Self::Model(change) => match **change {
                ModelChange::QueueRemoved(number) => Some(TopicName::of_message_queue(QueueNumber(number))),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Offsets that are named, of those of one change.
const OFFSETS_NAMED_MAX: usize = 16;

/// For people who look at a log.
impl fmt::Display for StateChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic { settings, .. } => write!(
                out,
                "topic {}: {} read queues, {} write queues, permission {}",
                settings.topic_name, settings.read_queue_nums, settings.write_queue_nums, settings.perm
            ),
            Self::TopicRemoved { name, .. } => write!(out, "topic {name} is removed"),
            Self::Group { settings, .. } => write!(
                out,
                "group {}: {} retry queues, {} retries at most, may {}consume",
                settings.group_name,
                settings.retry_queue_nums,
                settings.retry_max_times,
                if settings.consume_enable { "" } else { "not " }
            ),
            Self::GroupRemoved { name, .. } => write!(out, "group {name} is removed"),
            Self::Offsets { of, replaces: true, offsets } if offsets.is_empty() => write!(out, "no offsets of {of}"),
            Self::Offsets { of, replaces, offsets } => {
                write!(out, "offsets of {of}{}", if *replaces { ", and no others" } else { "" })?;
                for (number, (queue, offset)) in offsets.iter().take(OFFSETS_NAMED_MAX).enumerate() {
                    write!(out, "{} queue {queue} at {offset}", if number == 0 { ":" } else { "," })?;
                }
                match offsets.len().saturating_sub(OFFSETS_NAMED_MAX) {
                    0 => Ok(()),
                    more => write!(out, " and {more} more"),
                }
            }
            Self::Delay { level, delivered } => write!(out, "delay level {level} is delivered up to {delivered}"),
            Self::Imported { document, checksum: 0 } => write!(out, "{document} is ours again"),
            Self::Imported { document, checksum } => {
                write!(out, "{document} of a RocketMQ broker is taken over (CRC-32 {checksum:08x})")
            }
            Self::Leases { of, queue, replaces, change } => {
                write!(out, "leases of {of} queue {queue}{}: {change}", if *replaces { ", all" } else { "" })
            }
            Self::LeasesRemoved { of } => write!(out, "no leases of {of}"),
            Self::RequestMode { settings } => {
                let RequestModeDocument { topic, consumer_group, mode, pop_share_queue_num } = &**settings;
                write!(out, "{topic}@{consumer_group} is consumed by {}", mode.name())?;
                match mode {
                    RequestMode::Pull => Ok(()),
                    RequestMode::Pop => write!(out, ", sharing queues of {pop_share_queue_num}"),
                }
            }
            Self::RequestModeRemoved { topic, group } => {
                write!(out, "nothing is said of how {topic}@{group} is consumed")
            }
            Self::Model(change) => change.fmt(out),
        }
    }
}

/// Why changes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// They are of a newer version.
    #[error(
        "its state is of version {0}, and this Sluice reads version {STATE_VERSION} and below: start the newer Sluice again"
    )]
    Newer(u8),
    /// They are no changes.
    #[error("it holds no changes of state: {0}")]
    Damaged(String),
}

/// The bytes of some changes.
pub fn encode(changes: &[StateChange]) -> Vec<u8> {
    // Only a type that cannot say how long it is fails, and there is none in it.
    postcard::to_extend(changes, vec![STATE_VERSION]).unwrap_or_default()
}

/// The changes that some bytes are.
pub fn decode(bytes: &[u8]) -> Result<Vec<StateChange>, StateError> {
    match bytes.split_first() {
        Some((&STATE_VERSION, changes)) => {
            let (changes, rest): (Vec<StateChange>, _) =
                postcard::take_from_bytes(changes).map_err(|error| StateError::Damaged(error.to_string()))?;
            if !rest.is_empty() {
                return Err(StateError::Damaged("there is something behind them".to_owned()));
            }
            let is_sound =
                |change: &StateChange| !matches!(change, StateChange::Leases { change, .. } if !change.is_sound());
            match changes.iter().find(|change| !is_sound(change)) {
                None => Ok(changes),
                Some(change) => Err(StateError::Damaged(format!("no queue can have come to this: {change}"))),
            }
        }
        Some((0, _)) | None => Err(StateError::Damaged("they have no version".to_owned())),
        Some((&version, _)) => Err(StateError::Newer(version)),
    }
}

/// The record that holds a body of changes. `properties` are the checksum that every record of the log ends
/// with, or nothing: a Java broker that asks for checksums takes the log to end at a record that has none.
pub fn draft<'a>(body: &'a [u8], properties: &'a [&'a [u8]], host: SocketAddr, now: Timestamp) -> Draft<'a> {
    Draft {
        topic: STATE_TOPIC,
        queue: QueueId(0),
        flag: 0,
        system_flag: system_flag::TRANSACTION_ROLLBACK | system_flag::STATE,
        born_timestamp: now,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties,
    }
}

/// A document within a change, as JSON text: of some of its members only the text tells the type.
mod as_json {
    use serde::de::{DeserializeOwned, Error as _};
    use serde::ser::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(document: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::to_string(document).map_err(S::Error::custom)?.serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        serde_json::from_str(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use base::QueueOffset;

    use super::*;

    fn changes() -> Vec<StateChange> {
        let version = DataVersion { counter: 7, state_version: 0, timestamp: 5 };
        let topic = TopicDocument { topic_name: "orders".to_owned(), read_queue_nums: 3, ..TopicDocument::default() };
        let group = GroupDocument { group_name: "billing".to_owned(), ..GroupDocument::default() };
        let offsets = BTreeMap::from([(0, 17), (5, i64::MAX), (65_535, -1)]);
        let mode = RequestModeDocument {
            consumer_group: "billing".to_owned(),
            mode: RequestMode::Pop,
            pop_share_queue_num: 2,
            topic: "orders".to_owned(),
        };
        vec![
            StateChange::Topic { settings: Box::new(topic), version },
            StateChange::TopicRemoved { name: "gone".to_owned(), version },
            StateChange::Group { settings: Box::new(group), version },
            StateChange::GroupRemoved { name: "gone".to_owned(), version },
            StateChange::Offsets { of: "orders@billing".to_owned(), replaces: false, offsets },
            StateChange::Delay { level: 3, delivered: u64::MAX },
            StateChange::Imported { document: "topics.json".to_owned(), checksum: u32::MAX },
            StateChange::Leases { of: "orders@billing".to_owned(), queue: 3, replaces: true, change: leases() },
            StateChange::LeasesRemoved { of: "orders@billing".to_owned() },
            StateChange::RequestMode { settings: Box::new(mode) },
            StateChange::RequestModeRemoved { topic: "orders".to_owned(), group: "gone".to_owned() },
        ]
    }

    fn leases() -> LeaseChange {
        LeaseChange::of(QueueOffset(7), [(9, 12)].into_iter(), [(7, 2), (8, 1)].into_iter(), QueueOffset(20))
    }

    #[test]
    fn changes_come_out_as_they_went_in() {
        assert_eq!(decode(&encode(&changes())), Ok(changes()));
        assert_eq!(decode(&encode(&[])), Ok(Vec::new()));
    }

    #[test]
    fn a_change_can_be_told_in_words() {
        let many = (0..20).map(|queue| (queue, 1)).collect();
        let offsets = StateChange::Offsets { of: "orders@billing".to_owned(), replaces: true, offsets: many };
        let none = StateChange::Offsets { of: "orders@billing".to_owned(), replaces: true, offsets: BTreeMap::new() };
        let ours = StateChange::Imported { document: "topics.json".to_owned(), checksum: 0 };
        let words: Vec<_> = changes().into_iter().chain([offsets, none, ours]).map(|one| one.to_string()).collect();
        assert_eq!(words[0], "topic orders: 3 read queues, 16 write queues, permission 6");
        assert_eq!(words[1], "topic gone is removed");
        assert_eq!(words[2], "group billing: 1 retry queues, 16 retries at most, may consume");
        assert_eq!(words[3], "group gone is removed");
        assert_eq!(
            words[4],
            "offsets of orders@billing: queue 0 at 17, queue 5 at 9223372036854775807, queue 65535 at -1"
        );
        assert_eq!(words[5], "delay level 3 is delivered up to 18446744073709551615");
        assert_eq!(words[6], "topics.json of a RocketMQ broker is taken over (CRC-32 ffffffff)");
        assert_eq!(
            words[7],
            "leases of orders@billing queue 3, all: settled below 7 and 3 above, 2 given back, handed out below 20"
        );
        assert_eq!(words[8], "no leases of orders@billing");
        assert_eq!(words[9], "orders@billing is consumed by POP, sharing queues of 2");
        assert_eq!(words[10], "nothing is said of how orders@gone is consumed");
        assert!(words[11].starts_with("offsets of orders@billing, and no others: queue 0 at 1,"), "{}", words[11]);
        assert!(words[11].ends_with("queue 15 at 1 and 4 more"), "{}", words[11]);
        assert_eq!((&*words[12], &*words[13]), ("no offsets of orders@billing", "topics.json is ours again"));
    }

    #[test]
    fn an_offset_of_a_known_group_takes_few_bytes() {
        let one = |count: u32| {
            let offsets = (0..count).map(|queue| (queue, 1_000_000)).collect();
            encode(&[StateChange::Offsets { of: "orders@billing".to_owned(), replaces: false, offsets }]).len()
        };
        assert_eq!((one(1), one(101) - one(1)), (24, 400));
    }

    #[test]
    fn leases_that_no_queue_can_have_come_to_are_an_error() {
        let everything =
            LeaseChange::of(QueueOffset(0), [(0, u64::MAX - 1)].into_iter(), [].into_iter(), QueueOffset(0));
        let change = StateChange::Leases { of: "a@b".to_owned(), queue: 0, replaces: false, change: everything };
        assert!(matches!(decode(&encode(&[change])), Err(StateError::Damaged(_))));
    }

    #[test]
    fn what_is_cut_or_of_a_newer_version_is_an_error() {
        let bytes = encode(&changes());
        for size in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..size]), Err(StateError::Damaged(_))), "{size} bytes");
        }
        let newer = [&[STATE_VERSION + 1], &bytes[1..]].concat();
        assert_eq!(decode(&newer), Err(StateError::Newer(STATE_VERSION + 1)));
        assert!(matches!(decode(&[&bytes[..], &[0]].concat()), Err(StateError::Damaged(_))));
    }
}
