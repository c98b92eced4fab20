//! The catalog's tables as documents: exports, and answers to whoever asks.

use std::sync::atomic::Ordering;

use format::document::{GroupTableDocument, TopicTableDocument};
use format::state::StateChange;

use super::Catalog;

impl Catalog {
    /// The topic table as a document.
    pub fn topic_table(&self) -> TopicTableDocument {
        // At once: whoever knows the version of a table does not look at the table again.
        let (data_version, snapshot) = {
            let versions = self.changes.lock();
            (versions.topics, self.snapshot.load_full())
        };
        let topics = snapshot.topics.iter();
        TopicTableDocument {
            data_version,
            topic_config_table: topics
                .map(|(name, topic)| (name.as_str().to_owned(), topic.settings.clone()))
                .collect(),
        }
    }

    /// The group table as a document.
    pub fn group_table(&self) -> GroupTableDocument {
        let (data_version, forbidden_table, snapshot) = {
            let versions = self.changes.lock();
            (versions.groups, versions.forbidden.clone(), self.snapshot.load_full())
        };
        let groups = snapshot.groups.iter();
        GroupTableDocument {
            data_version,
            forbidden_table,
            subscription_group_table: groups
                .map(|(name, group)| (name.as_str().to_owned(), (**group).clone()))
                .collect(),
        }
    }

    /// Whether a document lacks a topic or group.
    pub(crate) fn is_unexported(&self) -> bool {
        self.topics_unexported.load(Ordering::Acquire) || self.groups_unexported.load(Ordering::Acquire)
    }

    /// The table of topics, if it has changed since it was last asked for here.
    pub(crate) fn take_topics_to_export(&self) -> Option<TopicTableDocument> {
        self.topics_unexported.swap(false, Ordering::AcqRel).then(|| self.topic_table())
    }

    /// The table of groups, if it has changed since it was last asked for here.
    pub(crate) fn take_groups_to_export(&self) -> Option<GroupTableDocument> {
        self.groups_unexported.swap(false, Ordering::AcqRel).then(|| self.group_table())
    }

    /// The tables could not be written: they are to be asked for again.
    pub(crate) fn note_unexported(&self) {
        self.topics_unexported.store(true, Ordering::Release);
        self.groups_unexported.store(true, Ordering::Release);
    }

    /// Changes that lead to all topics and groups there are, and say of topics that their queues are still to go. Waits for whoever changes one.
    pub(crate) fn state_changes(&self) -> Vec<StateChange> {
        let versions = self.changes.lock();
        let leaving = versions
            .leaving
            .iter()
            .map(|name| StateChange::TopicRemoved { name: name.clone(), version: versions.topics });
        let topics = self
            .topics()
            .into_iter()
            .map(|topic| StateChange::Topic { settings: Box::new(topic.settings.clone()), version: versions.topics });
        let groups = self
            .groups()
            .into_iter()
            .map(|group| StateChange::Group { settings: Box::new((*group).clone()), version: versions.groups });
        leaving.chain(topics).chain(groups).collect()
    }
}
