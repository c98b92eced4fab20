//! A topic: what it allows, and its queues.

use base::limits::QUEUES_PER_TOPIC_MAX;
use base::{Permission, QueueId, Refusal, TopicName};
use format::document::TopicDocument;
use storage::Store;

use crate::queue::Queue;

/// A topic with its queues.
#[derive(Debug)]
pub struct Topic {
    /// Name.
    pub name: TopicName,
    /// Settings.
    pub settings: TopicDocument,
    /// Queues: as many as the larger of read and write queues.
    pub queues: Vec<Queue>,
}

impl Topic {
    /// A topic with its queues as the store has them.
    pub(super) fn new(store: &Store, name: TopicName, mut settings: TopicDocument) -> Self {
        name.as_str().clone_into(&mut settings.topic_name);
        let count = settings.read_queue_nums.max(settings.write_queue_nums).min(QUEUES_PER_TOPIC_MAX);
        let queues = (0..count).map(|number| Queue { index: store.queue(&name, QueueId(number)) }).collect();
        Self { name, settings, queues }
    }

    /// What it allows.
    pub const fn permission(&self) -> Permission {
        self.settings.permission()
    }

    /// A queue by its number.
    pub fn queue(&self, queue: QueueId) -> Result<&Queue, Refusal> {
        self.queues
            .get(queue.0 as usize)
            .ok_or_else(|| Refusal::no_queue_id(self.name.as_str(), queue, self.queues.len() as u32))
    }
}
