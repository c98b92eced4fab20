//! The queues of a store by topic: what concerns one topic looks at its own queues alone, however many others there are.

use std::collections::HashMap;
use std::sync::Arc;

use base::{QueueId, TopicName};

use crate::queue_index::QueueIndex;

/// Queues by topic and number.
#[derive(Debug, Default)]
pub(crate) struct QueueTable {
    /// Each topic's in the order of their numbers; never none.
    topics: HashMap<TopicName, Vec<Arc<QueueIndex>>>,
    len: usize,
}

impl QueueTable {
    /// How many queues there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, topic: &str, queue: QueueId) -> Option<&Arc<QueueIndex>> {
        let queues = self.topics.get(topic)?;
        queues.get(place_of(queues, queue).ok()?)
    }

    /// A topic's queues, in the order of their numbers.
    pub(crate) fn of_topic(&self, topic: &str) -> &[Arc<QueueIndex>] {
        self.topics.get(topic).map_or(&[], Vec::as_slice)
    }

    /// All queues, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<QueueIndex>> {
        self.topics.values().flatten()
    }

    /// Topics that have queues, each with the highest number.
    pub(crate) fn topics(&self) -> impl Iterator<Item = (&TopicName, QueueId)> {
        self.topics.iter().filter_map(|(topic, queues)| Some((topic, queues.last()?.queue())))
    }

    /// Adds a queue; one of its name gives way to it.
    pub(crate) fn insert(&mut self, queue: Arc<QueueIndex>) {
        let queues = match self.topics.get_mut(queue.topic()) {
            Some(queues) => queues,
            None => self.topics.entry(queue.topic().clone()).or_default(),
        };
        match place_of(queues, queue.queue()) {
            Ok(place) => queues[place] = queue,
            Err(place) => {
                queues.insert(place, queue);
                self.len += 1;
            }
        }
    }

    /// Takes out a topic's queues, in the order of their numbers.
    pub(crate) fn remove_topic(&mut self, topic: &str) -> Vec<Arc<QueueIndex>> {
        let gone = self.topics.remove(topic).unwrap_or_default();
        self.len -= gone.len();
        gone
    }

    /// Takes out the queues that `is_gone` says.
    pub(crate) fn extract_if(&mut self, mut is_gone: impl FnMut(&QueueIndex) -> bool) -> Vec<Arc<QueueIndex>> {
        let mut gone = Vec::new();
        self.topics.retain(|_, queues| {
            gone.extend(queues.extract_if(.., |queue| is_gone(queue)));
            !queues.is_empty()
        });
        self.len -= gone.len();
        gone
    }
}

fn place_of(queues: &[Arc<QueueIndex>], number: QueueId) -> Result<usize, usize> {
    queues.binary_search_by_key(&number, |queue| queue.queue())
}
