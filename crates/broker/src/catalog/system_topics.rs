//! Topics that belong to the broker rather than to users.

use std::sync::Arc;

use base::{Now, Refusal, TopicName};
use format::document::TopicDocument;
use format::index_rules::DELAY_TOPIC;
use format::state::STATE_TOPIC;

use super::{Catalog, Topic};
use crate::options::SystemTopic;

impl Catalog {
    /// Makes those that are not there.
    pub(crate) fn make_system_topics(&self, now: Now) {
        if let Err(refusal) = self.delay_topic(now) {
            tracing::warn!(topic = DELAY_TOPIC, %refusal, "a system topic cannot be made");
        }
        for system in &self.options.system_topics.made {
            if let Err(refusal) = self.system_topic(system, now) {
                tracing::warn!(topic = system.name, %refusal, "a system topic cannot be made");
            }
        }
    }

    fn system_topic(&self, system: &SystemTopic, now: Now) -> Result<Arc<Topic>, Refusal> {
        match self.topic(&system.name) {
            Some(topic) => Ok(topic),
            None => {
                let settings = TopicDocument::plain(system.queues, system.permission);
                self.put_topic(TopicName::checked(&system.name)?, settings, now)
            }
        }
    }

    /// The topic whose settings the topic `wanted` takes. On a disk without room it could not be made at the start: it is tried again, so
    /// that who sends is told the reason.
    pub(super) fn template(&self, name: &str, wanted: &str, now: Now) -> Result<Arc<Topic>, Refusal> {
        match self.options.system_topics.made.iter().find(|system| system.name == name) {
            Some(system) => self.system_topic(system, now),
            None => self.topic(name).ok_or_else(|| Refusal::NoSuchTopic(wanted.to_owned())),
        }
    }

    /// Names of topics that belong to the broker rather than to users.
    pub fn system_topics(&self) -> &[String] {
        &self.options.system_topics.reserved
    }

    /// Whether only the broker writes to topics of this name.
    pub fn is_write_protected(&self, name: &str) -> bool {
        name == DELAY_TOPIC
            || name == STATE_TOPIC
            || self.options.system_topics.unwritable.iter().any(|protected| protected == name)
    }
}
