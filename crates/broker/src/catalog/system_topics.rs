//! Topics that belong to the broker rather than to users.

use base::{Now, TopicName};
use format::document::TopicDocument;
use format::index_rules::DELAY_TOPIC;
use format::state::STATE_TOPIC;

use super::Catalog;
use crate::options::SystemTopic;

impl Catalog {
    /// Makes those that are not there.
    pub(crate) fn make_system_topics(&self, now: Now) {
        if let Err(refusal) = self.delay_topic(now) {
            tracing::warn!(topic = DELAY_TOPIC, %refusal, "a system topic cannot be made");
        }
        for SystemTopic { name, queues, permission } in &self.options.system_topics.made {
            if self.topic(name).is_some() {
                continue;
            }
            let settings = TopicDocument::plain(*queues, *permission);
            let made = TopicName::checked(name).and_then(|name| self.put_topic(name, settings, now).map(|_| ()));
            if let Err(refusal) = made {
                tracing::warn!(topic = name, %refusal, "a system topic cannot be made");
            }
        }
    }

    /// Names of topics that belong to the broker rather than to users.
    pub fn system_topics(&self) -> &[String] {
        &self.options.system_topics.reserved
    }

    /// Whether only the broker writes to topics of this name.
    pub(crate) fn is_write_protected(&self, name: &str) -> bool {
        name == DELAY_TOPIC
            || name == STATE_TOPIC
            || self.options.system_topics.unwritable.iter().any(|protected| protected == name)
    }
}
