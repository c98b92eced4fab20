//! The catalog's tables as RocketMQ's documents have them: exports, and answers to whoever asks.

use std::sync::atomic::Ordering;

use format::document::{GroupTableDocument, TopicTableDocument};
use format::state::StateChange;

use super::Catalog;

impl Catalog {
    /// The topic table as a document.
    pub fn topic_table(&self) -> TopicTableDocument {
        let topics = self.topics();
        TopicTableDocument {
            data_version: self.topics_version(),
            topic_config_table: topics.iter().map(|t| (t.name.as_str().to_owned(), t.settings.clone())).collect(),
        }
    }

    /// The group table as a document.
    pub fn group_table(&self) -> GroupTableDocument {
        let (data_version, forbidden_table) = {
            let versions = self.changes.lock();
            (versions.groups, versions.forbidden.clone())
        };
        let groups = self.groups();
        GroupTableDocument {
            data_version,
            forbidden_table,
            subscription_group_table: groups.iter().map(|g| (g.group_name.clone(), (**g).clone())).collect(),
        }
    }

    /// Whether a document lacks a topic or group.
    pub fn is_unexported(&self) -> bool {
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

    /// Changes that lead to all topics and groups there are. Waits for whoever changes one.
    pub(crate) fn state_changes(&self) -> Vec<StateChange> {
        let versions = self.changes.lock();
        let topics = self
            .topics()
            .into_iter()
            .map(|topic| StateChange::Topic { settings: Box::new(topic.settings.clone()), version: versions.topics });
        let groups = self
            .groups()
            .into_iter()
            .map(|group| StateChange::Group { settings: Box::new((*group).clone()), version: versions.groups });
        topics.chain(groups).collect()
    }
}
