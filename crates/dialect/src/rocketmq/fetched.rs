//! Where a connection notes how far it has fetched: the cells of the topics and groups it fetched for last, found without text.

use std::sync::{Arc, Weak};

use base::{GroupName, QueueOffset};
use broker::{Broker, Fetch, FetchedOffsets, Topic};

/// Pairs of topic and group that are kept at hand: a consumer has few, each with its retry topic.
const ENTRIES_MAX: usize = 16;

struct Entry {
    /// As the catalog had it: a topic that was changed or made anew is another.
    topic: Weak<Topic>,
    group: GroupName,
    /// `None` if there was no room for it.
    offsets: Option<Arc<FetchedOffsets>>,
}

/// The cells at hand.
#[derive(Default)]
pub(super) struct FetchedCells {
    entries: Vec<Entry>,
    /// Replaced next, once there are many.
    oldest: usize,
}

impl FetchedCells {
    /// Notes where the next fetch begins.
    pub(super) fn note(&mut self, broker: &Broker, fetch: &Fetch, next: QueueOffset) {
        let topic = Arc::as_ptr(&fetch.topic);
        let known = self.entries.iter().find(|entry| entry.topic.as_ptr() == topic && entry.group == fetch.group);
        let offsets = match known {
            Some(entry) => entry.offsets.as_ref(),
            None => self.add(broker, fetch),
        };
        if let Some(offsets) = offsets {
            offsets.note(fetch.queue, next);
        }
    }

    fn add(&mut self, broker: &Broker, fetch: &Fetch) -> Option<&Arc<FetchedOffsets>> {
        let offsets = broker.fetched.offsets_of(&fetch.topic, &fetch.group);
        let entry = Entry { topic: Arc::downgrade(&fetch.topic), group: fetch.group.clone(), offsets };
        if self.entries.len() < ENTRIES_MAX {
            self.entries.push(entry);
            return self.entries.last()?.offsets.as_ref();
        }
        self.oldest = (self.oldest + 1) % ENTRIES_MAX;
        let replaced = self.entries.get_mut(self.oldest)?;
        *replaced = entry;
        replaced.offsets.as_ref()
    }
}
