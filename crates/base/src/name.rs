//! Names of topics and groups, checked once and then shared.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::limits::{
    GROUP_NAME_SIZE_MAX, INTERNAL_TOPIC_NAME_SIZE_MAX, RETRIED_GROUP_NAME_SIZE_MAX, TOPIC_NAME_SIZE_MAX,
};
use crate::offset::QueueNumber;
use crate::refusal::Refusal;

/// Prefix of the topic that holds a group's retries.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Prefix of the topic that holds a group's dead letters.
pub const DEAD_LETTER_PREFIX: &str = "%DLQ%";
/// Before the name of a light topic.
pub const LIGHT_PREFIX: &str = "%LMQ%";
/// Before the number of a message queue: so the store names the queues that are its lanes.
pub const MESSAGE_QUEUE_PREFIX: &str = "%MQ%";

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// A name known to be good: from our own constants or from a document we wrote.
            pub fn trusted(name: &str) -> Self {
                Self(Arc::from(name))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// Name of a topic.
    TopicName
);
name!(
    /// Name of a group of consumers or producers.
    GroupName
);

impl TopicName {
    /// Whether `name`, found in a record that may be damaged, can be that of a folder, and one below its parent.
    pub fn is_folder(name: &str) -> bool {
        !name.contains(['\0', '/']) && !matches!(name, "" | "." | "..")
    }

    /// Checks `name` as RocketMQ's validators do: not empty, `[%|a-zA-Z0-9_-]`, at most 127 bytes. Names of message queues are ours.
    pub fn checked(name: &str) -> Result<Self, Refusal> {
        let checked = Self::trusted(name);
        checked.check_size()?;
        check("topic", name, TOPIC_NAME_SIZE_MAX)?;
        if name.starts_with(MESSAGE_QUEUE_PREFIX) {
            let problem =
                format!("begins with {MESSAGE_QUEUE_PREFIX}, which stands for message queues; choose another name");
            return Err(Refusal::BadName { kind: "topic", name: shown(name), problem });
        }
        Ok(checked)
    }

    /// Whether records of this topic may be written. RocketMQ 5.x has made longer retry topics, which are read; RocketMQ 4.9 takes a
    /// record of one for the end of the log.
    #[inline]
    pub fn check_size(&self) -> Result<(), Refusal> {
        if self.0.len() <= TOPIC_NAME_SIZE_MAX { Ok(()) } else { Err(self.too_long()) }
    }

    #[cold]
    fn too_long(&self) -> Refusal {
        let mut problem = too_long(&self.0, TOPIC_NAME_SIZE_MAX);
        if self.retried_group().is_some() || self.holds_dead_letters() {
            problem += &format!(
                ": a group whose name is longer than {RETRIED_GROUP_NAME_SIZE_MAX} bytes has no retries and no dead letters, give it a shorter one"
            );
        }
        Refusal::BadName { kind: "topic", name: shown(&self.0), problem }
    }

    /// The topic of `group`'s retries.
    pub fn retry_of(group: &str) -> Self {
        Self(format!("{RETRY_PREFIX}{group}").into())
    }

    /// The topic of `group`'s dead letters.
    pub fn dead_letters_of(group: &str) -> Self {
        Self(format!("{DEAD_LETTER_PREFIX}{group}").into())
    }

    /// The group whose retries this topic holds, if it is a retry topic.
    pub fn retried_group(&self) -> Option<&str> {
        self.0.strip_prefix(RETRY_PREFIX)
    }

    /// Whether this topic holds some group's dead letters.
    pub fn holds_dead_letters(&self) -> bool {
        self.0.starts_with(DEAD_LETTER_PREFIX)
    }

    /// What the store knows the message queue of that number by; its lanes are queues of this topic.
    pub fn of_message_queue(number: QueueNumber) -> Self {
        Self::trusted(MessageQueueName::of(number).as_str())
    }

    /// The number of the message queue that this names, if it names one.
    pub fn message_queue(&self) -> Option<QueueNumber> {
        MessageQueueName::number_of(&self.0)
    }

    /// Whether it has one queue that lists records of other topics, and no settings of its own (RocketMQ `LMQ`).
    pub fn is_light(&self) -> bool {
        self.0.starts_with(LIGHT_PREFIX)
    }
}

/// The name by which the store knows a message queue, `%MQ%7`, without memory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageQueueName {
    bytes: [u8; MESSAGE_QUEUE_NAME_SIZE_MAX],
    start: u8,
}

