//! Names of topics and groups, checked once and then shared.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::limits::{
    GROUP_NAME_SIZE_MAX, INTERNAL_TOPIC_NAME_SIZE_MAX, RETRIED_GROUP_NAME_SIZE_MAX, TOPIC_NAME_SIZE_MAX,
};
use crate::refusal::Refusal;

/// Prefix of the topic that holds a group's retries.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Prefix of the topic that holds a group's dead letters.
pub const DEAD_LETTER_PREFIX: &str = "%DLQ%";
/// Before the name of a light topic.
pub const LIGHT_PREFIX: &str = "%LMQ%";

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

    /// Checks `name` as RocketMQ's validators do: not empty, `[%|a-zA-Z0-9_-]`, at most 127 bytes.
    pub fn checked(name: &str) -> Result<Self, Refusal> {
        let checked = Self::trusted(name);
        checked.check_size()?;
        check("topic", name, TOPIC_NAME_SIZE_MAX)?;
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

    /// Whether it has one queue that lists records of other topics, and no settings of its own (RocketMQ `LMQ`).
    pub fn is_light(&self) -> bool {
        self.0.starts_with(LIGHT_PREFIX)
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
}
