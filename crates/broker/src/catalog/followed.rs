//! Topics and groups as a slave's master has them.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{GroupName, TopicName};
use format::document::DataVersion;
use format::state::StateChange;

use super::{Catalog, Snapshot, Topic};

impl Catalog {
    /// Makes changes of topics and groups that a master made. Queues of topics that are gone are for others to remove.
    pub(crate) fn follow(&self, changes: Vec<StateChange>) {
        let mut versions = self.changes.lock();
        let mut next = Snapshot::clone(&self.snapshot.load());
        let (mut topics, mut groups) = (None, None);
        for change in changes.clone() {
            match change {
                StateChange::Topic { settings, version } => {
                    let name = TopicName::trusted(&settings.topic_name);
                    let topic = Topic::new(self.state.store(), name.clone(), *settings);
                    next.topics.insert_mut(name, Arc::new(topic));
                    topics = Some(version);
                }
                StateChange::TopicRemoved { name, version } => {
                    next.topics.remove_mut(name.as_str());
                    topics = Some(version);
                }
                StateChange::Group { settings, version } => {
                    next.groups.insert_mut(GroupName::trusted(&settings.group_name), Arc::new(*settings));
                    groups = Some(version);
                }
                StateChange::GroupRemoved { name, version } => {
                    next.groups.remove_mut(name.as_str());
                    groups = Some(version);
                }
                _ => {}
            }
        }
        self.state.note(changes);
        if let Some(version) = topics {
            let version = later(versions.topics, version);
            self.publish_topics(&mut versions, next.clone(), version);
            self.host.registration_changed();
        }
        if let Some(version) = groups {
            let version = later(versions.groups, version);
            self.publish_groups(&mut versions, next, version);
        }
    }

    /// The queues of these topics were removed: those that are there again, by the same record or by one that comes, have others.
    pub(crate) fn renew_queues(&self, removed: &BTreeSet<TopicName>) {
        if removed.is_empty() {
            return;
        }
        let _no_change = self.changes.lock();
        let mut next = Snapshot::clone(&self.snapshot.load());
        for name in removed {
            if let Some(topic) = next.topics.get(name).cloned() {
                let renewed = Topic::new(self.state.store(), name.clone(), topic.settings.clone());
                next.topics.insert_mut(name.clone(), Arc::new(renewed));
            }
        }
        self.publish(next);
    }
}

/// Versions never go back: whoever knows a table's version does not look at it again.
fn later(known: DataVersion, of_master: DataVersion) -> DataVersion {
    if of_master.counter > known.counter { of_master } else { DataVersion { counter: known.counter + 1, ..of_master } }
}