/// Prefix and ten digits.
const MESSAGE_QUEUE_NAME_SIZE_MAX: usize = MESSAGE_QUEUE_PREFIX.len() + 10;

impl MessageQueueName {
    /// That of this number.
    pub fn of(number: QueueNumber) -> Self {
        let mut bytes = [0; MESSAGE_QUEUE_NAME_SIZE_MAX];
        let (mut start, mut rest) = (bytes.len(), number.0);
        // The lowest digit comes last; 0 has one too.
        for digit in bytes.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            start -= 1;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        start = start.saturating_sub(MESSAGE_QUEUE_PREFIX.len());
        let prefix = bytes.iter_mut().skip(start).zip(MESSAGE_QUEUE_PREFIX.bytes());
        prefix.for_each(|(byte, of_prefix)| *byte = of_prefix);
        Self { bytes, start: start as u8 }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        let text = self.bytes.get(usize::from(self.start)..).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// The number in such a name: `None` if it is none, or not as `of` writes it.
    pub fn number_of(name: &str) -> Option<QueueNumber> {
        let digits = name.strip_prefix(MESSAGE_QUEUE_PREFIX)?;
        let number = QueueNumber(digits.parse().ok()?);
        (Self::of(number).as_str() == name).then_some(number)
    }
}

impl GroupName {
    /// Checks `name` as RocketMQ's validators do: not empty, `[%|a-zA-Z0-9_-]`; at most 248 bytes.
    pub fn checked(name: &str) -> Result<Self, Refusal> {
        check("group", name, GROUP_NAME_SIZE_MAX)?;
        Ok(Self::trusted(name))
    }
}

fn check(kind: &'static str, name: &str, limit: usize) -> Result<(), Refusal> {
    let problem = if name.trim().is_empty() {
        "is empty".to_owned()
    } else if name.len() > limit {
        too_long(name, limit)
    } else if let Some(bad) = name.chars().find(|&c| !is_name_character(c)) {
        format!("contains {bad:?}; allowed are letters, digits and % | - _")
    } else {
        return Ok(());
    };
    Err(Refusal::BadName { kind, name: shown(name), problem })
}

fn too_long(name: &str, limit: usize) -> String {
    format!("is {} bytes long; at most {limit} are allowed", name.len())
}

fn shown(name: &str) -> String {
    name.chars().take(INTERNAL_TOPIC_NAME_SIZE_MAX).collect()
}

pub(crate) fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '%' | '|' | '-' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_name_says_what_is_wrong_with_it() {
        let problem = |name: &str| TopicName::checked(name).expect_err(name).to_string();
        assert!(problem("").contains("is empty"));
        assert!(problem(" ").contains("is empty"));
        assert!(problem("a b").contains("' '"));
        assert!(problem("日本").contains('日'));
        assert!(problem(&"x".repeat(128)).contains("128 bytes"));
        assert!(TopicName::checked(&"x".repeat(127)).is_ok());
        assert!(TopicName::checked(&format!("%RETRY%{}", "x".repeat(120))).is_ok());
        for prefix in [RETRY_PREFIX, DEAD_LETTER_PREFIX] {
            let name = format!("{prefix}{}", "x".repeat(128 - prefix.len()));
            assert!(
                problem(&name).contains("128 bytes") && problem(&name).contains("longer than 120 bytes has no retries")
            );
        }
        assert!(GroupName::checked("a.b").is_err());
    }

    #[test]
    fn a_message_queue_is_named_by_its_number_and_no_client_names_one() {
        for number in [0, 7, 10, 99_999, 1_000_000_000, u32::MAX].map(QueueNumber) {
            let name = TopicName::of_message_queue(number);
            assert_eq!(name.as_str(), format!("%MQ%{number}"));
            assert_eq!(name.message_queue(), Some(number));
            let problem = TopicName::checked(name.as_str()).expect_err("refused").to_string();
            assert!(problem.contains("%MQ%") && problem.contains("message queues"), "{problem}");
        }
        for name in ["%MQ%", "%MQ%07", "%MQ%+7", "%MQ%-1", "%MQ%4294967296", "%MQ%7x", "%mq%7", "MQ%7", "7", "x%MQ%7"] {
            assert_eq!(TopicName::trusted(name).message_queue(), None, "{name}");
        }
        assert!(TopicName::checked("%MQ%x").is_err() && TopicName::checked("x%MQ%7").is_ok());
    }
}
