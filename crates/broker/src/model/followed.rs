//! The model of a slave: what its master tells of it, kept for whoever becomes the master. Nobody is served by it.
//!
//! **Always holds**: it has what the log tells below its end, or what the master's tables told of later. **On a crash** a start finds it in
//! snapshot and log, like everything else.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{QueueNumber, TopicName};
use format::model::{ModelChange, Text};
use format::model_tables::ModelTables;
use format::state::StateChange;
use storage::StorageError;

use super::Model;

impl Model {
    /// Makes changes that the log of a slave's master tells of.
    pub(crate) fn follow(&self, changes: Vec<ModelChange>) {
        let mut followed = self.followed.lock();
        self.state.note(changes.iter().cloned().map(state_change).collect());
        changes.into_iter().for_each(|change| followed.apply(change));
    }

    /// Has the model as a slave's master has it.
    pub(crate) fn follow_table(&self, masters: &ModelTables) {
        let changes = self.followed.lock().changes_to(masters);
        self.follow(changes);
    }

    /// All that a slave knows of its master's, as changes.
    pub(super) fn followed_changes(&self) -> Vec<StateChange> {
        self.followed.lock().all_changes().map(state_change).collect()
    }

    /// The queues that hold their messages: all of a master; those of a slave that its next start knows.
    pub(crate) fn queue_numbers(&self) -> BTreeSet<QueueNumber> {
        if self.store.follows() {
            return self.followed.lock().queues.keys().copied().map(QueueNumber).collect();
        }
        self.hosts().iter().flat_map(|host| host.table.read().by_number.keys().copied().collect::<Vec<_>>()).collect()
    }

    /// Virtual host and name of such a queue.
    pub(crate) fn queue_of_number(&self, number: QueueNumber) -> Option<(Arc<str>, Text)> {
        if self.store.follows() {
            let followed = self.followed.lock();
            let queue = followed.queues.get(&number.0)?;
            return Some((queue.host.as_str().into(), queue.name.clone()));
        }
        self.hosts().iter().find_map(|host| {
            let table = host.table.read();
            let queue = table.by_number.get(&number)?;
            Some((queue.host().clone(), queue.wish().name.clone()))
        })
    }

    /// Removes what a slave's disk has of queues that no start would know: those that go with their master's process. What comes for them
    /// later begins them anew. Nothing may be appended meanwhile. Waits for the disk.
    pub(crate) fn remove_unknown(&self) -> Result<(), StorageError> {
        let known = self.queue_numbers();
        let unknown = self.store.message_queues().into_iter().filter(|number| !known.contains(number));
        unknown.into_iter().try_for_each(|number| self.store.remove_message_queue(number))
    }
}

pub(super) fn state_change(change: ModelChange) -> StateChange {
    StateChange::Model(Box::new(change))
}

/// Numbers of the message queues that some lease cursors are of.
pub(super) fn numbers_of<'a>(of: impl Iterator<Item = &'a str>) -> impl Iterator<Item = QueueNumber> {
    of.filter_map(|of| TopicName::trusted(of.split_once('@')?.0).message_queue())
}
